package experiment

func solverMethods() []Method {
	return []Method{
		{Name: "euler", Paper: "diffusers", Formula: "x + (s' - s)·v", Cases: []string{"solver.flow_euler"}},
		{Name: "heun", Paper: "diffusers", Formula: "x + (s' - s)·(v + v at Euler's point)/2", Cases: []string{"solver.flow_heun"}},
		{Name: "flow-sde", Paper: "Flow-GRPO (Liu et al., 2025)", Formula: "x·(1 - g²Δ/2s) - v·(1 + g²(1-s)/2s)·Δ + g·√Δ·ε, g = η·√(s/(1-s))", Cases: []string{"sde.flow_sde", "sde.flow_factory", "sde.verl_omni", "sde.truncated", "sde.mixgrpo_flow"}},
		{Name: "flow-wan", Paper: "Flow-GRPO's Wan script", Formula: "the same with g = η·(s_last + (s_1 - s_last)·s), s_1 and s_last the schedule's second and last", Cases: []string{"sde.flow_grpo_wan", "rollout.wan_sde"}},
		{Name: "dance", Paper: "DanceGRPO (Xue et al., 2025)", Formula: "x - v·Δ - η²/2·(x - (1-s)·x0)/s²·Δ + η·√Δ·ε", Cases: []string{"sde.dance", "sde.dance_unnormalised", "sde.branch_split"}},
		{Name: "cps", Paper: "Flow-CPS (Wang and Yu, 2025)", Formula: "(1-s')·x0 + √(s'² - τ²)·x1 + τ·ε, τ = s'·sin(η·π/2)", Cases: []string{"sde.flow_cps"}},
		{Name: "flow-ddim", Paper: "DiffusionNFT's solver", Formula: "(1-s')·x0 + √(s'² - τ²)·x1 + τ·ε, τ = η·s'·√(1 - s'²(1-s)²/(s²(1-s')²))", Cases: []string{"sde.flow_ddim"}},
		{Name: "renoise", Paper: "diffusers' stochastic_sampling", Formula: "(1-s')·x0 + s'·ε", Cases: []string{"sde.euler_stochastic"}},
		{Name: "dpm++2m", Paper: "DPM-Solver++", Formula: "x0 extrapolated from two steps, midpoint", Cases: []string{"solver.flow_dpm_multistep", "solver.nft"}},
		{Name: "dpm++2m-heun", Paper: "DPM-Solver++", Formula: "x0 extrapolated from two steps, heun", Cases: []string{"solver.flow_dpm_multistep"}},
		{Name: "dpm++3m", Paper: "DPM-Solver++", Formula: "x0 extrapolated from three steps", Cases: []string{"solver.flow_dpm_multistep"}},
		{Name: "dpm++2m-sde", Paper: "DPM-Solver++", Formula: "the stochastic form of dpm++2m", Cases: []string{"sde.dpm"}},
		{Name: "dpm++2s", Paper: "DPM-Solver++", Formula: "two calls a step, second order", Cases: []string{"solver.flow_dpm_singlestep"}},
		{Name: "unipc", Paper: "UniPC", Formula: "predictor and corrector of second order", Cases: []string{"solver.flow_unipc"}},
		{Name: "ddim", Paper: "DDIM", Formula: "√α'·x0 + √(1 - α' - τ²)·x1 + τ·ε, τ by η", Cases: []string{"sde.ddim", "solver.ddim"}},
		{Name: "ddpm", Paper: "DDPM (Ho et al.)", Formula: "the posterior's mean, and noise of its deviation", Cases: []string{"solver.ddpm"}},
	}
}
