package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// What stands before a vision-language network: sizes, patches, positions, texts.

var visionLanguageOps = map[string]Op{
	"vlm.chat_template":      vlmChat,
	"vlm.detokenize":         func(c *Case) { putDecoded(c, vlmTokens(c), to[int32](c.Ints("ids"))) },
	"vlm.expand_images":      vlmExpand,
	"vlm.pixel_budget":       vlmBudget,
	"vlm.preprocess":         vlmPreprocess,
	"vlm.retokenize_drift":   vlmDrift,
	"vlm.rope_index":         vlmPositions,
	"vlm.rope_index_classic": vlmPositions,
	"vlm.smart_resize":       vlmSize,
	"vlm.special_ids":        vlmSpecial,
	"vlm.tokenize":           vlmTokenize,
	"vlm.vision_positions":   vlmPlaces,
	"vlm.window_index":       vlmWindows,
}

// groups reads a list of lists of n whole numbers.
func groups(c *Case, name string, n int) [][]int {
	all := c.Ints(name)
	if len(all)%n != 0 {
		c.wrong(name, fmt.Sprintf("a list of lists of %d numbers", n))
		return nil
	}
	return times(len(all)/n, func(i int) []int { return all[n*i : n*i+n] })
}

func gridsOf(c *Case, name string) []vlm.Grid {
	all := each(groups(c, name, 3), func(g []int) vlm.Grid { return vlm.Grid{Frames: g[0], Rows: g[1], Columns: g[2]} })
	return all
}

func gridRows(grids []vlm.Grid) [][]int {
	return each(grids, func(g vlm.Grid) []int { return []int{g.Frames, g.Rows, g.Columns} })
}

func vlmSize(c *Case) {
	rule := sizeRuleNamed(c.String("variant"))
	factor, p := c.Int("factor"), vlm.Pixels{Min: c.Int("min_pixels"), Max: c.Int("max_pixels")}
	var sizes, tokens, complaints []any
	for _, s := range groups(c, "sizes", 2) {
		w, h, err := rule.Size(s[1], s[0], factor, p)
		var thin vlm.TooThin
		switch {
		case errors.As(err, &thin):
			sizes, tokens = append(sizes, nil), append(tokens, nil)
			complaints = append(complaints, "ValueError: absolute aspect ratio must be smaller than 200, got "+pythonFloat(thin.Ratio))
		default:
			check(err)
			sizes, tokens = append(sizes, []int{h, w}), append(tokens, (h/factor)*(w/factor))
			complaints = append(complaints, nil)
		}
	}
	c.Put("sizes", sizes, "tokens", tokens, "errors", complaints)
}

// pythonFloat writes a number of moderate size as Python does.
func pythonFloat(x float64) string {
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if x == math.Trunc(x) {
		text += ".0"
	}
	return text
}

func vlmBudget(c *Case) {
	p := vlm.Pixels{Min: c.Int("min_pixels"), Max: c.Int("max_pixels")}
	var sizes []any
	for _, s := range groups(c, "sizes_wh", 2) {
		w, h, err := p.Budget(s[0], s[1])
		if err != nil {
			sizes = append(sizes, nil)
			continue
		}
		sizes = append(sizes, []int{w, h})
	}
	c.Put("sizes_wh", sizes)
}

// rasterInput reads an input [H, W, channels] of bytes.
func rasterInput(c *Case, name string) *vision.Raster {
	a := c.Array(name)
	if len(a.Shape) != 3 || a.Shape[2] != 3 && a.Shape[2] != 4 || a.Shape[0] < 1 || a.Shape[1] < 1 {
		failf("%s: [H, W, 3 or 4] is needed, not %v", name, a.Shape)
	}
	r := vision.NewRaster(a.Shape[1], a.Shape[0], a.Shape[2])
	for i, v := range a.Data {
		if v != math.Trunc(v) || v < 0 || v > 255 {
			failf("%s: %v is not a byte", name, v)
		}
		r.Pix[i] = uint8(v)
	}
	return r
}

func vlmPreprocess(c *Case) {
	p := must(vlm.OpenProcessor(c.Dir()))
	var pictures []*vision.Raster
	for i := 0; c.Has(fmt.Sprintf("image.%d", i)); i++ {
		r := rasterInput(c, fmt.Sprintf("image.%d", i))
		pictures = append(pictures, r)
		for name, arithmetic := range map[string]vision.Arithmetic{"resized": vision.Torch8, "resized_pil": vision.Pillow} {
			as := *p
			as.Arithmetic = arithmetic
			c.Put(fmt.Sprintf("%s.%d", name, i), rasterArray(must(as.Resize(r)).Raster()))
		}
	}
	patches := must(p.Apply(pictures...))
	width := 3 * p.Frames * p.Patch * p.Patch
	c.Put("pixel_values", Array{[]int{len(patches.Values) / width, width}, to[float64](patches.Values)})
	c.Put("image_grid_thw", gridRows(patches.Grids))
}

