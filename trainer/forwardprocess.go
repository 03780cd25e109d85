package trainer

import (
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// ForwardProcess blames finished samples: it noises each one anew, to x_t = (1-t) x0 + t e of a flow or √a x0 + √(1-a)
// e of a ladder, and looks at what the network answers there. How a sample came about does not
// matter, so any solver may have made it (DiffusionNFT, AWM, DPO, fine-tuning).
type ForwardProcess struct {
	// Draw draws a time between 0 and 1 and a noise for a sample, the n-th of Times.
	Draw func(k Key, n int) (time float64, noise []float64)
	// Settle is noise with what is clean in the place of numbers that samples were given and did not draw, such as a
	// clip's first frame. Their target is 0 then, and their gradient. nil: nothing is given.
	Settle func(keys []Key, noise, clean [][]float64) ([][]float64, error)
	// Loss is over all times of all samples: row n·len(groups)+i is the n-th of sample i. Samples of one
	// prompt and iteration have one number in groups.
	Loss  func(t loss.Noised, groups []int, advantages []float64) (loss.Verdict, error)
	Times int     // that each sample is noised to; 0: 1
	Unit  float64 // what the network of a flow is told at time 1; 0: 1
	// At is the forward process at a time between 0 and 1; nil: a flow's.
	At             func(time float64) sde.Noising
	Old, Reference bool // whether Loss looks at what these weights answer
	// Paired compares samples of a prompt: they are noised alike, and those whose advantage is 0
	// stand outside.
	Paired  bool
	Anchor  Weights // which weights Reference means; 0: Reference
	Average bool    // whether Loss looks at what the moving average answers
}

// Blame is Objective's.
func (o ForwardProcess) Blame(p Policy, samples []Sample, advantages []float64) (Blame, error) {
	unit := o.Unit
	if unit == 0 {
		unit = 1
	}
	if o.Paired {
		samples, advantages = ends(samples, advantages)
	}
	var t loss.Noised
	var points []Point
	for n := range max(1, o.Times) {
		times, noises, err := o.draw(samples, n)
		if err != nil {
			return Blame{}, err
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
	answers, err := p.Eval(Current, points)
	if err != nil {
		return Blame{}, err
	}
	t.V = answers.Outputs
	for _, other := range []struct {
		asked   bool
		weights Weights
		into    *[][]float64
	}{{o.Old, Old, &t.VOld}, {o.Reference, anchor(o.Anchor), &t.VRef}, {o.Average, Average, &t.EMA}} {
		if !other.asked {
			continue
		}
		a, err := p.Eval(other.weights, points)
		if err != nil {
			return Blame{}, err
		}
		*other.into = a.Outputs
	}
	v, err := o.Loss(t, GroupNumbers(samples), advantages)
	if err != nil {
		return Blame{}, err
	}
	return Blame{Loss: v.Loss, Metrics: v.Metrics}, answers.Back(v.Grad)
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
		time, noise := o.Draw(alike, n)
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
