package main

import (
	"encoding/json"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Tool protocols: what a text asks for, which pixels are cut, what is answered.
var toolCallOps = map[string]Op{
	"vlm.observation_minio3":  func(c *Case) { c.Put("text", tools.MiniO3Observation(c.Int("turn"))) },
	"vlm.tool_deepeyes":       toolDeepEyes,
	"vlm.tool_minio3":         toolMiniO3,
	"vlm.tool_parse_hermes":   parseHermes,
	"vlm.tool_pixel_reasoner": toolPixelReasoner,
	"vlm.tool_select_frames":  toolSelectFrames,
	"vlm.tool_text_truncate":  toolTruncate,
	"vlm.tool_vrag":           toolVRAG,
	"vlm.tool_zoom_verl":      toolZoomVerl,
}

// written is an input as a call of Python would hold it: whole numbers apart from others.
func written(c *Case, name string) any {
	v, _ := c.find(name)
	raw, err := json.Marshal(v)
	if err != nil {
		failf("input %q: %w", name, err)
	}
	return must(pytext.OrderedJSON(string(raw)))
}

// album has pictures of these sizes; every one of them counts as the prompt's.
func album(sizes ...[2]int) *tools.Album {
	a := &tools.Album{}
	for _, s := range sizes {
		a.Sized(s[0], s[1], s[0], s[1], nil)
	}
	return a
}

// pairs is a list of widths and heights.
func pairs(c *Case, name string) [][2]int {
	n := c.Ints(name)
	var all [][2]int
	for i := 0; i+1 < len(n); i += 2 {
		all = append(all, [2]int{n[i], n[i+1]})
	}
	return all
}

// putOps lists what was done, pictures by their numbers or by names.
func putOps(c *Case, reply *tools.Reply, name func(i int) any) {
	ops := []any{}
	for _, r := range reply.Results {
		if r.Refusal != nil {
			continue
		}
		for _, op := range r.Ops {
			o := map[string]any{"kind": op.Kind, "image": name(op.Picture), "angle": op.Angle}
			if op.Kind == "crop" {
				o["box"], o["rect"] = op.Box[:], op.Rect[:]
				o["size"] = []int{op.Rect.Width(), op.Rect.Height()}
			}
			ops = append(ops, o)
		}
	}
	c.Put("ops", ops)
}

func byNumber(i int) any { return i }

// orNull is a text, null where there is none.
func orNull(s string, ok bool) any {
	if !ok {
		return nil
	}
	return s
}

// inTags is the last text between answer tags.
func inTags(text string) any {
	if i := strings.LastIndex(text, "</answer>"); i >= 0 {
		all := strings.Split(text[:i], "</answer>")
		for j := len(all) - 1; j >= 0; j-- {
			if _, answer, ok := strings.Cut(all[j], "<answer>"); ok {
				return answer
			}
		}
	}
	return nil
}

func toolDeepEyes(c *Case) {
	name := map[string]string{"v2": "deepeyes", "v5": "deepeyes_v5"}[c.String("variant")]
	p := must(tools.Named(name))
	reply := p.Step(&tools.State{Album: album([2]int{c.Int("width"), c.Int("height")})}, c.String("text"))
	c.Put("done", reply.End != "", "reward", reply.Reward, "answer", inTags(c.String("text")), "text", reply.Text)
	c.Put("images", reply.Pictures)
	putOps(c, reply, byNumber)
	switch r := reply.Refusal; {
	case reply.End != "":
		c.Put("kind", "end")
	case r == nil:
		c.Put("kind", "images")
	default:
		kind := string(r.Kind)
		if r.Kind == tools.MissingKey {
			kind += ":" + r.Key
		}
		before, _, _ := strings.Cut(reply.Text, "Error: ")
		c.Put("kind", "error", "error_kind", kind, "prefix", before+"Error: ")
		c.Put("suffix", "<|im_end|>\n<|im_start|>assistant\n")
	}
}

func toolMiniO3(c *Case) {
	a := &tools.Album{}
	shown := pairs(c, "sizes_shown_wh")
	for i, s := range pairs(c, "pictures_wh") {
		a.Sized(s[0], s[1], shown[i][0], shown[i][1], nil)
	}
	reply := tools.MiniO3(c.Bool("relative")).Step(&tools.State{Album: a}, c.String("text"))
	c.Put("wants_tool", reply.End == "")
	if reply.End != "" {
		return
	}
	r := reply.Refusal
	if r == nil {
		op := reply.Results[0].Ops[0]
		source, _ := reply.Results[0].Args.([]any)
		c.Put("kind", "crop", "source", source[1], "image", op.Picture, "box", op.Rect[:])
		c.Put("size", []int{op.Rect.Width(), op.Rect.Height()})
		return
	}
	kind, ok := map[string]string{"AttributeError": "no_match", "AssertionError": "assert", "SyntaxError": "eval"}[r.Raised]
	if !ok {
		kind = r.Raised
	}
	c.Put("kind", "error", "error_kind", kind, "error", r.Message, "observation", reply.Text)
}

// raisedAs names an exception's class as the cases of Pixel-Reasoner do.
func raisedAs(r *tools.Refusal) string {
	kinds := map[string]string{"JSONDecodeError": "json", "AssertionError": "assert", "KeyError": "missing_key", "TypeError": "wrong_type", "IndexError": "index", "ValueError": "value"}
	if kind, ok := kinds[r.Raised]; ok {
		return kind
	}
	return "other"
}

func toolVRAG(c *Case) {
	text := c.String("text")
	action, content := tools.VRAGAction(text)
	c.Put("action", orNull(action, action != ""), "content", content, "rewritten", tools.Rewritten(text))
	shown, raw := pairs(c, "shown_wh")[0], pairs(c, "raw_wh")[0]
	for name, validation := range map[string]bool{"crop": false, "crop_validation": true} {
		a := &tools.Album{}
		a.Sized(raw[0], raw[1], shown[0], shown[1], nil)
		reply := tools.VRAG(validation).Step(&tools.State{Album: a}, text)
		done := 0
		if reply.End != "" {
			done = 1
		}
		c.Put("done", done, "observation", reply.Text)
		if len(reply.Results) == 0 {
			continue
		}
		if r := reply.Refusal; r != nil {
			c.Put(name, map[string]any{"error_kind": r.Raised})
			continue
		}
		op := reply.Results[0].Ops[0]
		c.Put(name, map[string]any{"box": op.Rect[:], "size": []int{op.Rect.Width(), op.Rect.Height()}, "resized_wh": []int{op.ToWidth, op.ToHeight}})
	}
}

func parseHermes(c *Case) {
	r := tools.Hermes(c.String("text"))
	calls := []any{}
	for _, call := range r.Calls {
		calls = append(calls, map[string]any{"name": call.Name, "arguments": pytext.Dumps(call.Args)})
	}
	c.Put("content", r.Rest, "calls", calls)
}

func toolZoomVerl(c *Case) {
	args := pytext.Ordered{Values: pytext.Object{}}
	for _, name := range []string{"bbox_2d", "label"} {
		args.Values[name] = written(c, name)
	}
	p := tools.Verl(1)
	p.Read = func(string) tools.Reading {
		return tools.Reading{Calls: []tools.Call{{Name: "image_zoom_in_tool", Args: args}}}
	}
	reply := p.Step(&tools.State{Album: album([2]int{c.Int("width"), c.Int("height")})}, "")
	result := reply.Results[0]
	c.Put("success", result.Refusal == nil, "reward", result.Reward, "text", result.Text)
	if result.Refusal != nil {
		c.Put("text", result.Refusal.Message)
	}
	putOps(c, reply, byNumber)
}

func toolTruncate(c *Case) {
	c.Put("text", tools.Truncated(c.String("text"), c.Int("max"), c.String("side")))
}
