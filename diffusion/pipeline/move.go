package pipeline

import (
	"fmt"
	"slices"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Where a row takes pictures, from the network's outputs (sample.go): its mean, its draw and its log-probability
// are the row's own (package sde).

// move takes pictures from the network's outputs on: those that are one until after the step
// are moved once, and all side by side.
func (r *run) move(step int, outputs [][]float64) error {
	to, old := make([]moved, len(r.pictures)), r.twins[step]
	for i, twin := range r.twins[step+1] {
		if i == twin && i != old[i] { // it parts, before its twin's history changes
			r.history[i] = r.history[old[i]].Clone()
		}
	}
	var side sync.WaitGroup
	for i, twin := range r.twins[step+1] {
		if draw := r.drawOf(step, i); i == twin {
			side.Go(func() { to[i] = r.moveOne(step, i, draw) })
		}
	}
	side.Wait()
	for i, twin := range r.twins[step+1] {
		t, m := old[i], to[twin]
		if !m.finite {
			return fmt.Errorf("step %d: picture %d: %w", step, twin, errNotFinite)
		}
		if r.Watch != nil {
			r.Watch(step, i, outputs[t], m.next)
		}
		if slices.Contains(r.Record, step) && (r.pictures[i].Draw == nil || r.drawOf(step, i).On) {
			g := r.pictures[i].Given
			r.tracks[i].Steps = append(r.tracks[i].Steps, Step{Index: step, Time: r.Times[step], Before: g.Still(r.now[t]), Output: g.Still(outputs[t]),
				Mean: g.Still(m.mean), After: g.Still(m.next), LogProb: m.logProb})
		}
	}
	for i := range to {
		r.now[i] = to[r.twins[step+1][i]].next
	}
	return nil
}

// moved is where a row takes a picture.
type moved struct {
	mean, next []float64
	logProb    float64
	finite     bool
}

func (r *run) moveOne(step, i int, draw Draw) moved {
	row := r.Rows[step]
	if r.pictures[i].Draw != nil && !draw.On && r.Quiet != nil {
		row = r.Quiet[step]
	}
	m := moved{mean: row.Mean(&r.history[i])}
	m.next = m.mean
	if draw.On {
		z := Noise(draw.Key, r.At)
		for k := range z {
			z[k] *= draw.Scale
		}
		m.next = row.Draw(m.mean, z)
	}
	m.next = rounded(m.next)
	g := r.pictures[i].Given
	m.logProb, m.finite = row.LogProb(g.Still(m.mean), g.Still(m.next)), finite(m.next)
	return m
}

var errNotFinite = kernels.NotFiniteError("the latents are infinite or none: the network's outputs are out of range (try f32)")

func finite[T float32 | float64](x []T) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// rounded is numbers at the precision that latents have.
func rounded(x []float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(float32(v))
	}
	return y
}
