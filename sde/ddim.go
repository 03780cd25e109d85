package sde

import (
	"fmt"
	"math"
)

// DDIM (Song et al., 2021) for variance-preserving schedules, with a, a' the shares of
// signal and (x0, ε) the meaning of the output:
//
//	τ²   = η²·(1-a')/(1-a)·(1 - a/a')
//	mean = √a'·x0 + √(1-a'-τ²)·ε
//
// clip cuts x0 to ±1 and leaves ε, as ddpo-pytorch has it. Below step 0, a' is the product
// at step 0 (upstream clamps the step; final_alpha_cumprod is never used).

// Prediction is the parameterization of a network's output.
type Prediction string

// The kinds.
const (
	Epsilon   Prediction = "epsilon"
	Sample    Prediction = "sample"
	VPredict  Prediction = "v_prediction"
	clipBound            = 1
)

// split is the clean sample and the noise that an output means.
func (p Prediction) split(a float64) (clean, noise Mix, err error) {
	signal, sigma := math.Sqrt(a), math.Sqrt(1-a)
	switch p {
	case Epsilon, "":
		return x(0).minus(output(0).times(sigma)).times(1 / signal), output(0), nil
	case Sample:
		return output(0), x(0).minus(output(0).times(signal)).times(1 / sigma), nil
	case VPredict:
		return x(0).times(signal).minus(output(0).times(sigma)), output(0).times(signal).plus(x(0).times(sigma)), nil
	}
	return Mix{}, Mix{}, fmt.Errorf("a prediction of type %q is not known: epsilon, sample and v_prediction are", p)
}

// DDIM is one step.
func DDIM(s Schedule, step int, eta float64, p Prediction, clip bool) (Row, error) {
	a, to := s.Alpha[step], s.AlphaPrev[step]
	clean, noise, err := p.split(a)
	if err != nil {
		return Row{}, err
	}
	tau := eta * math.Sqrt((1-to)/(1-a)*(1-a/to))
	r := Row{Step: step, From: a, To: to, Clean: clean, Noise: tau, KLDeviation: tau}
	if tau != 0 {
		r.Density = Gaussian
	}
	r.Next = noise.times(math.Sqrt(1 - to - float64(tau*tau)))
	if clip {
		r.Clamp = &Clamp{Of: clean, Gain: math.Sqrt(to), Bound: clipBound}
	} else {
		r.Next = r.Next.plus(clean.times(math.Sqrt(to)))
	}
	return r, nil
}

// DDPM is ancestral sampling (Ho et al., 2020), with β = 1 - a/a':
//
//	mean = √a'·β/(1-a)·x0 + √(1-β)·(1-a')/(1-a)·x
//	τ²   = (1-a')/(1-a)·β, at least 1e-20 (large = false), or β
//
// Nothing is drawn at timestep 0.
func DDPM(s Schedule, step int, p Prediction, large bool) (Row, error) {
	a, to := s.Alpha[step], s.AlphaPrev[step]
	clean, _, err := p.split(a)
	if err != nil {
		return Row{}, err
	}
	beta := 1 - a/to
	r := Row{Step: step, From: a, To: to, Clean: clean}
	r.Next = clean.times(math.Sqrt(to) * beta / (1 - a)).plus(x(0).times(math.Sqrt(1-beta) * (1 - to) / (1 - a)))
	variance := beta
	if !large {
		variance = math.Max((1-to)/(1-a)*beta, 1e-20)
	}
	if s.Timesteps[step] > 0 {
		r.Noise, r.Density = math.Sqrt(variance), Gaussian
	}
	r.KLDeviation = r.Noise
	return r, nil
}

// VPSolverOptions are the options of solvers for variance-preserving models.
type VPSolverOptions struct {
	Prediction string `toml:"prediction" enum:"epsilon,sample,v_prediction" doc:"of ddim and ddpm: what the network puts out"`
}

// DDIMOptions are the options of DDIM alone.
type DDIMOptions struct {
	Clip bool `toml:"clip_sample" doc:"of ddim: cut the clean prediction to 1"`
}

// DDIMSolver is DDIM.
var DDIMSolver = Solver{
	Name: "ddim", Card: "DDIM with eta = noise for variance-preserving models (ddpo-pytorch, trl).",
	Paper: "DDIM", Formula: "√α'·x0 + √(1 - α' - τ²)·x1 + τ·ε, τ by η", Cases: []string{"sde.ddim", "solver.ddim"},
	Stochastic: true, Density: true, VP: true,
	Options: struct {
		VPSolverOptions
		DDIMOptions
	}{},
	Build: func(o SolverOptions) func(Schedule, int) Row {
		return func(s Schedule, step int) Row {
			r, _ := DDIM(s, step, o.Noise, Prediction(o.Prediction), o.Clip) // the prediction is one of the enum
			return r
		}
	},
}

// DDPMSolver is ancestral sampling.
var DDPMSolver = Solver{
	Name: "ddpm", Card: "Ancestral sampling for variance-preserving models (Ho et al.).",
	Paper: "DDPM (Ho et al.)", Formula: "the posterior's mean, and noise of its deviation", Cases: []string{"solver.ddpm"},
	Stochastic: true, Ancestral: true, Density: true, VP: true, Options: VPSolverOptions{},
	Build: func(o SolverOptions) func(Schedule, int) Row {
		return func(s Schedule, step int) Row {
			r, _ := DDPM(s, step, Prediction(o.Prediction), false)
			return r
		}
	},
}
