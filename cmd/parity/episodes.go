package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Episodes of published loops: turns and observations are scripted, the books are ours.

var episodeOps = map[string]Op{
	"vlm.assistant_mask":   assistantMask,
	"vlm.last_eos_mask":    lastEndMask,
	"vlm.rollout_deepeyes": rolloutDeepEyes,
	"vlm.rollout_verl":     rolloutVerl,
}

// scriptedTurn is a turn of the model and what the environment answers to it.
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

// protocol asks for so many calls as scripted.
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
		Say:   func(_ *tools.State, r *tools.Reply) string { return strings.Repeat(tools.VisionPad, r.Pictures) },
		Worth: func(tools.Result) float64 { return now.reward },
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

// Masks over token ids that were not sampled here: transcripts of others, for supervised
// training. A transcript of our own knows what it sampled.

// assistantTurns marks, from each start of a turn that the role follows, up to and with the next
// end of a turn; the header is marked, too. A turn that does not end is not marked
// (Pixel-Reasoner's create_assistant_response_mask; vlm.assistant_mask).
func assistantTurns(ids []int32, start, end, role int32) []bool {
	ends := make([]int, len(ids)) // the next end from here on, -1 where there is none
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
