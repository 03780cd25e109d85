package neural

import (
	"context"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision"
)

// The rewards as package rewards asks for them: samples of a group go through the network in
// its batches, a clip's reward is the mean over its frames, and a sample that cannot be judged
// is missing alone.

// Differentiable rewards say how each number of a picture changes its reward: methods that follow a reward's gradient
// need them. Values are those of the numbers, not of bytes.
type Differentiable = rewards.Sloped

var (
	_ rewards.Judge  = Match{}
	_ rewards.Judge  = Aesthetic{}
	_ rewards.Judge  = Likeness{}
	_ rewards.Reward = Match{}
	_ rewards.Reward = Aesthetic{}
	_ rewards.Reward = Likeness{}
	_ rewards.Reward = Subject{}
	_ Differentiable = Match{}
	_ Differentiable = Aesthetic{}
	_ Differentiable = Likeness{}
)

// Score judges one sample.
func (m Match) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	return alone(ctx, m, item)
}

// Score judges one sample.
func (a Aesthetic) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	return alone(ctx, a, item)
}

// Score judges one sample.
func (l Likeness) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	return alone(ctx, l, item)
}

func alone(ctx context.Context, j rewards.Judge, item rewards.Item) (rewards.Score, error) {
	r := j.Judge(ctx, []rewards.Item{item})[0]
	return r.Score, r.Missing
}

// Judge judges samples together. Evidence is the cosine, and the end of a prompt that is too
// long to be read.
func (m Match) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return inBatch(ctx, items, m.Every, func(ctx context.Context, of []rewards.Item, pictures []*vision.Image) ([]rewards.Score, error) {
		prompts := promptsOf(of)
		matched, err := m.Images(ctx, prompts, pictures)
		if err != nil {
			return nil, err
		}
		scores := make([]rewards.Score, len(matched))
		for i, s := range matched {
			scores[i] = rewards.Score{Value: s.Value, Parts: map[string]float64{"cosine": s.Cosine}}
			if unread := m.Towers.Unread(prompts[i]); unread != "" {
				scores[i].Because("unread", "%s", unread)
			}
		}
		return scores, nil
	})
}

func promptsOf(items []rewards.Item) []string {
	prompts := make([]string, len(items))
	for i, item := range items {
		prompts[i] = item.Prompt
	}
	return prompts
}

// PixelGradient is Gradient for samples.
func (m Match) PixelGradient(ctx context.Context, items []rewards.Item, pictures []vision.Pixels) ([]float64, [][]float32, error) {
	return m.Gradient(ctx, promptsOf(items), pictures)
}

// Judge judges samples together.
func (a Aesthetic) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return inBatch(ctx, items, a.Every, func(ctx context.Context, _ []rewards.Item, pictures []*vision.Image) ([]rewards.Score, error) {
		values, err := a.Images(ctx, pictures)
		return plain(values), err
	})
}

func plain(values []float64) []rewards.Score {
	scores := make([]rewards.Score, len(values))
	for i, v := range values {
		scores[i].Value = v
	}
	return scores
}

// PixelGradient is Gradient for samples.
func (a Aesthetic) PixelGradient(ctx context.Context, _ []rewards.Item, pictures []vision.Pixels) ([]float64, [][]float32, error) {
	return a.Gradient(ctx, pictures)
}

// Judge compares samples with their references.
func (l Likeness) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return inBatch(ctx, items, 1, func(ctx context.Context, of []rewards.Item, pictures []*vision.Image) ([]rewards.Score, error) {
		references, err := l.references(ctx, of)
		if err != nil {
			return nil, err
		}
		values, err := l.Images(ctx, pictures, references)
		return plain(values), err
	})
}

func (l Likeness) references(ctx context.Context, items []rewards.Item) ([]*vision.Image, error) {
	if l.Reference == nil {
		return nil, fmt.Errorf("a likeness needs to know what to")
	}
	all := make([]*vision.Image, len(items))
	for i, item := range items {
		var err error
		if all[i], err = l.Reference(ctx, item); err != nil {
			return nil, fmt.Errorf("the reference: %w", err)
		}
	}
	return all, nil
}

// PixelGradient is Gradient for samples.
func (l Likeness) PixelGradient(ctx context.Context, items []rewards.Item, pictures []vision.Pixels) ([]float64, [][]float32, error) {
	references, err := l.references(ctx, items)
	if err != nil {
		return nil, nil, err
	}
	return l.Gradient(ctx, pictures, references)
}

// Subject is the consistency of a clip's subject, by a DINO, or of its background, by a CLIP, as a reward.
type Subject struct {
	Likeness
	Every int // one frame in this many is read; 0: 1
}

// Score judges a clip. Evidence is the frame that is least like those it is compared with.
func (s Subject) Score(ctx context.Context, item rewards.Item) (score rewards.Score, err error) {
	if item.Clip == nil {
		return score, errOneFrame
	}
	frames, err := item.Frames(s.Every)
	if err != nil {
		return score, err
	}
	value, each, err := s.Consistency(ctx, frames)
	if err != nil {
		return score, err
	}
	least := 0
	for t, v := range each {
		if v < each[least] {
			least = t
		}
	}
	score.Value = value
	score.Evidence = []evidence.Reason{{What: "least alike", Text: fmt.Sprintf("frame %d", (least+1)*max(1, s.Every)), Value: each[least]}}
	return score, nil
}

// Judge judges clips one after another.
func (s Subject) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return rewards.Each(rewards.Func(s.Score), 1).Judge(ctx, items)
}

// inBatch judges the pictures of all samples at once, and, where that fails, each sample's
// alone, so that one of them does not cost the others their scores.
func inBatch(ctx context.Context, items []rewards.Item, every int, of func(ctx context.Context, of []rewards.Item, pictures []*vision.Image) ([]rewards.Score, error)) []rewards.Result {
	results := make([]rewards.Result, len(items))
	var pictures []*vision.Image
	var owner []rewards.Item // of each picture
	var from []int           // where a sample's pictures begin
	for i, item := range items {
		from = append(from, len(pictures))
		frames, err := item.Frames(every)
		if err != nil {
			results[i].Missing = err
			continue
		}
		for _, f := range frames {
			pictures, owner = append(pictures, f), append(owner, item)
		}
	}
	from = append(from, len(pictures))
	scores, err := of(ctx, owner, pictures)
	for i := range items {
		if results[i].Missing != nil {
			continue
		}
		lo, hi := from[i], from[i+1]
		own, why := scores, err
		if err == nil {
			own = scores[lo:hi]
		} else if len(items) > 1 && ctx.Err() == nil {
			own, why = of(ctx, owner[lo:hi], pictures[lo:hi])
		}
		if why != nil {
			results[i].Missing = why
			continue
		}
		results[i] = mean(own)
	}
	return results
}

// mean is the score of a picture, or of a clip by its frames'.
func mean(frames []rewards.Score) rewards.Result {
	s := frames[0]
	if len(frames) > 1 {
		s = rewards.Score{Parts: map[string]float64{}, Evidence: s.Evidence}
		for t, f := range frames {
			s.Value += f.Value / float64(len(frames))
			for name, v := range f.Parts {
				s.Parts[name] += v / float64(len(frames))
			}
			s.Evidence = append(s.Evidence, evidence.Reason{What: "frame", Text: fmt.Sprint(t), Value: f.Value})
		}
	}
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		return rewards.Result{Missing: fmt.Errorf("the reward is %v", s.Value)}
	}
	return rewards.Result{Score: s}
}
