package judges

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// What a reward needs of a prompt, so that samples of it can have a score: known before anything is rolled. What it
// needs of the disk is known by opening it on a device that computes nothing.

// Reads is the error of a prompt whose samples the reward could not judge, whatever they are; nil: it takes any prompt.
func Reads(r experiment.Reward) func(p prompts.Prompt) error {
	if read, ok := readers[r.Name]; ok {
		return read(r)
	}
	if k, _ := experiment.RewardNamed(r.Name); k.Scenes && r.URL == "" {
		return captioned
	}
	return nil
}

// readers are the needs of rewards, by their names. Rewards of replies are rules, and are asked about a reply.
var readers = map[string]func(r experiment.Reward) func(p prompts.Prompt) error{
	"edit":       anyOf(editable),
	"edit_done":  anyOf(editable),
	"edit_kept":  anyOf(editable),
	"thing":      anyOf(func(p prompts.Prompt) error { _, err := moving.Parse(p.Text); return err }),
	"heading":    anyOf(func(p prompts.Prompt) error { _, err := rewards.Heading{}.Asked(p.Text, p.Meta.Map()); return err }),
	"preserve":   anyOf(sourced),
	"likeness":   anyOf(sourced),
	"editreward": anyOf(sourced),
	"direction":  anyOf(func(p prompts.Prompt) error { return errors.Join(sourced(p), texts(p, "source"), texts(p, "target")) }),
	"geneval":    anyOf(func(p prompts.Prompt) error { return has(p, "geneval") }),
	"layout":     boxed,
	"ocr":        quoted,
	"judge":      asks,
	"format":     replied,
	"accuracy":   replied,
	"tools":      replied,
	"look":       replied,
	"tool-bonus": replied,
	"calls":      replied,
	"repetition": replied,
	"language":   replied,
	"length":     replied,
	"mini_o3":    replied,
}

// anyOf are needs that no setting of the reward changes.
func anyOf(read func(p prompts.Prompt) error) func(experiment.Reward) func(prompts.Prompt) error {
	return func(experiment.Reward) func(prompts.Prompt) error { return read }
}

func captioned(p prompts.Prompt) error { _, err := scenes.Parse(p.Text); return err }

func editable(p prompts.Prompt) error {
	_, err := rewards.SceneEdit{}.Asked(p.Text, p.Meta.Map())
	return err
}

// sourced is a prompt that names the picture which its samples are made of.
func sourced(p prompts.Prompt) error {
	if len(p.Sources()) == 0 {
		return rewards.ErrNoSource
	}
	return nil
}

// has is a prompt whose meta has a key, of whatever kind; texts is one whose key is a text, or several.
func has(p prompts.Prompt, key string) error {
	var any any
	return rewards.Meta(p.Meta.Map()).Read(key, &any)
}

func texts(p prompts.Prompt, key string) error {
	_, err := rewards.Meta(p.Meta.Map()).Texts(key)
	return err
}

// boxed is of layout: scenes by their captions, others by their boxes.
func boxed(r experiment.Reward) func(prompts.Prompt) error {
	if r.URL == "" {
		return captioned
	}
	return func(p prompts.Prompt) error { return has(p, "boxes") }
}

func quoted(r experiment.Reward) func(prompts.Prompt) error {
	rule := experiment.Filled(r.OCR).OCRRule
	return func(p prompts.Prompt) error { _, err := rule.Target(p.Text); return err }
}

// asks is of a judge: what its form's question has a blank for.
func asks(r experiment.Reward) func(prompts.Prompt) error {
	o := experiment.Filled(r.Judge)
	switch {
	case slices.Contains([]string{"edit_following", "edit_pairwise", "editscore", "edit_r1"}, o.Form):
		return sourced
	case o.Form == "vrag", strings.HasPrefix(o.Form, "deepeyes"), o.Form == "question" && strings.Contains(o.Question, "{truth}"):
		return func(p prompts.Prompt) error { return texts(p, "answer") }
	}
	return nil
}

// replied asks a rule about a reply: what is missing then is what the rule lacks in the prompt, since a reply that it
// cannot make sense of has a score.
func replied(r experiment.Reward) func(prompts.Prompt) error {
	o, err := openers[r.Name](r, Bench{})
	if err != nil {
		return nil // told where it is opened
	}
	reply := &rewards.Transcript{Turns: []rewards.Turn{{Text: "a reply"}}, Tokens: []int{0}, Width: 1 << 14, Height: 1 << 14}
	return func(p prompts.Prompt) error {
		got := o.judge.Judge(context.Background(), []rewards.Item{{Prompt: p.Text, Meta: p.Meta.Map(), Transcript: reply}})
		return got[0].Missing
	}
}
