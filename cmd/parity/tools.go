package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

var toolOps = map[string]Op{
	// Tool protocols: the calls of a text, the pixels of crops, the answers.
	"vlm.observation_minio3":  func(c *Case) { c.Put("text", tools.MiniO3Observation(c.Int("turn"))) },
	"vlm.tool_deepeyes":       toolDeepEyes,
	"vlm.tool_minio3":         toolMiniO3,
	"vlm.tool_parse_hermes":   parseHermes,
	"vlm.tool_pixel_reasoner": toolPixelReasoner,
	"vlm.tool_select_frames":  toolSelectFrames,
	"vlm.tool_text_truncate":  toolTruncate,
	"vlm.tool_vrag":           toolVRAG,
	"vlm.tool_zoom_verl":      toolZoomVerl,

	// The protocol in which a model writes programs, with an interpreter that answers as recorded.
	"vlm.tool_pyvision": toolPyVision,

	// Episodes of published loops: turns and observations are scripted, the books are ours.
	"vlm.assistant_mask":   assistantMask,
	"vlm.last_eos_mask":    lastEndMask,
	"vlm.rollout_deepeyes": rolloutDeepEyes,
	"vlm.rollout_verl":     rolloutVerl,
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

// putOps lists the operations, pictures by their numbers or by names.
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

// orNull is a text, or null.
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

// Recorded calls of tools that choose among frames and crops.

func toolPixelReasoner(c *Case) {
	a := &tools.Album{}
	raw := pairs(c, "raw_wh")
	for i, s := range pairs(c, "shown_wh") {
		if i < len(raw) {
			a.Sized(raw[i][0], raw[i][1], s[0], s[1], nil)
		} else {
			a.Sized(s[0], s[1], s[0], s[1], &tools.Op{Kind: "crop"})
		}
	}
	size := func(w, h int) (int, int, error) {
		return vlm.Transformers.Size(w, h, 28, vlm.Pixels{Min: c.Int("min_pixels"), Max: c.Int("max_pixels")})
	}
	reply := tools.PixelReasoner(size).Step(&tools.State{Album: a}, c.String("text"))
	c.Put("wants_tool", reply.End == "")
	if reply.End != "" {
		return
	}
	if r := reply.Refusal; r != nil {
		c.Put("kind", "error", "error_kind", raisedAs(r), "error", r.Message)
		c.Put("observation", "\nExecution error:\n"+r.Message+"\n")
		return
	}
	result := reply.Results[0]
	c.Put("kind", "crop", "name", result.Name, "resized_wh", []int{result.Ops[0].ToWidth, result.Ops[0].ToHeight})
	c.Put("observation", result.Text)
	putOps(c, reply, func(i int) any {
		if i < len(raw) {
			return fmt.Sprintf("raw_%d", i)
		}
		return fmt.Sprintf("shown_%d", i)
	})
}

func toolSelectFrames(c *Case) {
	frames, err := tools.SelectedFrames(written(c, "target_frames"), c.Int("frames"))
	c.Put("kind", "frames", "frames", frames)
	var r *tools.Refusal
	if errors.As(err, &r) {
		c.Put("kind", "error", "error_kind", r.Raised, "error", orNull(r.Message, r.Raised == "AssertionError"))
	}
}

// recordedProgram is an interpreter that answers as recorded.
type recordedProgram struct{ result map[string]any }

func (p recordedProgram) Run(string) (tools.Execution, error) {
	var e tools.Execution
	if p.result == nil {
		return e, errors.New("the interpreter is gone")
	}
	if p.result["status"] != "success" {
		text, ok := p.result["error"].(string)
		if !ok {
			text = "Unknown error"
		}
		return tools.Execution{Failed: true, Error: text}, nil
	}
	done, _ := p.result["result"].(map[string]any)
	text, ok := done["text"].(string)
	e.Text, e.NoOutput = text, !ok
	figures, _ := done["total_figures"].(float64)
	e.Figures = int(figures)
	drawn, _ := done["images"].([]any)
	for range drawn {
		e.Drawn = append(e.Drawn, vision.New(1, 1))
	}
	return e, nil
}

func toolPyVision(c *Case) {
	text := c.String("text")
	code, ok := tools.PythonCode(text)
	c.Put("code", orNull(code, ok), "answer", inTags(text))
	program := recordedProgram{}
	if c.Has("result") {
		program.result, _ = c.Raw("result").(map[string]any)
	}
	s := &tools.State{Album: album([2]int{1, 1}), Program: program, Figures: 1}
	reply := tools.PyVision(c.Float("turn_reward")).Step(s, text)
	c.Put("done", reply.End != "", "turn_reward", reply.Reward, "text", reply.Text)
	switch r := reply.Refusal; {
	case reply.End != "":
		c.Put("kind", "end", "info", map[string]any{"final_answer": reply.Answer})
	case r != nil:
		c.Put("kind", "text")
		why := r.Raised
		if why == "raised" {
			why = r.Message
		}
		c.Put("info", map[string]any{"error": why})
	default:
		c.Put("kind", "text", "info", map[string]any{"status": "success"})
		if reply.Pictures > 0 {
			c.Put("kind", "images", "images", reply.Pictures)
			c.Put("parts", tools.PyVisionParts(reply.Results[0].Text, s.Figures, reply.Pictures))
			c.Put("next_figure", reply.Results[0].Figures)
		}
	}
}

// scriptedTurn is a turn of the model and the environment's answer to it.
type scriptedTurn struct {
	ids, full, short []int32
	cut, asks, image bool
	reward           float64
	calls            int
}

// script plays turns one after another; asked for more, it repeats the last.
type script struct {
	turns []scriptedTurn
	at    int
}

func scriptOf(list []any) *script {
	s := &script{}
	for i, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			failf("turn %d of the script is no object", i)
		}
		t := scriptedTurn{ids: idList(m["ids"]), cut: m["finish"] == "length", calls: 1}
		t.reward, _ = m["reward"].(float64)
		if o, ok := m["obs"].(map[string]any); ok {
			t.asks, t.full, t.short = true, idList(o["full"]), idList(o["short"])
			t.image, _ = o["image"].(bool)
		}
		s.turns = append(s.turns, t)
	}
	if len(s.turns) == 0 {
		failf("a script without turns")
	}
	return s
}

