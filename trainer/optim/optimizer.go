// Package optim moves parameters: AdamW, clipping of gradients, learning rates
// over the updates, and averages of weights (EMA, the old policy of NFT).
//
// Start at [Options], the table [optim]. [AdamW] is the float64 definition of the step; the engine's kernel takes the
// same step in float32 with the numbers of [AdamW.Kernel], and a test holds the two together.
//
// Updates count from 0. Parameters are flat slices: how they are cut into tensors
// does not matter here, but for [ClipScale], whose norm goes over all of them.
package optim

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Options say how parameters move.
type Options struct {
	LR          float64    `toml:"lr" range:"(0,inf)" doc:"learning rate, the highest of the schedule"`
	WeightDecay float64    `toml:"weight_decay" range:"[0,inf)" doc:"share of a weight that a step with lr 1 would take away"`
	Betas       [2]float64 `toml:"betas" range:"[0,1)" doc:"how much of the averages of the gradient and of its square is kept"`
	Eps         float64    `toml:"eps" range:"[1e-37,inf)" doc:"added to the root of the squared gradient's average"`
	GradClip    float64    `toml:"grad_clip" range:"[0,inf)" doc:"largest norm of the whole gradient; 0 does not clip"`
	Updates     int        `toml:"updates" range:"[1,inf)" doc:"updates per iteration"`
	Split       bool       `toml:"split" doc:"the iteration's samples are shared out among its updates, at random; otherwise each update sees all"`

	Schedule string  `toml:"schedule" enum:"constant,linear,cosine,cosine_with_restarts,polynomial" doc:"learning rate after the warm-up"`
	Warmup   int     `toml:"warmup" range:"[0,inf)" doc:"updates over which the learning rate rises from 0"`
	Steps    int     `toml:"schedule_steps" range:"[0,inf)" doc:"updates the schedule is made for; 0 is the length of the run"`
	Cycles   int     `toml:"cycles" range:"[1,inf)" doc:"how often cosine_with_restarts starts"`
	Power    float64 `toml:"power" range:"(0,inf)" doc:"exponent of polynomial"`
	End      float64 `toml:"lr_end" range:"[0,inf)" doc:"where polynomial ends"`

	EMA      float64 `toml:"ema" range:"[0,1)" doc:"how much of the averaged weights is kept at most; 0 keeps no average"`
	EMAEvery int     `toml:"ema_every" range:"[1,inf)" doc:"updates between two steps of the average"`
	EMAShape Decay   `toml:"ema_shape" doc:"how the share that is kept grows"`
}

// Defaults are flow_grpo's, without its average.
func Defaults() Options {
	return Options{
		LR: 3e-4, WeightDecay: 1e-4, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8, GradClip: 1, Updates: 1,
		Schedule: "constant", Cycles: 1, Power: 1, End: 1e-7,
		EMAEvery: 1, EMAShape: DefaultDecay(),
	}
}

// Check reports contradictions between fields.
func (o Options) Check(report func(key, problem, hint string)) {
	if o.Schedule != "constant" && o.Steps > 0 && o.Warmup >= o.Steps {
		report("warmup", fmt.Sprintf("the warm-up of %d updates leaves nothing of the schedule's %d", o.Warmup, o.Steps),
			"shorten the warm-up, or set schedule_steps = 0 for the length of the run")
	}
	if o.Schedule == "polynomial" && o.End >= o.LR {
		report("lr_end", fmt.Sprintf("%v is not below lr, %v", o.End, o.LR), "a polynomial schedule falls from lr to lr_end")
	}
	if o.EMA > 0 {
		o.EMAShape.Check(func(key, problem, hint string) { report("ema_shape."+key, problem, hint) })
	}
}

// Optimizer moves the engine's parameters: AdamW for all but those that a group gives to Muon.
// Its float64 twins are AdamW, and Muon in the tests.
type Optimizer struct {
	// Clip is the largest norm of the whole gradient; 0 does not clip.
	Clip float64
	// Ranks are the optimizers of all ranks, this one among them, where each has the state of its own parameters alone
	// (Group.Values); nil: this one has all.
	Ranks []*Optimizer
	// Lines copy gradients to states that lie in another memory; nil: uncounted.
	Lines  *exchange.Lines
	groups []moved
}

