package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

var visionInputOps = map[string]Op{
	// Inputs of a vision-language network: sizes, patches, positions, texts.
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

	// Clips before a vision-language network: which frames are read, their size, times, tokens and patches.
	"video.preprocess":    clipPatches,
	"video.sample_frames": clipFrames,
	"video.size":          clipSize,
	"video.timestamps":    clipTimes,
	"video.tokens":        clipTokens,

	// Tokenizers: a case is a folder and a table of texts.
	"tokenizers.clip_bpe":  tokenize,
	"tokenizers.qwen2_bpe": tokenize,
	"tokenizers.unigram":   tokenize,
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
	grids := each(groups(c, "image_hw", 2), func(s []int) vlm.Grid { return must(p.Grid(s[1], s[0])) })
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

func clipFrames(c *Case) {
	f := vlm.Frames{Rule: vlm.FrameRule(c.String("kind")), FPS: numberOr(c, "fps", 0), Count: int(numberOr(c, "num_frames", 0)), Min: c.Int("min_frames"), Max: c.Int("max_frames")}
	total, rate := c.Int("total_frames"), c.Float("video_fps")
	places, err := f.Of(total, rate)
	var past vlm.PastEnd
	switch {
	case errors.As(err, &past):
		c.Put("error", "IndexError", "upstream_indices", past.Places)
	case err != nil:
		c.Put("error", "ValueError")
	default:
		c.Put("indices", places, "sample_fps", float64(len(places))/float64(total)*rate)
	}
}

func clipSize(c *Case) {
	frames, h, w, factor := c.Int("frames"), c.Int("height"), c.Int("width"), c.Int("factor")
	if kind := vlm.FrameRule(c.String("kind")); kind == vlm.VendorFrames {
		w, h, frames = must3(vlm.VendorSize(frames, w, h, factor, c.Int("image_min_cells"), c.Int("frame_min_cells"), c.Int("max_pixels")))
		c.Put("frames", frames)
	} else {
		p := vlm.ClipPixels{Rule: kind, Pixels: vlm.Pixels{Min: c.Int("shortest_edge"), Max: c.Int("longest_edge")}, Cap: c.Bool("cap_pixels_per_frame"), Tokens: c.Int("max_video_tokens")}
		w, h = must2(p.Size(frames, w, h, factor))
	}
	c.Put("height", h, "width", w)
}

func clipTimes(c *Case) {
	times := must(vlm.Timestamps(c.Ints("indices"), c.Float("video_fps"), 2))
	var texts []any
	for _, t := range times {
		texts = append(texts, fmt.Sprintf("<%.1f seconds>", t))
	}
	c.Put("seconds", times, "text", texts)
}

// bounds is an object of two edges.
func bounds(c *Case, name string) vlm.Pixels {
	s := c.Sub(name)
	return vlm.Pixels{Min: s.Int("shortest_edge"), Max: s.Int("longest_edge")}
}

// A clipTalk is a case's conversation about clips on its way to tokens.
type clipTalk struct {
	*Case
	apart    bool // frames are pictures with their times (Qwen3-VL)
	clips    []vlm.Grid
	pictures []vlm.Grid
	times    [][]float64
	seconds  []float64
}

func clipTokens(c *Case) {
	family := c.String("family")
	s := &clipTalk{Case: c, apart: family == "qwen3_vl"}
	s.read()
	t := must(vlm.TemplateNamed(family))
	messages := must(vlm.ReadMessages(c.Text("messages")))
	text := must(t.Render(messages, vlm.Rendering{Generate: strings.HasSuffix(textOut(c), "assistant\n")}))
	c.Put("text", text)
	s.expand(text)
}

// textOut is the recorded text, of which its end alone is read: whether an answer is asked for.
func textOut(c *Case) string {
	text, _ := c.want["text"].(string)
	return text
}

// read chooses frames, and sizes them and pictures.
func (s *clipTalk) read() {
	rule := map[bool]vlm.FrameRule{true: vlm.Qwen3Frames, false: vlm.Qwen2Frames}[s.apart]
	totals, rates, patch := s.Ints("total_frames"), s.Floats("video_fps"), s.Int("patch_size")
	var read [][]int
	for i, size := range groups(s.Case, "video_hw", 2) {
		places := times(totals[i], func(k int) int { return k })
		rate := rates[i]
		if s.Bool("do_sample_frames") {
			f := vlm.Frames{Rule: rule, FPS: s.Float("fps"), Min: s.Int("min_frames"), Max: 768}

			places = must(f.Of(totals[i], rate))
			rate *= float64(len(places)) / float64(totals[i])
		}
		read = append(read, places)
		w, h := must2(vlm.ClipPixels{Rule: rule, Pixels: bounds(s.Case, "video_size")}.Size(len(places), size[1], size[0], 2*patch))
		s.clips = append(s.clips, vlm.Grid{Frames: (len(places) + 1) / 2, Rows: h / patch, Columns: w / patch})
		times := must(vlm.Timestamps(places, rates[i], 2))
		s.times, s.seconds = append(s.times, times), append(s.seconds, float64(float32(2/rate)))
	}
	p := vlm.NewProcessor()
	p.Patch, p.Pixels = patch, bounds(s.Case, "image_size")
	for _, size := range groups(s.Case, "image_hw", 2) {
		s.pictures = append(s.pictures, must(p.Grid(size[1], size[0])))
	}
	s.Put("frames_indices", read, "video_grid_thw", gridRows(s.clips), "image_grid_thw", gridRows(s.pictures))
	s.Put("second_per_grid_ts", s.seconds)
}

// expand makes tokens of the text, and their places.
func (s *clipTalk) expand(text string) {
	t := vlmTokens(s.Case)
	marks := must(vlm.MarksOf(t))
	cells, rule := s.clips, vlm.PositionRule{Merge: 2, PerSecond: numberOr(s.Case, "tokens_per_second", 0)}
	sequence := vlm.Sequence{Pictures: s.pictures, Clips: s.clips, Seconds: s.seconds}
	if s.apart {
		text = must(vlm.FramesInside(text, s.times))
		cells = nil
		for _, g := range s.clips {
			cells = append(cells, vlm.FrameGrids(g)...)
		}
		rule = vlm.PositionRule{Merge: 2, ByFrame: true}
		s.Put("expanded_text", repeated(repeated(text, "<|video_pad|>", cells), "<|image_pad|>", s.pictures))
	}
	ids, kinds := must2(marks.Expand(must(t.Encode(text)).IDs, s.pictures, cells, 2))
	s.Put("input_ids", to[int](ids), "mm_token_type_ids", kinds)
	sequence.Kinds = kinds
	at, delta := must2(rule.Positions(sequence))
	s.Put("position_ids", at[:], "rope_delta", delta)
}

// repeated is a text whose marks are repeated as often as their grids have merged cells.
func repeated(text, mark string, grids []vlm.Grid) string {
	parts := strings.Split(text, mark)
	out := parts[0]
	for i, part := range parts[1:] {
		out += strings.Repeat(mark, grids[i].Tokens(2)) + part
	}
	return out
}

// clipPatches reads the folder's settings of clips, which have the form of pictures'.
func clipPatches(c *Case) {
	p := must(vlm.OpenProcessorFile(filepath.Join(c.Dir(), "video_preprocessor_config.json")))
	pixels := vlm.ClipPixels{Rule: map[bool]vlm.FrameRule{true: vlm.Qwen3Frames, false: vlm.Qwen2Frames}[c.String("family") == "qwen3_vl"], Pixels: bounds(c, "video_size")}
	var values []float32
	var grids []vlm.Grid
	lists, _ := c.Raw("frames_indices").([]any)
	for i := range lists {
		a, err := arrayOf(lists[i])
		if err != nil {
			a = Array{Data: nil}
			for _, v := range lists[i].([]any) {
				a.Data = append(a.Data, v.(float64))
			}
		}
		clip := c.Array(fmt.Sprintf("clip.%d", i))
		each := len(clip.Data) / clip.Shape[0]
		var frames []*vision.Raster
		for _, k := range a.Data {
			r := vision.NewRaster(clip.Shape[2], clip.Shape[1], 3)
			for j, v := range clip.Data[int(k)*each : (int(k)+1)*each] {
				r.Pix[j] = uint8(v)
			}
			frames = append(frames, r)
		}
		out := must(p.Clip(pixels, frames...))
		values, grids = append(values, out.Values...), append(grids, out.Grids...)
	}
	width := 3 * p.Frames * p.Patch * p.Patch
	c.Put("pixel_values_videos", Array{[]int{len(values) / width, width}, to[float64](values)})
	c.Put("video_grid_thw", gridRows(grids))
}

func tokenize(c *Case) {
	t := must(tokenizer.Open(c.Dir()))
	n, pad := c.Int("max_length"), int32(c.Int("pad_id"))
	var tokens, ids, framed, padded, masks, decoded []any
	for _, text := range c.Strings("text") {
		e := must(t.Encode(text))
		whole, seen := must2(t.Fixed(text, n, pad))
		around := must(t.Framed(text))
		mask := make([]int, n)
		for i := range seen {
			mask[i] = 1
		}
		tokens, ids, framed = append(tokens, e.Tokens), append(ids, to[int](e.IDs)), append(framed, to[int](around))
		padded, masks, decoded = append(padded, to[int](whole)), append(masks, mask), append(decoded, t.Decode(e.IDs))
		if len(e.Tokens) != len(e.IDs) {
			failf("%q: %d tokens and %d ids", text, len(e.Tokens), len(e.IDs))
		}
	}
	c.Put("tokens", tokens, "ids", ids, "ids_special", framed, "ids_padded", padded, "mask", masks)
	c.Put("decoded", decoded)
}
