package sde

// Euler's step along the flow: x + (s' - s)·v.
//
// The stochastic one (FlowMatchEulerDiscreteScheduler's stochastic_sampling) noises the
// predicted clean sample anew: (1-s')·x0 + s'·z. It has no log-probability upstream.

// denoised is the clean sample that a flow's output predicts: x - s·v, some steps ago.
func denoised(s Schedule, step, lag int) Mix {
	return x(lag).plus(output(lag).times(-s.Sigmas[step-lag]))
}

// flowRow has the fields that all rows of a flow share.
func flowRow(s Schedule, step int) Row {
	return Row{Step: step, From: s.Sigmas[step], To: s.Sigmas[step+1], Clean: denoised(s, step, 0)}
}

// Euler is the deterministic step.
func Euler(s Schedule, step int) Row {
	r := flowRow(s, step)
	r.Next = x(0).plus(output(0).times(r.To - r.From))
	return r
}

// EulerStochastic noises anew.
func EulerStochastic(s Schedule, step int) Row {
	r := flowRow(s, step)
	r.Next, r.Noise = r.Clean.times(1-r.To), r.To
	return r
}

// EulerSolver is the deterministic step.
var EulerSolver = Solver{
	Name: "euler", Card: "Euler's step along the flow; deterministic.",
	Paper: "diffusers", Formula: "x + (s' - s)·v", Cases: []string{"solver.flow_euler"},
	Build: fixed(Euler),
}

// RenoiseSolver noises anew.
var RenoiseSolver = Solver{
	Name: "renoise", Card: "The predicted clean sample noised anew (diffusers' stochastic_sampling); it has no log-probability.",
	Paper: "diffusers' stochastic_sampling", Formula: "(1-s')·x0 + s'·ε", Cases: []string{"sde.euler_stochastic"},
	Stochastic: true, Ancestral: true,
	Build: fixed(EulerStochastic),
}