func vlmPositions(c *Case) {
	rule := vlm.PositionRule{Merge: c.Int("merge_size")}
	switch {
	case c.Op == "vlm.rope_index_classic":
		rule.Largest, rule.Padding, rule.PerSecond = true, 1, c.Float("tokens_per_second")
	case c.String("family") == "qwen2_5_vl":
		rule.PerSecond = c.Float("tokens_per_second")
	case c.String("family") == "qwen3_vl":
		rule.ByFrame = true
	case c.String("family") != "qwen2_vl":
		failf("family %q is not known", c.String("family"))
	}
	s := vlm.Sequence{Kinds: c.Ints("token_types"), Pictures: gridsOf(c, "image_grid_thw"), Clips: gridsOf(c, "video_grid_thw")}
	for _, m := range c.Ints("attention_mask") {
		s.Real = append(s.Real, m != 0)
	}
	c.Given("second_per_grid", &s.Seconds)
	at, delta := must2(rule.Positions(s))
	c.Put("position_ids", at[:], "rope_delta", delta)
}

func vlmWindows(c *Case) {
	order, ends := must2(vlm.Windows(gridsOf(c, "grid_thw"), c.Int("merge_size"), c.Int("window_size"), c.Int("patch_size")))
	c.Put("window_index", order, "cu_window_seqlens", ends)
}

func vlmPlaces(c *Case) {
	grids := gridsOf(c, "grid_thw")
	places := must(vlm.Places(grids, c.Int("merge_size")))
	c.Put("positions", each(places, func(p vlm.Place) []int { return []int{p.Row, p.Column} }))
	c.Put("cu_seqlens", vlm.FrameEnds(grids))
}

// vlmTokens opens the tokenizer beside a family.
func vlmTokens(c *Case) *tokenizer.Tokenizer {
	return must(tokenizer.Open(filepath.Join(c.Dir(), "tokenizer")))
}

func putDecoded(c *Case, t *tokenizer.Tokenizer, ids []int32) {
	c.Put("decoded", t.Decode(ids), "decoded_skip_special", t.DecodePlain(ids))
}

func vlmTokenize(c *Case) {
	t := vlmTokens(c)
	ids := must(t.Encode(c.String("text"))).IDs
	c.Put("ids", to[int](ids))
	putDecoded(c, t, ids)
}

func vlmDrift(c *Case) {
	t := vlmTokens(c)
	lists, _ := c.Raw("sampled").([]any)
	var texts, again []any
	for _, list := range lists {
		a, _ := flatten(list)
		text := t.Decode(to[int32](a))
		e := must(t.Encode(text))
		texts, again = append(texts, text), append(again, to[int](e.IDs))
	}
	c.Put("text", texts, "reencoded", again)
}

func vlmSpecial(c *Case) {
	t := vlmTokens(c)
	var ids []any
	for _, token := range c.Strings("tokens") {
		id, ok := t.ID(token)
		if !ok {
			failf("token %q is not known", token)
		}
		ids = append(ids, int(id))
	}
	c.Put("ids", ids, "vocab_size", t.Size())
	for name, role := range map[string]string{"eos": "eos_token", "pad": "pad_token"} {
		c.Put(name, nil)
		if id, ok := t.Role(role); ok {
			c.Put(name, int(id))
		}
	}
}

func vlmExpand(c *Case) {
	t := vlmTokens(c)
	p := vlm.NewProcessor()
	p.Patch, p.Merge, p.Pixels = c.Int("patch_size"), c.Int("merge_size"), vlm.Pixels{Min: c.Int("min_pixels"), Max: c.Int("max_pixels")}
	var grids []vlm.Grid
	for _, s := range groups(c, "image_hw", 2) {
		grids = append(grids, must(p.Grid(s[1], s[0])))
	}
	marks := must(vlm.MarksOf(t))
	ids, kinds := must2(marks.Expand(must(t.Encode(c.String("text"))).IDs, grids, nil, p.Merge))
	c.Put("grid_thw", gridRows(grids), "input_ids", to[int](ids), "mm_token_type_ids", kinds)
}

func vlmChat(c *Case) {
	t := must(vlm.TemplateNamed(c.String("template")))
	messages := must(vlm.ReadMessages(c.Text("messages")))
	r := vlm.Rendering{Generate: c.Bool("add_generation_prompt"), Number: c.Bool("add_vision_id")}
	if c.Has("tools") {
		r.Tools = must(vlm.ReadTools(c.Text("tools")))
	}
	if c.Has("enable_thinking") {
		think := c.Bool("enable_thinking")
		r.Think = &think
	}
	r.KeepThoughts = c.Has("preserve_thinking") && c.Bool("preserve_thinking")
	c.Put("text", must(t.Render(messages, r)))
}

// sizeRuleNamed finds a rule by its name.
func sizeRuleNamed(name string) vlm.SizeRule {
	switch name {
	case "hf", "transformers":
		return vlm.Transformers
	case "vendor", "qwen-vl-utils":
		return vlm.QwenUtils
	}
	panic(failure{fmt.Errorf("a rule of sizes named %q is not known; hf and vendor are", name)})
}
