package trainer

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// TokenPolicy blames the tokens of episodes. A row is the tokens after the prompt, filled up to the longest: the
// model's own tokens count, observations do not. With Trained false a token is not judged, and its episode still
// counts among its group (episodes that ran out of turns, Mini-o3).
//
// A ratio compares the log-probability of the model at the sampler's temperature with that when the token was drawn;
// the sampler's filtered distribution is loss.Tokens.Sampler, for the rollout's correction.
//
// Invariant (test): in the first update after a roll every ratio is exactly 1.
type TokenPolicy struct {
	Loss      loss.TokenLoss
	Reference bool                           // whether Loss uses the reference weights; otherwise KL is from the sampling weights
	Anchor    Weights                        // which weights are the reference; 0: Reference
	Draw      func(k Key, token int) float64 // a uniform number of a token, for clip-cov
	Critic    *Critic                        // the learning of a value head beside; nil: no such head
}

// A Critic trains a value head on decisions' returns: half the squared distance, of values that are cut to where they
// stood at the roll (PPO, verl), averaged over tokens.
type Critic struct {
	Clip      float64
	Aggregate loss.Aggregate
}

// blame is the gradient at every value, [sample][decision], and metrics.
func (c *Critic) blame(b *LossResult, samples []Sample, n sheet, mask [][]float64, values func(s, k int) float64) ([][]float64, error) {
	v := n.spread(samples, values)
	old := n.spread(samples, func(s, k int) float64 { return samples[s].Decisions.Value[k] })
	returns := n.spread(samples, func(s, k int) float64 { return samples[s].Decisions.Return[k] })
	l, grad, clipped, err := loss.Value(v, old, returns, mask, c.Clip, c.Aggregate)
	if err != nil {
		return nil, fmt.Errorf("the loss of values: %w", err)
	}
	b.add("value_loss", l)
	b.add("value_clipped", clipped)
	b.add("value_explained", explained(v, returns, mask))
	return grad, nil
}

// explained is the share of the returns' variance that values explain; 0 where they do not vary.
func explained(values, returns, mask [][]float64) float64 {
	n, sum, squares, left, leftSquares := 0.0, 0.0, 0.0, 0.0, 0.0
	for i, row := range returns {
		for k, r := range row {
			if m := mask[i][k]; m > 0 {
				d := r - values[i][k]
				n, sum, squares, left, leftSquares = n+1, sum+r, squares+float64(r*r), left+d, leftSquares+float64(d*d)
			}
		}
	}
	if spread := squares - sum*sum/max(1, n); spread > 1e-12 {
		return 1 - (leftSquares-left*left/n)/spread
	}
	return 0
}

// Evaluate implements Objective.
func (o TokenPolicy) Evaluate(p Policy, samples []Sample, advantages []float64) (LossResult, error) {
	var b LossResult
	points := make([]Point, len(samples))
	for i, s := range samples {
		if s.Item.Episode == nil {
			return b, fmt.Errorf("sample %d of prompt %d is no episode: an objective of tokens judges what a language model said", s.Key.Sample, s.Key.Prompt)
		}
		points[i] = Point{Key: s.Key, Episode: s.Item.Episode, Entropy: o.entropy(), Value: o.Critic != nil}
	}
	compared := bare(points)
	err := announce(p, func() ([]Question, error) {
		all := []Question{{Current, points}}
		if o.Reference {
			all = append(all, Question{anchor(o.Anchor), compared})
		}
		return all, nil
	})
	if err != nil {
		return b, err
	}
	forward, err := p.Eval(Current, points)
	if err != nil {
		return b, err
	}
	t := o.rows(samples, advantages, forward.Outputs)
	if o.Reference {
		reference, err := p.Eval(anchor(o.Anchor), compared)
		if err != nil {
			return b, err
		}
		t.Reference = newSheet(samples).spread(samples, func(s, k int) float64 { return reference.Outputs[s][k] })
	}
	if !o.Reference {
		t.Reference = t.Old
	}
	r, err := o.Loss.Of(t)
	if err != nil {
		return b, err
	}
	b.Loss = r.Loss
	b.add("kl", r.KL)
	for name, v := range r.Metrics {
		b.add(name, v)
	}
	if o.entropy() {
		b.add("entropy", r.Entropy)
	}
	var slopes [][]float64
	if o.Critic != nil {
		if slopes, err = o.Critic.blame(&b, samples, newSheet(samples), t.Mask, func(s, k int) float64 {
			out := forward.Outputs[s]
			return out[len(out)-len(samples[s].Decisions.Step)+k]
		}); err != nil {
			return b, err
		}
	}
	grads := make([][]float64, len(samples))
	for i, s := range samples {
		n := len(s.Decisions.Step)
		grads[i] = make([]float64, len(forward.Outputs[i]))
		for k, step := range s.Decisions.Step {
			at := step - s.Item.Episode.Begins()
			grads[i][k] = r.Grad[i][at]
			if o.entropy() && r.GradEntropy != nil {
				grads[i][n+k] = r.GradEntropy[i][at]
			}
			if slopes != nil {
				grads[i][len(grads[i])-n+k] = slopes[i][at]
			}
			name := "ratio"
			if s.Reused { // by weights of an earlier iteration: not 1 from the start
				name = "ratio_reused"
			}
			if s.Decisions.Trained[k] {
				b.add(name, portable.Exp(forward.Outputs[i][k]-s.Decisions.LogProb[k]))
			}
		}
	}
	return b, forward.Back(grads)
}