func idList(v any) []int32 {
	list, _ := v.([]any)
	ids := make([]int32, 0, len(list))
	for _, e := range list {
		x, _ := e.(float64)
		ids = append(ids, int32(x))
	}
	return ids
}

// Sample writes the number of the turn as its text.
func (s *script) Sample(context.Context, []int32, []tools.Picture) (tools.Sampled, error) {
	i := min(s.at, len(s.turns)-1)
	s.at++
	t := s.turns[i]
	lp := times(len(t.ids), func(k int) float64 { return -float64(k+1) / 8 })
	return tools.Sampled{IDs: t.ids, LogProb: lp, Text: strconv.Itoa(i), Cut: t.cut}, nil
}

// Code gives the observation of the turn that was last written.
func (s *script) Code(string, []tools.Picture) (tools.Seen, error) {
	t := s.turns[min(s.at, len(s.turns))-1]
	return tools.Seen{Tokens: t.full, Engine: t.short}, nil
}

// protocol asks for this number of calls as scripted.
func (s *script) protocol(parallel int) *tools.Protocol {
	turn := func(text string) scriptedTurn {
		i, _ := strconv.Atoi(text)
		return s.turns[i]
	}
	now := scriptedTurn{}
	return &tools.Protocol{
		Name: "scripted", Pad: tools.VisionPad,
		Read: func(text string) tools.Reading {
			if now = turn(text); !now.asks {
				return tools.Reading{}
			}
			var r tools.Reading
			for range min(parallel, now.calls) {
				r.Calls = append(r.Calls, tools.Call{Name: "t"})
			}
			return r
		},
		Tools: []tools.Tool{{Name: "t", Plan: func(*tools.State, any) (tools.Plan, error) {
			if now.image {
				return tools.Plan{Ready: []*vision.Image{vision.New(1, 1)}}, nil
			}
			return tools.Plan{}, nil
		}}},
		Observation: func(_ *tools.State, r *tools.Reply) string { return strings.Repeat(tools.VisionPad, r.Pictures) },
		Worth:       func(tools.Result) float64 { return now.reward },
	}
}

func play(s *script, parallel int, l tools.Limits, prompt []int32) *tools.Transcript {
	e := tools.Episode{
		Protocol: s.protocol(parallel), State: &tools.State{Album: tools.NewAlbum(vision.New(1, 1))},
		Limits: l, Sampler: s, Coder: s, Prompt: tools.Seen{Tokens: prompt, Engine: prompt},
	}
	t := must(e.Play(context.Background()))
	check(t.Check(-1, nil))
	return t
}