// Group is parameters that move alike.
type Group struct {
	Name   string // put with a dot before the names of its parameters, where it is not empty
	Params []*autograd.Param
	// Values are those that are moved, in fp32, where they are not the parameters' own: their pool has the averages, too,
	// and its backend moves them. nil among them: another rank moves the parameter.
	Values []*tensor.Tensor
	Muon   bool // matrices alone
	Rate   float64
	// Options' learning rate is not read: Step has it as a parameter, and Rate scales it. Of Muon, Betas[0] is the
	// momentum.
	Options
}

type moved struct {
	Group
	adam  *AdamW
	state []slot
}

// slot is a parameter's state: both averages, or the momentum, and the updates in them. Each counts its own, as in
// PyTorch: one that is held, or that no pass reached, has none of the update.
type slot struct {
	of      *autograd.Param
	value   *tensor.Tensor // nil: the parameter's own
	m, v    *tensor.Tensor // nil: another rank's
	updates int
	held    bool      // it stays where it is
	moved   bool      // by the last Move
	squares []float64 // of the gradient, stretch by stretch
}

// values are those that are moved. A parameter's own may be exchanged (Shadow.Swap).
func (s *slot) values() *tensor.Tensor {
	if s.value != nil {
		return s.value
	}
	return s.of.Value
}

// NewOptimizer starts with zero state, in the pool of the parameters' values.
func NewOptimizer(clip float64, groups ...Group) *Optimizer {
	mv := &Optimizer{Clip: clip}
	for _, g := range groups {
		m := moved{Group: g, adam: NewAdamW(g.Options, 0)}
		for j, p := range g.Params {
			s := slot{of: p}
			if g.Muon && len(p.Shape) != 2 {
				panic(fmt.Sprintf("optim: Muon moves matrices, and %s is %v", p.Name, p.Shape))
			}
			if g.Values != nil {
				s.value = g.Values[j]
			}
			if g.Values == nil || s.value != nil {
				pool := s.values().Pool()
				s.m = pool.LastingZeros(kernels.F32, p.Shape...).Named(p.Name + ", average")
				if !g.Muon {
					s.v = pool.LastingZeros(kernels.F32, p.Shape...).Named(p.Name + ", average of squares")
				}
			}
			m.state = append(m.state, s)
		}
		mv.groups = append(mv.groups, m)
	}
	return mv
}

// Step moves all parameters by the gradients that passes left in them, forgets those, and
// returns the gradient's norm before it was clipped. A gradient that is not finite moves
// nothing, and is an error.
func (mv *Optimizer) Step(lr float64) (norm float64, err error) {
	norm = mv.Norm()
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm, fmt.Errorf("the gradient's norm is %v: nothing was moved", norm)
	}
	mv.Move(ClipScale(norm, mv.Clip), lr)
	return norm, nil
}

// Set changes how parameters are moved from now on. Averages of gradients, and how many updates
// are in them, are kept.
func (mv *Optimizer) Set(o Options) {
	for i := range mv.groups {
		g := &mv.groups[i]
		g.Options = o
		g.adam.WeightDecay, g.adam.Betas, g.adam.Eps = o.WeightDecay, o.Betas, o.Eps
	}
}

// Hold says by their names which parameters stay where they are from now on, whatever passes leave of their gradients:
// no decay moves them, and their averages stay.
func (mv *Optimizer) Hold(stays func(name string) bool) {
	for _, g := range mv.groups {
		for i := range g.state {
			g.state[i].held = stays(Named(g.Name, g.state[i].of.Name))
		}
	}
}

// Named is a parameter's name with its group's before it.
func Named(group, name string) string {
	if group == "" {
		return name
	}
	return group + "." + name
}

// Norm is that of the whole gradient, of parameters that are held apart: of all ranks, in the parameters' order.
func (mv *Optimizer) Norm() float64 {
	ranks := mv.Ranks
	if ranks == nil {
		ranks = []*Optimizer{mv}
	}
	sum := 0.0
	for _, o := range ranks {
		o.Measure()
	}
	for i, g := range mv.groups {
		for j := range g.state {
			s := mv.at(i, j)
			for _, x := range s.squares {
				sum += x
			}
		}
	}
	for _, o := range ranks {
		o.unmeasured()
	}
	return math.Sqrt(sum)
}

