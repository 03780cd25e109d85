package rewards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
)

// Relative asks a reward twice about each sample, with a positive and with a negative control word
// in its prompt, and answers with the difference (SRPO; Shen et al., 2025):
//
//	r = (1 + k)·r(sample, positive prompt) - r(sample, negative prompt)
//
// The reward's liking of any picture, whatever the words, cancels out, and the meaning of the words is left: an
// aesthetic model that likes gloss stops paying for it. k leans towards the positive one, as guidance does; upstream
// adds text features, and a score that is linear in them, as those of CLIP, HPSv2 and PickScore before a bounded map,
// is the same sum up to their norms. A word goes before the prompt with a point, or where it has {prompt}.
//
// Invariants (tests): a reward that does not read prompts gives k times itself; a sample of which
// either score is missing has none.
type Relative struct {
	Positive string  `toml:"positive" doc:"control word of what is wanted, before the prompt or with {prompt} in it"`
	Negative string  `toml:"negative" doc:"and of what is not; empty: the prompt alone"`
	K        float64 `toml:"k" range:"[0,inf)" doc:"how much more the positive one counts"`
	Of       Judge   `toml:"-"`
}

// Card describes the choice and names its source.
func (Relative) Card() string {
	return "A reward's score with a positive control word less that with a negative one (SRPO): what it likes anyway cancels out."
}

// Check reports words that cannot differ.
func (r Relative) Check(report func(key, problem, hint string)) {
	if strings.TrimSpace(r.Positive) == strings.TrimSpace(r.Negative) {
		report("positive|negative", "both prompts are the same, and so are their scores", `for example positive = "realistic photo", negative = "render"`)
	}
}

// Judge asks twice.
func (r Relative) Judge(ctx context.Context, items []Item) []Result {
	wanted, unwanted := r.Of.Judge(ctx, worded(items, r.Positive)), r.Of.Judge(ctx, worded(items, r.Negative))
	out := make([]Result, len(items))
	for i := range out {
		switch {
		case i >= len(wanted) || i >= len(unwanted):
			out[i].Missing = fmt.Errorf("the reward judged %d and %d of %d samples", len(wanted), len(unwanted), len(items))
		case wanted[i].Missing != nil:
			out[i].Missing = fmt.Errorf("with %q: %w", r.Positive, wanted[i].Missing)
		case unwanted[i].Missing != nil:
			out[i].Missing = fmt.Errorf("with %q: %w", r.Negative, unwanted[i].Missing)
		default:
			out[i].Score = r.difference(wanted[i].Score, unwanted[i].Score)
		}
	}
	return out
}

// difference is the relative score, with both others as its parts.
func (r Relative) difference(wanted, unwanted Score) Score {
	s := Score{Value: float64((1+r.K)*wanted.Value) - unwanted.Value, Parts: map[string]float64{}, Evidence: wanted.Evidence}
	maps.Copy(s.Parts, wanted.Parts)
	s.Parts["positive"], s.Parts["negative"] = wanted.Value, unwanted.Value
	return s
}

// worded are the items with a control word in their prompts.
func worded(items []Item, word string) []Item {
	out := make([]Item, len(items))
	for i, item := range items {
		out[i] = item
		switch {
		case word == "":
		case strings.Contains(word, "{prompt}"):
			out[i].Prompt = strings.ReplaceAll(word, "{prompt}", item.Prompt)
		default:
			out[i].Prompt = word + ". " + item.Prompt
		}
	}
	return out
}

// Sloped rewards say how each number of a picture changes them (package neural's networks).
type Sloped interface {
	PixelGradient(ctx context.Context, items []Item, pictures []vision.Pixels) (values []float64, grads [][]float32, err error)
}

// PixelGradient is the difference's value and slope, where Of has them.
func (r Relative) PixelGradient(ctx context.Context, items []Item, pictures []vision.Pixels) ([]float64, [][]float32, error) {
	of, ok := r.Of.(Sloped)
	if !ok {
		return nil, nil, errors.New("a relative reward of one that has no gradient at pixels")
	}
	values, grads, err := of.PixelGradient(ctx, worded(items, r.Positive), pictures)
	if err != nil {
		return nil, nil, err
	}
	less, slopes, err := of.PixelGradient(ctx, worded(items, r.Negative), pictures)
	if err != nil {
		return nil, nil, err
	}
	for i := range values {
		values[i] = float64((1+r.K)*values[i]) - less[i]
		for e, s := range slopes[i] {
			grads[i][e] = float32(float32(1+r.K)*grads[i][e]) - s
		}
	}
	return values, grads, nil
}

// Swapped exchanges the two words: upstream asks so where a step goes towards noise.
func (r Relative) Swapped() Relative {
	r.Positive, r.Negative = r.Negative, r.Positive
	return r
}
