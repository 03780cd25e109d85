package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/judges"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// rewardSet is the rewards of [[reward]], opened, and their failures. It makes scores of samples, and one total of the
// scores of rewards that are trained on.
type rewardSet struct {
	all      []reward        // in the file's order
	shared   []*fleet.Scores // by which workers compute some of them
	failures map[string]int  // iterations in a row, by the reward that failed; a checkpoint holds it
	ctx      context.Context // of the run: waiting ends with it
	device   *sync.Mutex     // held by computations on the run's device while rewards are asked
	say      say
}

// reward is one [[reward]].
type reward struct {
	name string
	experiment.Failure
	answered bool        // since the program began
	there    func() bool // whether workers compute it; nil: none ever does
	judges.Opened
	copies []judges.Opened // of a network, on the run's further devices
}

// elsewhere reports whether the reward can be asked while this device computes something else.
func (r *reward) elsewhere() bool { return r.Outside || r.there != nil && r.there() }

// atOnce is how many samples a server or a program is asked about in one request.
const atOnce = 16

// open opens every [[reward]]: networks on each device. They compute in fp32, with memory of their own: rewards may be
// asked from any goroutine.
func (s *rewardSet) open(list []experiment.Reward, on ...kernels.Backend) error {
	benches := make([]judges.Bench, len(on))
	for i, be := range on {
		benches[i] = judges.Bench{Batch: atOnce, Device: sync.OnceValues(func() (*features.Device, error) {
			return features.On(tensor.NewPool(be), features.F32), nil
		})}
	}
	for _, r := range list {
		o, err := judges.Open(r, benches[0])
		if err != nil {
			return errors.Join(err, s.close())
		}
		s.all = append(s.all, reward{name: r.Called(), Failure: r.Failure, Opened: o})
		if !o.Network {
			continue
		}
		of := &s.all[len(s.all)-1]
		for _, bench := range benches[1:] {
			if o, err = judges.Open(r, bench); err != nil {
				return errors.Join(err, s.close())
			}
			of.copies = append(of.copies, o)
		}
	}
	return nil
}

func (s *rewardSet) close() error {
	var errs []error
	for _, r := range s.all {
		errs = append(errs, r.Close())
		for _, o := range r.copies {
			errs = append(errs, o.Close())
		}
	}
	s.all = nil
	return errors.Join(errs...)
}

// outside reports whether a reward can be asked during a roll.
func (s *rewardSet) outside() bool {
	return slices.ContainsFunc(s.all, func(r reward) bool { return r.elsewhere() })
}

// scores are the results of rewards for some samples.
type scores struct {
	results  map[string][]rewards.Result // by reward, one a sample
	trained  [][]float64                 // of the rewards that are trained on, in the file's order; NaN: missing
	total    []float64                   // these, combined
	controls controls                    // of groups that have some
}

// score asks every reward about items of prompts, a group at a time: judges may compare. The experiment combines the
// scores of rewards that are trained on. Some requests were sent before.
func (s *rewardSet) score(e *experiment.Experiment, sent *requests, list []prompts.Prompt, items []rewards.Item, groups [][]int) (*scores, error) {
	all, err := s.results(e, sent, list, items, groups)
	if err != nil {
		return nil, err
	}
	return all, all.combine(e, list)
}

// results are scores without totals.
func (s *rewardSet) results(e *experiment.Experiment, sent *requests, list []prompts.Prompt, items []rewards.Item, groups [][]int) (*scores, error) {
	out := &scores{results: map[string][]rewards.Result{}}
	for i := range items {
		items[i].Share()
	}
	item := func(i int) rewards.Item { return ofPrompt(items[i], list[i]) }
	groups = withoutLost(items, groups)
	for k := range s.all {
		sent.send(&s.all[k], item, s.all[k].weighted(list, groups))
	}
	for k := range s.all {
		r := &s.all[k]
		all, err := s.answers(sent, r, item, r.weighted(list, groups), len(items))
		if err != nil {
			return nil, err
		}
		markLost(items, all)
		out.results[r.name] = all
		if e.Rewards[k].Train {
			out.trained = append(out.trained, rewards.Values(all))
		}
	}
	return out, nil
}

// combine makes the totals.
func (s *scores) combine(e *experiment.Experiment, list []prompts.Prompt) (err error) {
	if len(s.trained) == 0 {
		s.total = slices.Repeat([]float64{math.NaN()}, len(list))
		return nil
	}
	s.total, err = e.Combination().For(weightsOf(list), s.trained)
	return err
}

// ofPrompt is an item with its prompt's text and data.
func ofPrompt(item rewards.Item, p prompts.Prompt) rewards.Item {
	item.Prompt, item.Meta = p.Text, p.Meta.Map()
	return item
}