// Measure adds up the squares of this optimizer's own gradients, for Norm. Every sum is computed before the first is
// read, since reading waits for the device.
func (mv *Optimizer) Measure() {
	var grads []*tensor.Tensor
	var of []*slot
	for _, g := range mv.groups {
		for j := range g.state {
			s := &g.state[j]
			if s.squares != nil {
				return // it was done
			}
			if s.held {
				s.of.ZeroGrad()
			} else if grad := s.grad(); grad != nil {
				grads, of = append(grads, grad), append(of, s)
			}
		}
	}
	all := squares(grads...)
	for k, s := range of {
		n := stretches(grads[k])
		s.squares, all = all[:n:n], all[n:]
	}
}

func (mv *Optimizer) unmeasured() {
	for _, g := range mv.groups {
		for j := range g.state {
			g.state[j].squares = nil
		}
	}
}

// grad is the gradient of a parameter that is moved here.
func (s *slot) grad() *tensor.Tensor {
	if s.m == nil {
		return nil
	}
	return s.of.Grad()
}

// at is a parameter's state, at the rank that has it.
func (mv *Optimizer) at(i, j int) *slot {
	for _, o := range mv.Ranks {
		if s := &o.groups[i].state[j]; s.m != nil {
			return s
		}
	}
	return &mv.groups[i].state[j]
}

// HasMoved reports whether the last Move moved a parameter, by its number over all groups.
func (mv *Optimizer) HasMoved(k int) bool {
	for i, g := range mv.groups {
		if k < len(g.state) {
			return mv.at(i, k).moved
		}
		k -= len(g.state)
	}
	return false
}

// Move moves all parameters by their gradients times scale, and forgets those.
func (mv *Optimizer) Move(scale, lr float64) {
	for _, g := range mv.groups {
		g.step(float32(scale), lr*g.Rate, mv.Lines)
	}
	mv.unmeasured()
}

// Skip forgets the gradients, and moves nothing.
func (mv *Optimizer) Skip() {
	for _, g := range mv.groups {
		for _, s := range g.state {
			s.of.ZeroGrad()
		}
	}
	mv.unmeasured() // a norm that nobody asked for is of these gradients
}

func (g *moved) step(scale float32, lr float64, lines *exchange.Lines) {
	for i := range g.state {
		s := &g.state[i]
		s.moved = false
		if s.held {
			s.of.ZeroGrad()
			continue
		}
		grad := s.grad()
		if grad == nil {
			s.of.ZeroGrad()
			continue
		}
		s.updates++
		s.moved = true
		if g.Muon {
			g.muon(s, grad, scale, lr)
		} else {
			k := g.adam.kernel(s.updates, lr)
			k.GradScale = scale
			s.step(&k, grad, lines)
		}
		if s.values() == s.of.Value {
			s.of.Updated()
		}
		s.of.ZeroGrad()
	}
}

// Piece is how many numbers of a gradient lie beside a state in another memory.
const Piece = 4 << 20

// step takes the step where the state lies. A gradient of another memory comes there piece by piece: the step is one
// for each number.
func (s *slot) step(k *kernels.AdamW, grad *tensor.Tensor, lines *exchange.Lines) {
	value, g := s.values(), grad.Span()
	be := value.Pool().Backend()
	if grad.Pool().Backend() == be {
		k.P, k.Grad, k.M, k.V = value.Span(), g, s.m.Span(), s.v.Span()
		be.AdamW(k)
		return
	}
	room := value.Pool().New(kernels.F32, min(Piece, g.Len))
	defer room.Free()
	if value.Pool().Dry() {
		return
	}
	for lo := 0; lo < g.Len; lo += Piece {
		hi := min(lo+Piece, g.Len)
		k.Grad = room.Span().Slice(0, hi-lo)
		lines.Copy(be, k.Grad, grad.Pool().Backend(), g.Slice(lo, hi))
		k.P, k.M, k.V = value.Span().Slice(lo, hi), s.m.Span().Slice(lo, hi), s.v.Span().Slice(lo, hi)
		be.AdamW(k)
	}
}

