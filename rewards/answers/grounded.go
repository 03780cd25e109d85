package answers

import (
	"context"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
)

// Card: one box for one thing, whose truth a detector finds: meta.label names the thing, and the detector looks for it
// in the prompt's first picture. Of several such things any may be meant: the one that the reply's box fits best. The
// score is that of Grounding. meta.seen, [width, height], is the picture's size as the model saw it; without it the
// reply's numbers are pixels of the picture. A picture in which the detector finds no such thing has no score: the
// reply may be right. Invariant (test): the detector's box said in the model's numbers is 1.
type Grounded struct{ Detector rewards.Detector }

var errNoPicture = errors.New("the conversation shows no picture in which a detector could look")

// Score judges a reply.
func (g Grounded) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	label, err := thingAsked(item)
	if err != nil {
		return rewards.Score{}, err
	}
	reply, err := lastTurn(item)
	if err != nil {
		return rewards.Score{}, err
	}
	if len(item.Transcript.Shown) == 0 {
		return rewards.Score{}, errNoPicture
	}
	m := item.Transcript.Shown[0]
	sizes := Grounding{Original: [2]int{m.Width, m.Height}}
	sizes.Seen = sizes.Original
	if item.Meta.Has("seen") == nil {
		if err := item.Meta.Read("seen", &sizes.Seen); err != nil {
			return rewards.Score{}, err
		}
	}
	found, err := g.Detector.Detect(ctx, m, []string{label})
	if err != nil {
		return rewards.Score{}, err
	}
	best, there := rewards.Score{}, false
	for _, f := range found {
		if f.Class != label {
			continue
		}
		s, err := sizes.against(reply, f.Box)
		if err != nil {
			return rewards.Score{}, err
		}
		if !there || s.Value > best.Value {
			best, there = s, true
		}
	}
	if !there {
		return rewards.Score{}, fmt.Errorf("the detector finds no %q in the picture, so that no box is right", label)
	}
	return best, nil
}

// thingAsked is the thing that a prompt asks for.
func thingAsked(item rewards.Item) (string, error) {
	label, err := item.Meta.Text("label")
	if err == nil && label == "" {
		err = errors.New("meta.label of the prompt is empty: it names the thing that a detector looks for")
	}
	return label, err
}

// accuracyKeys are of reward accuracy.
type accuracyKeys struct {
	ruleKeys
	rewards.NetworkKeys
	rewards.DetectorKey
}

// check refuses a detector of another rule than grounding.
func (k accuracyKeys) check(of string, report rewards.Report) {
	k.ruleKeys.check(of, report)
	switch {
	case k.Path != "" && (k.Rule != "grounding" || len(k.Rules) > 0):
		report("path", `a detector finds the truth of rule "grounding" alone`, `write rule = "grounding", without rules; or leave path out`)
	case k.Path == "" && k.Detector != nil:
		report("detector", "there is no detector whose boxes could count", "write its path, or leave detector out")
	case k.Path == "" && k.Precision != "":
		report("precision", "there is no network that could compute in it: rules read texts", "write a detector's path, or leave precision out")
	}
}

// open is the rule, with a detector where one is named.
func (k accuracyKeys) open(b rewards.Bench) (rewards.Opened, error) {
	if k.Path == "" {
		rule, err := k.reward()
		return rewards.One(rule), err
	}
	if b.Device == nil { // a prompt is tried, which lacks a label at most
		return rewards.One(rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
			_, err := thingAsked(item)
			return rewards.Score{}, err
		})), nil
	}
	d, err := rewards.OpenDetector(k.NetworkKeys, k.DetectorKey, b, false)
	if err != nil {
		return rewards.Opened{}, err
	}
	if k.Detector == nil {
		d.Least = rewards.UsualLeast
	}
	return rewards.Opened{Judge: rewards.Each(Grounded{d}, 1), Close: func() error { d.Close(); return nil }}, nil
}