func rolloutDeepEyes(c *Case) {
	ids, mask := c.Array("prompt_ids"), c.Array("prompt_mask")
	scripts, _ := c.Raw("script").([]any)
	rows, width, room := ids.Shape[0], c.Int("prompt_length"), c.Int("response_length")
	if rows != len(scripts) || ids.Shape[1] != width || len(mask.Data) != len(ids.Data) {
		failf("%d rows of %v prompts, and %d scripts", rows, ids.Shape, len(scripts))
	}
	var response, action, attention, reward, count []float64
	for row, list := range scripts {
		turns, _ := list.([]any)
		s := scriptOf(turns)
		before, on := ids.Data[row*width:(row+1)*width], mask.Data[row*width:(row+1)*width]
		var prompt []int32
		for i, id := range before {
			if on[i] != 0 {
				prompt = append(prompt, int32(id))
			}
		}
		t := play(s, 1, tools.Limits{Tokens: width + room, PromptRoom: width, Turns: c.Int("max_turns"), Known: int32(c.Int("vocab_size")), ActFirst: true}, prompt)
		action, attention = append(action, on...), append(attention, on...)
		for i := range room {
			k := t.Prompt + i
			id, drawn, seen, worth := c.Float("pad_id"), 0.0, 0.0, 0.0
			if k < len(t.Tokens) {
				id, seen, worth = float64(t.Tokens[k]), 1, float64(float32(t.Reward[k])) // upstream adds rewards up in fp32
				if t.Sampled[k] {
					drawn = 1
				}
			}
			response, action, attention, reward = append(response, id), append(action, drawn), append(attention, seen), append(reward, worth)
		}
		count = append(count, float64(t.Calls))
	}
	c.Put("response", Array{[]int{rows, room}, response}, "action_mask", Array{[]int{rows, width + room}, action})
	c.Put("attention_mask", Array{[]int{rows, width + room}, attention})
	c.Put("env_reward", Array{[]int{rows, room}, reward}, "tool_cnt", Array{[]int{rows, 1}, count})
}

func rolloutVerl(c *Case) {
	turns, _ := c.Raw("script").([]any)
	s := scriptOf(turns)
	for i, n := range c.Ints("calls_per_turn") {
		s.turns[i].calls = n
	}
	limits := tools.Limits{Response: c.Int("response_length")}
	c.Given("max_assistant_turns", &limits.Turns, "max_user_turns", &limits.Observations)
	t := play(s, c.Int("max_parallel_calls"), limits, to[int32](c.Ints("prompt_ids")))
	mask := each(t.Sampled[t.Prompt:], func(on bool) int { return map[bool]int{true: 1}[on] })
	rewards := []float64{}
	for _, turn := range t.Turns {
		rewards = append(rewards, turn.Rewards...)
	}
	c.Put("prompt", to[int](t.Tokens[:t.Prompt]), "response", to[int](t.Response()), "response_mask", mask)
	c.Put("log_probs", t.LogProb[t.Prompt:], "num_turns", len(t.Turns)+t.Answers+1, "pictures", len(t.Shots))
	c.Put("tool_rewards", rewards)
}

// maskRows puts a mask of rows of ids.
func maskRows(c *Case, of func(ids []int32) []bool) {
	a := c.Array("ids")
	var all []float64
	for _, row := range mat(c, "ids") {
		for _, on := range of(to[int32](row)) {
			x, _ := float(on)
			all = append(all, x)
		}
	}
	c.Put("mask", Array{a.Shape, all})
}

func assistantMask(c *Case) {
	start, end, role := int32(c.Int("im_start")), int32(c.Int("im_end")), int32(c.Int("assistant"))
	maskRows(c, func(ids []int32) []bool { return assistantTurns(ids, start, end, role) })
}

func lastEndMask(c *Case) {
	end, pad := int32(c.Int("eos")), int32(c.Int("pad"))
	maskRows(c, func(ids []int32) []bool { return upToLastEnd(ids, end, pad) })
}

// Masks over token ids that were not sampled here: transcripts of others, for supervised training. A transcript of
// our own knows its sampled tokens.

// assistantTurns marks, from each start of a turn that the role follows, up to and with the next
// end of a turn; the header is marked, too. A turn that does not end is not marked
// (Pixel-Reasoner's create_assistant_response_mask; vlm.assistant_mask).
func assistantTurns(ids []int32, start, end, role int32) []bool {
	ends := make([]int, len(ids)) // the next end from here on, -1 without one
	for i, next := len(ids)-1, -1; i >= 0; i-- {
		if ids[i] == end {
			next = i
		}
		ends[i] = next
	}
	mask, until := make([]bool, len(ids)), -1
	for i := range ids {
		if ids[i] == start && i+1 < len(ids) && ids[i+1] == role {
			until = max(until, ends[i])
		}
		mask[i] = i <= until
	}
	return mask
}

// upToLastEnd marks all but padding up to and with the last end; everything but padding where
// there is no end (Pixel-Reasoner's create_action_mask_up_to_last_eos; vlm.last_eos_mask).
func upToLastEnd(ids []int32, end, pad int32) []bool {
	stop := len(ids)
	for i, id := range ids {
		if id == end {
			stop = i + 1
		}
	}
	mask := make([]bool, len(ids))
	for i := range stop {
		mask[i] = ids[i] != pad
	}
	return mask
}
