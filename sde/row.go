package sde

import (
	"math"
	"slices"
)

// A solver is rows of numbers. With x the latents that the network was asked at, v its
// outputs and y the latents after correction (the same as x but in predictor-corrector
// methods), all of this step (lag 0) and of those before it, one step is
//
//	y      = sum of Correct over x, v, y          where there is a correction
//	mean   = sum of Next over x, v, y  + Clamp.Gain · clip(Clamp.Of)
//	next x = mean + Noise·z,  z standard normal
//
// Every number is known before the network runs. One function applies any row, one place
// (density.go) has the transition's log-probability.

// Mix is a linear combination of a sampler's history: coefficients by lag.
type Mix struct{ X, Out, Y []float64 }

// Clamp is the one thing that is not linear: a prediction of the clean sample that is cut
// to ±Bound before it is used (DDIM's clip_sample).
type Clamp struct {
	Of          Mix
	Gain, Bound float64
}

// Row is one step.
type Row struct {
	Step     int
	From, To float64 // sigmas; shares of signal in variance-preserving schedules
	Next     Mix
	Correct  *Mix
	Clamp    *Clamp
	Noise    float64 // the deviation of the noise
	Clean    Mix     // the clean sample that the output predicts
	Density  Density
	// KLDeviation is the divisor of the distance of two means in published code. It is the
	// deviation in some, and not in others.
	KLDeviation float64
}

// Stochastic reports whether the step draws.
func (r Row) Stochastic() bool { return r.Noise != 0 }

// Lags is how many steps before this one the row looks at.
func (r Row) Lags() int {
	mixes, lags := []Mix{r.Next, r.Clean}, 0
	if r.Correct != nil {
		mixes = append(mixes, *r.Correct)
	}
	if r.Clamp != nil {
		mixes = append(mixes, r.Clamp.Of)
	}
	for _, m := range mixes {
		for _, coefficients := range [][]float64{m.X, m.Out, m.Y} {
			for lag, c := range coefficients {
				if c != 0 {
					lags = max(lags, lag)
				}
			}
		}
	}
	return lags
}

func at(coefficients []float64, lag int) float64 {
	if lag < len(coefficients) {
		return coefficients[lag]
	}
	return 0
}

// lagged is the coefficient c at a lag.
func lagged(lag int, c float64) []float64 {
	x := make([]float64, lag+1)
	x[lag] = c
	return x
}

// x, output and y are single terms.
func x(lag int) Mix      { return Mix{X: lagged(lag, 1)} }
func output(lag int) Mix { return Mix{Out: lagged(lag, 1)} }
func y(lag int) Mix      { return Mix{Y: lagged(lag, 1)} }

// times is c·m.
func (m Mix) times(c float64) Mix {
	scale := func(v []float64) []float64 {
		if v == nil {
			return nil
		}
		w := make([]float64, len(v))
		for i := range v {
			if v[i] != 0 {
				w[i] = c * v[i]
			}
		}
		return w
	}
	return Mix{scale(m.X), scale(m.Out), scale(m.Y)}
}

// plus is m + o.
func (m Mix) plus(others ...Mix) Mix {
	add := func(v, w []float64) []float64 {
		if len(v) == 0 && len(w) == 0 {
			return nil
		}
		sum := make([]float64, max(len(v), len(w)))
		for i := range sum {
			sum[i] = at(v, i) + at(w, i)
		}
		return sum
	}
	for _, o := range others {
		m = Mix{add(m.X, o.X), add(m.Out, o.Out), add(m.Y, o.Y)}
	}
	return m
}

func (m Mix) minus(o Mix) Mix { return m.plus(o.times(-1)) }

// History is a sampler's earlier predictions, newest first.
type History struct{ X, Out, Y [][]float64 }

// Push begins a step: the latents that the network was asked at, and its output.
func (h *History) Push(x, out []float64) {
	h.X = append([][]float64{x}, h.X...)
	h.Out = append([][]float64{out}, h.Out...)
	h.Y = append([][]float64{x}, h.Y...)
}

// Keep forgets all but the newest n steps.
func (h *History) Keep(n int) {
	for _, values := range []*[][]float64{&h.X, &h.Out, &h.Y} {
		if len(*values) > n {
			clear((*values)[n:])
			*values = (*values)[:n]
		}
	}
}

// Clone is a history of the same steps that goes on by itself.
func (h History) Clone() History {
	return History{slices.Clone(h.X), slices.Clone(h.Out), slices.Clone(h.Y)}
}

// Apply is the combination's value.
func (m Mix) Apply(h *History) []float64 {
	var sum []float64
	add := func(coefficients []float64, values [][]float64) {
		for lag, c := range coefficients {
			if c == 0 {
				continue
			}
			if sum == nil {
				sum = make([]float64, len(values[lag]))
			}
			for i, v := range values[lag] {
				sum[i] += float64(c * v)
			}
		}
	}
	add(m.X, h.X)
	add(m.Out, h.Out)
	add(m.Y, h.Y)
	if sum == nil && len(h.X) > 0 {
		sum = make([]float64, len(h.X[0]))
	}
	return sum
}

// Mean is the mean of the next latents; where the row corrects, h's newest y is corrected.
func (r Row) Mean(h *History) []float64 {
	if r.Correct != nil {
		h.Y[0] = r.Correct.Apply(h)
	}
	mean := r.Next.Apply(h)
	if r.Clamp != nil {
		for i, c := range r.Clamp.Of.Apply(h) {
			mean[i] += float64(r.Clamp.Gain * math.Max(-r.Clamp.Bound, math.Min(c, r.Clamp.Bound)))
		}
	}
	return mean
}

// Slope is the derivative of each element of the mean by that of this step's output.
func (r Row) Slope(h *History) []float64 {
	n := len(h.Out[0])
	slope := make([]float64, n)
	for i := range slope {
		slope[i] = at(r.Next.Out, 0)
	}
	if r.Correct != nil {
		for i := range slope {
			slope[i] += float64(at(r.Next.Y, 0) * at(r.Correct.Out, 0))
		}
	}
	if r.Clamp != nil {
		for i, c := range r.Clamp.Of.Apply(h) {
			if math.Abs(c) <= r.Clamp.Bound {
				slope[i] += float64(r.Clamp.Gain * at(r.Clamp.Of.Out, 0))
			}
		}
	}
	return slope
}

// Draw is the next latents from their mean.
func (r Row) Draw(mean, z []float64) []float64 {
	next := make([]float64, len(mean))
	for i, m := range mean {
		next[i] = m
		if r.Noise != 0 {
			next[i] += float64(r.Noise * z[i])
		}
	}
	return next
}
