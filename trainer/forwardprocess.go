package trainer

import (
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// ForwardProcess blames finished samples: it noises each one anew, to x_t = (1-t) x0 + t e of a flow or √a x0 + √(1-a)
// e of a ladder, and looks at the network's outputs there. How a sample came about does not
// matter, so any solver may have made it (DiffusionNFT, AWM, DPO, fine-tuning).
//
// It goes from time to time, as PolicyGradient goes from step to step: inputs and outputs of a few times lie in
// memory at once, and their gradients are taken before the next ones are asked.
//
// Invariant (test): loss, metrics and gradients have the bits of all times at once.
type ForwardProcess struct {
	// Draw draws a time between 0 and 1 and a noise for a sample, the n-th: each update takes the next Times.
	Draw func(k Key, n int) (time float64, noise []float64)
	// Settle is noise with the clean values in the place of numbers that samples were given and did not draw, such as
	// a clip's first frame. Their target is 0 then, and their gradient. nil: nothing is given.
	Settle func(keys []Key, noise, clean [][]float64) ([][]float64, error)
	// Loss is over this number of times of all samples. Samples of one prompt and iteration have one number in
	// groups.
	Loss     func(times int, groups []int, advantages []float64) loss.Walk
	Times    int     // that each sample is noised to; 0: 1
	Together bool    // Loss looks at all times at once
	Unit     float64 // the network's time input of a flow at time 1; 0: 1
	// At is the forward process at a time between 0 and 1; nil: a flow's.
	At             func(time float64) sde.Noising
	Old, Reference bool // whether Loss uses these weights' outputs
	// Paired compares samples of a prompt: they are noised alike, and those whose advantage is 0 are left out.
	Paired  bool
	Anchor  Weights // which weights Reference means; 0: Reference
	Average bool    // whether Loss reads the outputs of the moving average
	Update  int     // of the iteration: which Times of a sample's draws it takes
}

// OfUpdate implements Stochastic.
func (o ForwardProcess) OfUpdate(n int) Objective {
	o.Update = n
	return o
}

// leastRows is how many rows are asked about at once where there are as many: fewer would not fill a device. No fit
// changes it, since ranks share rows out, and the order of their sums follows.
const leastRows = 64

// TimesAtOnce is how many of the times of this number of samples lie in memory at once.
func TimesAtOnce(samples, times int, together bool) int {
	if together {
		return times
	}
	return min(times, max(1, leastRows/max(1, samples)))
}

// Evaluate implements Objective.
func (o ForwardProcess) Evaluate(p Policy, samples []Sample, advantages []float64) (LossResult, error) {
	if o.Paired {
		samples, advantages = ends(samples, advantages)
	}
	o.Times = max(1, o.Times)
	walk, most := o.Loss(o.Times, GroupNumbers(samples), advantages), TimesAtOnce(len(samples), o.Times, o.Together)
	parts := make([]part, 0, (o.Times+most-1)/most)
	for n := 0; n < o.Times; n += most {
		parts = append(parts, part{from: n, to: min(n+most, o.Times)})
	}
	err := announce(p, func() (all []Question, err error) {
		for i := range parts {
			if err := o.noise(&parts[i], samples); err != nil {
				return nil, err
			}
			all = append(all, Question{Current, parts[i].points})
			for _, other := range o.others(&parts[i].t) {
				all = append(all, Question{other.weights, parts[i].points})
			}
		}
		return all, nil
	})
	if err != nil {
		return LossResult{}, err
	}
	for _, part := range parts {
		if err := o.times(p, walk, samples, part); err != nil {
			return LossResult{}, err
		}
	}
	v := walk.Result()
	return LossResult{Loss: v.Loss, Metrics: v.Metrics}, nil
}

// A part is some times of the samples.
type part struct {
	from, to int
	t        loss.Noised
	points   []Point // nil: they are not noised yet
}

// noise noises samples to a part's times, once.
func (o ForwardProcess) noise(x *part, samples []Sample) (err error) {
	if x.points == nil {
		x.t, x.points, err = o.noised(samples, x.from, x.to)
	}
	return err
}

// another is outputs of a set of weights beside the current one.
type another struct {
	weights Weights
	into    *[][]float64
}

// others are those that Loss uses.
func (o ForwardProcess) others(t *loss.Noised) (all []another) {
	if o.Old {
		all = append(all, another{Old, &t.VOld})
	}
	if o.Reference {
		all = append(all, another{anchor(o.Anchor), &t.VRef})
	}
	if o.Average {
		all = append(all, another{Average, &t.EMA})
	}
	return all
}

// times asks about some times of samples, and takes the gradients back.
func (o ForwardProcess) times(p Policy, walk loss.Walk, samples []Sample, x part) error {
	if err := o.noise(&x, samples); err != nil {
		return err
	}
	t, points := x.t, x.points
	forward, err := p.Eval(Current, points)
	if err != nil {
		return err
	}
	t.V = forward.Outputs
	for _, other := range o.others(&t) {
		a, err := p.Eval(other.weights, points)
		if err != nil {
			return err
		}
		*other.into = a.Outputs
	}
	grad, err := walk.Next(t)
	if err != nil {
		return err
	}
	return forward.Back(grad)
}

// noised are samples at some of their times, and the network's inputs there.
func (o ForwardProcess) noised(samples []Sample, from, to int) (t loss.Noised, points []Point, err error) {
	unit := o.Unit
	if unit == 0 {
		unit = 1
	}
	for n := from; n < to; n++ {
		times, noises, err := o.draw(samples, n)
		if err != nil {
			return t, nil, err
		}
		for i, s := range samples {
			at := sde.FlowNoising(times[i], unit)
			if o.At != nil {
				at = o.At(times[i])
				t.Target = append(t.Target, sde.Mixed(at.OfClean, at.OfNoise, s.Item.Final, noises[i]))
			}
			t.Clean = append(t.Clean, s.Item.Final)
			points = append(points, Point{Key: s.Key, State: sde.Mixed(at.Clean, at.Noise, s.Item.Final, noises[i]), Time: at.Time})
		}
		t.Noise, t.Time = append(t.Noise, noises...), append(t.Time, times...)
	}
	return t, points, nil
}

// draw are the n-th times of samples, and their noise.
func (o ForwardProcess) draw(samples []Sample, n int) (times []float64, noises [][]float64, err error) {
	var keys []Key
	var clean [][]float64
	for _, s := range samples {
		alike := s.Key
		if o.Paired {
			alike.Sample = 0
		}
		time, noise := o.Draw(alike, o.Update*max(1, o.Times)+n)
		times, noises, keys, clean = append(times, time), append(noises, noise), append(keys, s.Key), append(clean, s.Item.Final)
	}
	if o.Settle != nil {
		noises, err = o.Settle(keys, noises, clean)
	}
	return times, noises, err
}

// ends are the samples with an advantage.
func ends(samples []Sample, advantages []float64) (some []Sample, worth []float64) {
	for i, a := range advantages {
		if a != 0 {
			some, worth = append(some, samples[i]), append(worth, a)
		}
	}
	return some, worth
}
