package sde

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// DPM-Solver++ (Lu et al., 2022) for flows: exponential integrators of the predicted clean
// samples D in λ = ln(1-s) - ln s. With h = λ' - λ, and D1, D2 the divided differences of
// the last predictions,
//
//	ODE  s'/s·x + (1-s')·[(1-e⁻ʰ)·D + c1·D1 + c2·D2]
//	SDE  s'/s·e⁻ʰ·x + (1-s')·[(1-e⁻²ʰ)·D + ...],  τ = s'·√(1-e⁻²ʰ)
//
// Second order is "midpoint" or "heun"; third order is "heun" alone. Where λ is infinite
// (s = 1 before, s' = 0 after) the step is the limit of first order.
//
// MixGRPO's stochastic steps know an older form too, "dpmsolver", whose noise grows. The
// stochastic third order of diffusers and MixGRPO has the sign of one half wrong, so that
// its last term does not vanish with h; AsPublished repeats that.

// Multistep says which one.
type Multistep struct {
	Order           int
	Heun            bool // second order's form; "midpoint" where not set
	LowerOrderFinal bool // orders drop at the end where T < 15
	EulerAtFinal    bool
	SDE             bool
	Grows           bool // MixGRPO's "dpmsolver"; only with SDE
	AsPublished     bool // see above
}

// Row is one step.
func (m Multistep) Row(s Schedule, step int) Row {
	return m.row(s, step, m.order(s, step))
}

// order is the order that step can have.
func (m Multistep) order(s Schedule, step int) int {
	t := s.Steps()
	o := min(m.Order, step+1)
	if step == t-1 && (m.EulerAtFinal || m.LowerOrderFinal && t < 15 || s.Sigmas[t] == 0) {
		return 1
	}
	if step == t-2 && m.LowerOrderFinal && t < 15 {
		return min(o, 2)
	}
	return o
}

// row is a step of an order.
func (m Multistep) row(s Schedule, step, order int) Row {
	r := flowRow(s, step)
	from, to := r.From, r.To
	h := lambda(to) - lambda(from)
	if math.IsInf(h, 0) || math.IsNaN(h) {
		r.Next = r.Clean
		switch {
		case to > 0 && m.SDE:
			r.Next, r.Noise, r.KLDeviation, r.Density = r.Clean.times(1-to), to, to, Gaussian
		case to > 0:
			r.Next = x(0).times(to / from).plus(r.Clean.times(1 - to))
		}
		return r
	}
	d1, d2, order := differences(s, step, order, h)
	switch {
	case m.Grows:
		r.Next = x(0).times((1 - to) / (1 - from)).plus(r.Clean.times(-2 * to * portable.Expm1(h)))
		if order == 2 && m.Heun {
			r.Next = r.Next.minus(d1.times(2 * to * (portable.Expm1(h)/h - 1)))
		} else if order == 2 {
			r.Next = r.Next.minus(d1.times(to * portable.Expm1(h)))
		}
		r.Noise = to * math.Sqrt(portable.Expm1(2*h))
	case m.SDE:
		q := 2 * h
		r.Next = x(0).times(to / from * portable.Exp(-h)).plus(m.sum(r.Clean, d1, d2, order, q).times(1 - to))
		r.Noise = to * math.Sqrt(-portable.Expm1(-q))
	default:
		r.Next = x(0).times(to / from).plus(m.sum(r.Clean, d1, d2, order, h).times(1 - to))
	}
	if m.SDE || m.Grows {
		r.Density, r.KLDeviation = Gaussian, r.Noise
	}
	return r
}

// sum is the bracket, over a span of q in λ.
func (m Multistep) sum(d, d1, d2 Mix, order int, q float64) Mix {
	gain := -portable.Expm1(-q) // 1 - e^-q
	all := d.times(gain)
	switch {
	case order == 3:
		half := 0.5
		if m.SDE && m.AsPublished {
			half = -half
		}
		return all.plus(d1.times(1-gain/q), d2.times((gain-q)/(q*q)+half))
	case order == 2 && m.Heun:
		return all.plus(d1.times(1 - gain/q))
	case order == 2:
		return all.plus(d1.times(gain / 2))
	}
	return all
}

// differences are the divided differences of the last predictions; the order drops where λ
// begins at minus infinity.
func differences(s Schedule, step, order int, h float64) (d1, d2 Mix, possible int) {
	if order < 2 {
		return Mix{}, Mix{}, 1
	}
	r0 := (lambda(s.Sigmas[step]) - lambda(s.Sigmas[step-1])) / h
	if math.IsInf(r0, 0) {
		return Mix{}, Mix{}, 1
	}
	d1 = denoised(s, step, 0).minus(denoised(s, step, 1)).times(1 / r0)
	if order < 3 {
		return d1, Mix{}, 2
	}
	r1 := (lambda(s.Sigmas[step-1]) - lambda(s.Sigmas[step-2])) / h
	if math.IsInf(r1, 0) {
		return d1, Mix{}, 3 // d2 is 0, and d1 keeps its coefficient of third order
	}
	d11 := denoised(s, step, 1).minus(denoised(s, step, 2)).times(1 / r1)
	change := d1.minus(d11)
	return d1.plus(change.times(r0 / (r0 + r1))), change.times(1 / (r0 + r1)), 3
}