// bare are points that ask for log-probabilities alone: the head of values is that of the current weights.
func bare(points []Point) []Point {
	if len(points) == 0 || !points[0].Entropy && !points[0].Value {
		return points
	}
	all := slices.Clone(points)
	for i := range all {
		all[i].Entropy, all[i].Value = false, false
	}
	return all
}

// entropy is whether the loss looks at it.
func (o TokenPolicy) entropy() bool {
	return o.Loss.EntropyWeight != 0 || o.Loss.Keep.Entropy > 0 && o.Loss.Keep.Entropy < 1
}

// rows are the loss's inputs. Outputs of a sample are its decisions' log-probabilities, and their entropies.
func (o TokenPolicy) rows(samples []Sample, advantages []float64, outputs [][]float64) loss.Tokens {
	sheet := newSheet(samples)
	of := func(value func(s, k int) float64) [][]float64 { return sheet.spread(samples, value) }
	t := loss.Tokens{
		LogProb: of(func(s, k int) float64 { return outputs[s][k] }),
		Old:     of(func(s, k int) float64 { return samples[s].Decisions.LogProb[k] }),
		Sampler: of(func(s, k int) float64 { return samples[s].Item.Episode.Drawn(samples[s].Decisions.Step[k]) }),
		Mask: of(func(s, k int) float64 {
			if samples[s].Decisions.Trained[k] {
				return 1
			}
			return 0
		}),
		Advantage: of(func(s, k int) float64 {
			if a := samples[s].Decisions.Advantage; a != nil {
				return a[k]
			}
			return advantages[s]
		}),
	}
	t.Group = GroupNumbers(samples)
	if o.Loss.Perception.On() {
		t.Masked = of(func(s, k int) float64 { return samples[s].Decisions.Masked[k] })
	}
	if o.entropy() {
		t.Entropy = of(func(s, k int) float64 { return outputs[s][len(samples[s].Decisions.Step)+k] })
	}
	if o.Draw != nil {
		t.Draw = of(func(s, k int) float64 { return o.Draw(samples[s].Key, samples[s].Decisions.Step[k]) })
	}
	return t
}

// sheet is how long the rows of a batch are.
type sheet int

func newSheet(samples []Sample) sheet {
	longest := 0
	for _, s := range samples {
		longest = max(longest, s.Item.Episode.Length())
	}
	return sheet(longest)
}

// spread puts a number of every decision in its place, and 0 elsewhere.
func (n sheet) spread(samples []Sample, value func(sample, decision int) float64) [][]float64 {
	rows := make([][]float64, len(samples))
	for s := range samples {
		rows[s] = make([]float64, n)
		for k, step := range samples[s].Decisions.Step {
			rows[s][step-samples[s].Item.Episode.Begins()] = value(s, k)
		}
	}
	return rows
}
