package sde

// Heun's method: Euler's step, then the mean of both slopes from where it began. The
// schedule lists every inner sigma twice (FlowMatchHeunDiscreteScheduler), a row is one call
// of the network, and the last interval has no second half.
func Heun(s Schedule, step int) Row {
	r := flowRow(s, step)
	if step%2 == 0 {
		r.Next = x(0).plus(output(0).times(r.To - r.From))
		return r
	}
	dt := s.Sigmas[step] - s.Sigmas[step-1]
	r.Next = x(1).plus(output(0).times(dt/2), output(1).times(dt/2))
	return r
}

// HeunSolver takes two calls a step.
var HeunSolver = Solver{
	Name: "heun", Card: "Heun's method, two calls a step (diffusers); deterministic, with the schedule heun.",
	Paper: "diffusers", Formula: "x + (s' - s)·(v + v at Euler's point)/2", Cases: []string{"solver.flow_heun"},
	History: true, Whole: true, Calls: 2,
	Build: fixed(Heun),
}