// Singlestep is the same method with every order begun anew: a step of order k starts from
// the latents k-1 steps back (DPMSolverSinglestepScheduler).
type Singlestep struct {
	Orders []int // of each step
	Heun   bool
}

// SinglestepOrders is upstream's list of orders for T steps.
func SinglestepOrders(order, steps int, lowerOrderFinal bool) []int {
	var all []int
	run := func(n int) {
		for k := range n {
			all = append(all, k+1)
		}
	}
	switch {
	case order <= 1:
		for range steps {
			run(1)
		}
	case order == 2:
		for range steps / 2 {
			run(2)
		}
		if steps%2 == 1 {
			run(1)
		}
	case lowerOrderFinal && steps%3 == 0:
		for range steps/3 - 1 {
			run(3)
		}
		run(2)
		run(1)
	default:
		for range steps / 3 {
			run(3)
		}
		run(steps % 3)
	}
	return all
}

// Row is one step.
func (m Singlestep) Row(s Schedule, step int) Row {
	r := flowRow(s, step)
	order := m.Orders[step]
	base := step - (order - 1)
	start, to := s.Sigmas[base], r.To
	h := lambda(to) - lambda(start)
	if math.IsInf(h, 0) || math.IsNaN(h) {
		r.Next = r.Clean
		if to > 0 {
			r.Next = x(order - 1).times(to / start).plus(r.Clean.times(1 - to))
		}
		return r
	}
	gain := -portable.Expm1(-h)
	first := denoised(s, step, order-1)
	sum := first.times(gain)
	since := func(lag int) float64 { return (lambda(s.Sigmas[step-lag]) - lambda(start)) / h }
	if order >= 2 && !math.IsInf(since(0), 0) {
		slope := r.Clean.minus(first).times(1 / since(0))
		switch {
		case order == 2 && !m.Heun:
			sum = sum.plus(slope.times(gain / 2))
		case order == 3 && m.Heun:
			r0, r1 := since(0), since(1)
			middle := denoised(s, step, 1).minus(first).times(1 / r1)
			d1 := middle.times(r0 / (r0 - r1)).minus(slope.times(r1 / (r0 - r1)))
			d2 := slope.minus(middle).times(2 / (r0 - r1))
			sum = sum.plus(d1.times(1-gain/h), d2.times((gain-h)/(h*h)+0.5))
		default:
			sum = sum.plus(slope.times(1 - gain/h))
		}
	}
	r.Next = x(order - 1).times(to / start).plus(sum.times(1 - to))
	return r
}

// DPM2MSolver is the midpoint form of second order.
var DPM2MSolver = Solver{
	Name: "dpm++2m", Card: "DPM-Solver++, multistep, second order (midpoint); deterministic.",
	Paper: "DPM-Solver++", Formula: "x0 extrapolated from two steps, midpoint", Cases: []string{"solver.flow_dpm_multistep", "solver.nft"},
	History: true, Build: fixed(Multistep{Order: 2, LowerOrderFinal: true}.Row),
}

// DPM2MHeunSolver is Heun's form of second order.
var DPM2MHeunSolver = Solver{
	Name: "dpm++2m-heun", Card: "DPM-Solver++, multistep, second order (heun); deterministic.",
	Paper: "DPM-Solver++", Formula: "x0 extrapolated from two steps, heun", Cases: []string{"solver.flow_dpm_multistep"},
	History: true, Build: fixed(Multistep{Order: 2, Heun: true, LowerOrderFinal: true}.Row),
}

// DPM3MSolver is of third order.
var DPM3MSolver = Solver{
	Name: "dpm++3m", Card: "DPM-Solver++, multistep, third order; deterministic.",
	Paper: "DPM-Solver++", Formula: "x0 extrapolated from three steps", Cases: []string{"solver.flow_dpm_multistep"},
	History: true, Build: fixed(Multistep{Order: 3, Heun: true, LowerOrderFinal: true}.Row),
}

// DPM2MSDESolver draws.
var DPM2MSDESolver = Solver{
	Name: "dpm++2m-sde", Card: "Stochastic DPM-Solver++, multistep, second order (midpoint).",
	Paper: "DPM-Solver++", Formula: "the stochastic form of dpm++2m", Cases: []string{"sde.dpm"},
	Stochastic: true, Ancestral: true, Density: true, History: true,
	Build: fixed(Multistep{Order: 2, SDE: true, LowerOrderFinal: true}.Row),
}

// DPM2SSolver is the singlestep form of second order.
var DPM2SSolver = Solver{
	Name: "dpm++2s", Card: "DPM-Solver++, singlestep, second order; deterministic.",
	Paper: "DPM-Solver++", Formula: "two calls a step, second order", Cases: []string{"solver.flow_dpm_singlestep"},
	History: true, Whole: true,
	Build: fixed(func(s Schedule, step int) Row {
		return Singlestep{Orders: SinglestepOrders(2, s.Steps(), true)}.Row(s, step)
	}),
}
