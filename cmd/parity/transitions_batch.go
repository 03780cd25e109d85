package main

import (
	"math"

	"github.com/darkroom-rl/darkroom/sde"
)

// batch is the case's rows.
type batch struct {
	*Case
	x     Array
	width int // of a row
	s     sde.Schedule
	rows  []sde.Row
}

// newBatch reads x and sigmas, and makes each row's step.
func newBatch(c *Case, step func(s sde.Schedule, step int) sde.Row) *batch {
	b := &batch{Case: c, x: c.Array("x")}
	n := b.x.Shape[0]
	b.width = len(b.x.Data) / max(n, 1)
	c.Given("sigmas", &b.s.Sigmas)
	index := c.Ints("index")
	for i := range n {
		b.rows = append(b.rows, step(b.s, index[min(i, len(index)-1)]))
	}
	return b
}

func (b *batch) row(name string, i int) []float64 {
	return b.Array(name).Data[i*b.width : (i+1)*b.width]
}

// history is what row i has seen.
func (b *batch) history(i int) *sde.History {
	var h sde.History
	h.Push(b.row("x", i), b.row("v", i))
	return &h
}

// each puts an array of x's shape.
func (b *batch) each(name string, f func(i int) []float64) {
	var data []float64
	for i := range b.rows {
		data = append(data, f(i)...)
	}
	b.Put(name, Array{Shape: b.x.Shape, Data: data})
}

// perRow puts a number a row.
func (b *batch) perRow(name string, f func(i int) float64) {
	b.Put(name, times(len(b.rows), func(i int) float64 { return f(i) }))
}

func (b *batch) mean(i int) []float64 { return b.rows[i].Mean(b.history(i)) }

// put puts what the kernels have in common. next is the sample of a row, by default drawn.
func (b *batch) put(next func(i int) []float64) {
	if next == nil {
		next = func(i int) []float64 { return b.rows[i].Draw(b.mean(i), b.row("noise", i)) }
	}
	b.each("prev_sample", next)
	b.each("mean", b.mean)
	b.each("x0", func(i int) []float64 { return b.rows[i].Clean.Apply(b.history(i)) })
	b.perRow("tau", func(i int) float64 { return b.rows[i].Noise })
	b.perRow("std_returned", func(i int) float64 { return b.rows[i].KLDeviation })
	b.perRow("sqrt_dt", func(i int) float64 { return math.Sqrt(b.rows[i].From - b.rows[i].To) })
	b.perRow("log_prob", func(i int) float64 { return b.rows[i].LogProb(b.mean(i), next(i)) })
	if !b.Has("prev_given") {
		return
	}
	b.perRow("log_prob_given", func(i int) float64 { return b.rows[i].LogProb(b.mean(i), b.row("prev_given", i)) })
	w := b.Floats("w")
	b.each("grad_v", func(i int) []float64 {
		slope := b.rows[i].Slope(b.history(i))
		g := b.rows[i].LogProbGrad(b.mean(i), b.row("prev_given", i))
		for k := range g {
			g[k] *= slope[k] * w[i]
		}
		return g
	})
}