// muon moves a matrix by Muon (muon.go): products in bf16, as published.
func (g *moved) muon(s *slot, grad *tensor.Tensor, scale float32, lr float64) {
	pool := grad.Pool()
	be, sc := pool.Backend(), pool.Scope()
	defer sc.End()
	rows, cols := s.of.Shape[0], s.of.Shape[1]
	mom := float32(g.Betas[0])
	fresh := float32(1-g.Betas[0]) * scale
	be.Axpby(&kernels.Axpby{A: fresh, B: mom, X: grad.Span(), Y: s.m.Span()})
	x := sc.New(kernels.F32, rows, cols)
	be.Axpby(&kernels.Axpby{A: mom, X: s.m.Span(), Y: x.Span()})
	be.Axpby(&kernels.Axpby{A: fresh, B: 1, X: grad.Span(), Y: x.Span()})
	size := max(math.Sqrt(total(squares(x))), muonEps)
	y := sc.New(kernels.F32, rows, cols)
	be.Axpby(&kernels.Axpby{A: float32(1 / size), X: x.Span(), Y: y.Span()})
	x, y = y, x
	n := min(rows, cols)
	a, p := sc.New(kernels.F32, n, n), sc.New(kernels.F32, n, n)
	for range muonRounds {
		square := kernels.Gemm{Layout: kernels.NT, Math: kernels.MathBF16, A: x.Mat(), B: x.Mat(), C: a.Mat()}
		if rows > cols {
			square.Layout = kernels.TN
		}
		be.Gemm(&square)
		// p = b A + c A², and A is symmetric.
		be.Axpby(&kernels.Axpby{A: float32(muonCoefficients[1]), X: a.Span(), Y: p.Span()})
		be.Gemm(&kernels.Gemm{Layout: kernels.NT, Math: kernels.MathBF16, A: a.Mat(), B: a.Mat(), C: p.Mat(), Alpha: float32(muonCoefficients[2]), Accumulate: true})
		// y = a X + p X, or a X + X p.
		be.Axpby(&kernels.Axpby{A: float32(muonCoefficients[0]), X: x.Span(), Y: y.Span()})
		next := kernels.Gemm{Layout: kernels.NN, Math: kernels.MathBF16, A: p.Mat(), B: x.Mat(), C: y.Mat(), Accumulate: true}
		if rows > cols {
			next.A, next.B = x.Mat(), p.Mat()
		}
		be.Gemm(&next)
		x, y = y, x
	}
	be.Axpby(&kernels.Axpby{A: float32(-lr * muonScale(rows, cols)), B: float32(1 - float64(lr*g.WeightDecay)), X: x.Span(), Y: s.of.Value.Span()})
}

// stretch is how many elements one sum of squares takes: a reduction is a chain on a device, and many
// short ones go side by side.
const stretch = 4096

// stretches are how many sums of squares a tensor has.
func stretches(t *tensor.Tensor) int { return (t.Len() + stretch - 1) / stretch }

// squares are the sums of the squares of all elements, stretch by stretch.
func squares(of ...*tensor.Tensor) []float64 {
	pieces := 0
	for _, t := range of {
		pieces += stretches(t)
	}
	if pieces == 0 {
		return nil
	}
	pool := of[0].Pool()
	out, at := pool.New(kernels.F64, pieces), 0
	defer out.Free()
	reduce := func(x kernels.Span, rows int) {
		pool.Backend().Reduce(&kernels.Reduce{Op: kernels.ReduceSquares, X: kernels.NewMat(x, rows, x.Len/rows), Out: out.Span().Slice(at, at+rows)})
		at += rows
	}
	for _, t := range of {
		x, rows := t.Span(), t.Len()/stretch
		if rows > 0 {
			reduce(x.Slice(0, rows*stretch), rows)
		}
		if rest := x.Slice(rows*stretch, x.Len); rest.Len > 0 {
			reduce(rest, 1)
		}
	}
	return out.F64()
}

func total(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// ClipScale is the factor by which a gradient of some norm is not longer than limit: min(1, limit/(norm + 1e-6)), as
// torch's clip_grad_norm_ has it. Limit 0 does not clip.
func ClipScale(norm, limit float64) float64 {
	if limit == 0 {
		return 1
	}
	return min(1, limit/(norm+1e-6))
}
