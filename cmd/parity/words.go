package main

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/edits"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Distances of texts, and rewards of words that were read.

var wordOps = map[string]Op{
	"ocr.reward":              readWords,
	"ocr.reward_flow_factory": readWords,
	"ocr.reward_video":        readClips,
	"text.error_rates":        errorRates,
	"text.levenshtein":        levenshtein,
	"text.lower":              lowered,
}

func levenshtein(c *Case) {
	a, b := c.String("a"), c.String("b")
	c.Put("runes", edits.Distance(a, b), "bytes", edits.Distance(asBytes(a), asBytes(b)), "ratio", edits.Ratio(a, b))
	c.Put("len_runes", []int{utf8.RuneCountInString(a), utf8.RuneCountInString(b)})
	c.Put("len_bytes", []int{len(a), len(b)})
}

// asBytes makes a character of every byte.
func asBytes(s string) string {
	return string(times(len(s), func(i int) rune { return rune(s[i]) }))
}

func lowered(c *Case) {
	c.Put("lower", pytext.Lower(c.String("a")), "no_spaces", strings.ReplaceAll(c.String("a"), " ", ""))
}

func errorRates(c *Case) {
	want, got := c.String("want"), c.String("got")
	c.Put("wer", edits.WER(want, got), "cer", edits.CER(want, got), "mer", edits.MER(want, got))
}

// linesOf reads what a case's engine answered for one picture; the word "error" stands for an
// engine that failed.
func linesOf(c *Case, v any) (lines []rewards.Line, failed bool) {
	if _, failed = v.(string); failed {
		return nil, true
	}
	list, _ := v.([]any)
	for _, e := range list {
		pair, _ := e.([]any)
		if len(pair) != 2 {
			c.complain("a line that was read is a text and a confidence, not %v", e)
			return nil, false
		}
		words, _ := pair[0].(string)
		sure, _ := pair[1].(float64)
		lines = append(lines, rewards.Line{Text: words, Confidence: sure})
	}
	return lines, false
}

// readWords scores 0 what the engine failed on, as upstreams do; ours is missing.
func readWords(c *Case) {
	rule := rewards.OCRRule{Formula: "flow_grpo"}
	if c.Op == "ocr.reward_flow_factory" {
		rule.Formula = "flow_factory"
	}
	list, _ := c.Raw("read").([]any)
	out := []float64{}
	for i, prompt := range c.Strings("prompts") {
		if i >= len(list) {
			c.wrong("read", "one for each prompt")
			return
		}
		lines, failed := linesOf(c, list[i])
		target, err := rule.Target(prompt)
		if failed && err != nil && spaced(prompt) { // they divide by the length before spaces go
			out = append(out, 0)
			continue
		}
		if err != nil {
			raised(c, prompt, err)
			return
		}
		value := 0.0
		if !failed {
			value = rule.Of(target, lines)
		}
		out = append(out, value)
	}
	c.Put("rewards", out)
}

// spaced reports whether a prompt's target is nothing but spaces.
func spaced(prompt string) bool {
	parts := strings.SplitN(prompt, `"`, 3)
	return len(parts) > 1 && parts[1] != "" || len(parts) == 1 && prompt != ""
}

// raised is what upstreams raise where a prompt has no target: a whole batch is lost.
func raised(c *Case, prompt string, err error) {
	if !errors.Is(err, rewards.ErrNoTarget) {
		check(err)
	}
	if strings.Contains(prompt, `"`) || c.Op == "ocr.reward_flow_factory" {
		c.Put("error", "division by zero")
	} else {
		c.Put("error", "no quoted text")
	}
}

func readClips(c *Case) {
	rule := rewards.OCRRule{Formula: "flowcps", Interval: c.Int("frame_interval")}
	list, _ := c.Raw("read").([]any)
	out := []float64{}
	for i, prompt := range c.Strings("prompts") {
		target, err := rule.Target(prompt)
		if err != nil {
			raised(c, prompt, err)
			return
		}
		if i >= len(list) || rule.Interval < 1 {
			c.wrong("read", "one for each prompt")
			return
		}
		frames, _ := list[i].([]any)
		var each []float64
		for k := 0; k < len(frames); k += rule.Interval {
			lines, failed := linesOf(c, frames[k])
			value := 0.0
			if !failed {
				value = rule.Of(target, lines)
			}
			each = append(each, value)
		}
		out = append(out, rule.Mean(each))
	}
	c.Put("rewards", out)
}