// weightsOf are the weights that prompts have of their own; nil where none has any.
func weightsOf(list []prompts.Prompt) []map[string]float64 {
	var own []map[string]float64
	for i, p := range list {
		if p.Weights != nil && own == nil {
			own = make([]map[string]float64, len(list))
		}
		if own != nil {
			own[i] = p.Weights
		}
	}
	return own
}

// weighted are the groups whose prompts do not give the reward the weight 0.
func (r *reward) weighted(list []prompts.Prompt, groups [][]int) [][]int {
	return slices.DeleteFunc(slices.Clone(groups), func(g []int) bool {
		return !r.weighs(list[g[0]])
	})
}

// weighs reports whether the prompt gives the reward another weight than 0.
func (r *reward) weighs(p prompts.Prompt) bool {
	w, ok := p.Weights[r.name]
	return !ok || w != 0
}

// errNotAsked is why a sample has no score of a reward that its prompt gives the weight 0. Nothing failed.
var errNotAsked = errors.New("the prompt gives this reward the weight 0")

// with is s followed by more.
func (s *scores) with(more *scores) *scores {
	if s == nil {
		return more
	}
	for name, all := range more.results {
		s.results[name] = append(s.results[name], all...)
	}
	for k := range s.trained {
		s.trained[k] = append(s.trained[k], more.trained[k]...)
	}
	s.total = append(s.total, more.total...)
	s.controls.add(more.controls)
	return s
}

// numbers are a reward's values; NaN: missing.
func (s *scores) numbers(name string) []float64 {
	return rewards.Values(s.results[name])
}

// lines are the results for sample i, for its line in a file.
func (s *scores) lines(i int) map[string]ledger.ScoreLine {
	out := map[string]ledger.ScoreLine{}
	for name, all := range s.results {
		r := all[i]
		line := ledger.ScoreLine{Value: ledger.Number(r.Number()), Parts: r.Parts, Evidence: r.Evidence}
		if r.Missing != nil {
			line = ledger.ScoreLine{Missing: r.Missing.Error()}
		}
		out[name] = line
	}
	return out
}

// gradients are the trained rewards' sums over pictures and their gradients at the pixels, for objectives that follow
// them (loss.objective = "reward-gradient").
func (s *rewardSet) gradients(e *experiment.Experiment, list []prompts.Prompt, ways []trainer.GradientPath, pictures []vision.Pixels) (values []float64, grads [][]float32, err error) {
	c := e.Combination()
	weights := make([][]float64, len(ways)) // of parts, by way
	for i, w := range ways {
		if weights[i], err = c.WeightsFor(list[w.Key.Prompt].Weights); err != nil {
			return nil, nil, err
		}
	}
	values, grads = make([]float64, len(ways)), make([][]float32, len(ways))
	for i, m := range pictures {
		grads[i] = make([]float32, len(m.RGB))
	}
	part := 0
	for k, r := range s.all {
		if !e.Rewards[k].Train {
			continue
		}
		factor, low := 1.0, 0.0
		if scale := c.Parts[part].Scale; scale.Kind == "range" {
			factor, low = scale.High-scale.Low, scale.Low
		}
		for _, against := range []bool{false, true} {
			var at []int
			var items []rewards.Item
			var some []vision.Pixels
			for i, w := range ways {
				if w.Against == against && weights[i][part] != 0 {
					p := list[w.Key.Prompt]
					at, items, some = append(at, i), append(items, rewards.Item{Prompt: p.Text, Meta: p.Meta.Map()}), append(some, pictures[i])
				}
			}
			if len(at) == 0 {
				continue
			}
			d, sign, ok := r.Gradient(against)
			if !ok {
				return nil, nil, fmt.Errorf("reward %s has no gradient at pixels", r.name)
			}
			v, g, err := d.PixelGradient(context.Background(), items, some)
			if err != nil {
				return nil, nil, fmt.Errorf("the gradient of reward %s: %w", r.name, err)
			}
			for n, i := range at {
				weight := sign * (weights[i][part] / factor)
				values[i] += float64(weight * (v[n] - low))
				for e, x := range g[n] {
					grads[i][e] += float32(float32(weight) * x)
				}
			}
		}
		part++
	}
	return values, grads, nil
}

// compared are the scores of each trained reward, without those of samples that are not compared: these have a total,
// and none in totals.
func (s *scores) compared(totals []float64) [][]float64 {
	all := make([][]float64, len(s.trained))
	for k := range all {
		all[k] = slices.Clone(s.trained[k])
		for i, v := range totals {
			if v != v && s.total[i] == s.total[i] {
				all[k][i] = v
			}
		}
	}
	return all
}
