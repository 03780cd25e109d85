// Package judges opens rewards: a [[reward]] of an experiment, or of a command line, becomes a judge of pictures,
// clips or replies, with its network on a device.
//
//	o, err := judges.Open(reward, judges.Bench{Device: device, Batch: 16})
//	results := o.Judge(ctx, items)       // the samples of one prompt
//
// How one is opened is a part of its kind (package rewards/kinds). Here are the common parts: frames of clips,
// control words, and which are asked elsewhere.
package judges

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// A Bench has the resources of rewards. Its policy is the reward's own.
type Bench = rewards.Bench

// An Opened reward can be asked, and is closed when it no longer will be.
type Opened struct {
	Outside bool // it waits for a server or a program, and computes nothing on the device
	Network bool // it computes on the device, and nothing else, so that its scores follow from its inputs
	judge   rewards.Judge
	close   func() error
	starts  func(ctx context.Context) error
}

// Open makes the reward that a file asks for.
func Open(r experiment.Reward, b Bench) (Opened, error) {
	k, own := r.Kind()
	if k.Open == nil {
		return Opened{}, fmt.Errorf("reward %q cannot be opened in this version", r.Name)
	}
	computes := false
	if device := b.Device; device != nil {
		b.Device = func() (*features.Device, error) {
			computes = true
			return device()
		}
	}
	b.Policy = call.Policy{Timeout: time.Duration(r.Timeout * float64(time.Second)), Tries: r.Tries}
	found, err := k.Open(own, b)
	if err != nil {
		return Opened{}, fmt.Errorf("reward %s: %w", r.Called(), k.Missing(err))
	}
	o := Opened{Outside: r.Outside(), Network: computes && r.URL == "", judge: found.Judge, close: found.Close, starts: found.Starts}
	if r.Framed() {
		rule, err := rewards.ParseFrames(r.Frames)
		if err != nil {
			return Opened{}, errors.Join(fmt.Errorf("reward %s: %w", r.Called(), err), o.Close())
		}
		rule.Every = r.Every
		o.judge = rewards.Framed{Of: o.judge, FrameRule: rule}
	}
	if r.Relative != nil {
		relative := *r.Relative
		relative.Of = o.judge
		o.judge = relative
	}
	return o, nil
}

// Judge asks about the samples of a prompt.
func (o Opened) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return o.judge.Judge(ctx, items)
}

// Gradient is the reward as one that says how pixels change it, and a sign: against, it is the
// opposite, which of a relative reward has the control words swapped (SRPO).
func (o Opened) Gradient(against bool) (d rewards.Sloped, sign float64, ok bool) {
	judge := o.judge
	if t, elsewhere := judge.(through); elsewhere {
		judge = t.own
	}
	relative, words := judge.(rewards.Relative)
	switch d, ok = judge.(rewards.Sloped); {
	case against && words:
		return relative.Swapped(), 1, ok
	case against:
		return d, -1, ok
	}
	return d, 1, ok
}

// Starts is the error of a program that cannot start; nil: it starts, or the reward has none.
func (o Opened) Starts(ctx context.Context) error {
	if o.starts == nil {
		return nil
	}
	return o.starts(ctx)
}

// Close ends the reward's processes and networks.
func (o Opened) Close() error {
	if o.close == nil {
		return nil
	}
	return o.close()
}

// Through is the reward asked by somebody else, who may ask it itself.
func (o Opened) Through(ask func(ctx context.Context, items []rewards.Item, own rewards.Judge) []rewards.Result) Opened {
	o.judge = through{o.judge, ask}
	return o
}

type through struct {
	own rewards.Judge
	ask func(ctx context.Context, items []rewards.Item, own rewards.Judge) []rewards.Result
}

func (t through) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return t.ask(ctx, items, t.own)
}

// Reads is the error of a prompt whose samples the reward could not judge, whatever they are; nil: it takes any
// prompt. It is known before anything is rolled. A reward's requirements on the disk are known by opening it on a
// device that computes nothing.
func Reads(r experiment.Reward) func(p prompts.Prompt) error {
	k, own := r.Kind()
	switch {
	case k.Is(rewards.Rule):
		return replied(k, own)
	case k.Needs == nil:
		return nil
	}
	need := k.Needs(own)
	if need == nil {
		return nil
	}
	return func(p prompts.Prompt) error {
		return need(rewards.Prompt{Text: p.Text, Meta: p.Meta.Map(), Sources: len(p.Sources())})
	}
}

// replied asks a rule about a reply: a missing score then shows that the prompt lacks something, since an unreadable
// reply has a score.
func replied(k rewards.Kind, own any) func(prompts.Prompt) error {
	o, err := k.Open(own, Bench{})
	if err != nil {
		return nil // reported where it is opened
	}
	reply := &rewards.Transcript{Turns: []rewards.Turn{{Text: "a reply"}}, Tokens: []int{0}, Width: 1 << 14, Height: 1 << 14}
	return func(p prompts.Prompt) error {
		got := o.Judge.Judge(context.Background(), []rewards.Item{{Prompt: p.Text, Meta: p.Meta.Map(), Transcript: reply}})
		return got[0].Missing
	}
}
