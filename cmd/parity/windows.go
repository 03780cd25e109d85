package main

import (
	"github.com/darkroom-rl/darkroom/sde"
)

// Windows of trained steps.

var windowOps = map[string]Op{
	"window.dance_num_train":        windowDance,
	"window.flow_grpo_num_train":    windowFraction,
	"window.fraction_range":         windowRange,
	"window.mixgrpo":                windowMixGRPO,
	"window.mixgrpo_random_support": windowMixGRPOSupport,
	"window.random_support":         windowSupport,
	"window.unirl":                  windowUniRL,
	"window.verl_progressive":       windowVerl,
}

func windowMixGRPO(c *Case) {
	o := sde.WindowOptions{Kind: "sliding", Tail: "mixgrpo", Drop: 2, From: c.Int("cur_timestep"), Size: c.Int("group_size"), Every: c.Int("iters_per_group"), RollBack: c.Bool("roll_back")}
	if flag(c, "prog_overlap") {
		if o.Stride = c.Int("prog_overlap_step"); o.Stride == 0 {
			o.Kind = "frozen"
		}
	}
	switch c.String("sample_strategy") {
	case "decay":
		o.Lasting, o.MinEvery, o.MaxEvery = "decay", c.Int("min_iters_per_group"), c.Int("max_iters_per_group")
	case "exp_decay":
		o.Lasting, o.DecayFrom, o.DecayRate = "exp_decay", c.Int("exp_decay_thre_timestep"), c.Float("exp_decay_k")
	}
	steps := c.Int("sampling_steps")
	var cur, it []int
	var windows []any
	for i := range c.Int("iterations") {
		p := o.Position(steps, i)
		cur, it = append(cur, p.Start), append(it, p.Since)
		windows = append(windows, o.Steps(steps, i, nil))
	}
	c.Put("cur", cur, "it", it, "windows", windows)
}

func windowMixGRPOSupport(c *Case) {
	first, last := sde.WindowOptions{Drop: 2, Size: c.Int("group_size")}.Support(c.Int("sampling_steps"))
	c.Put("min_start", first, "max_start", last)
}

func windowUniRL(c *Case) {
	o := sde.WindowOptions{Kind: "sliding", Tail: "skip", From: c.Int("init_timestep"), Size: c.Int("window_size"), Overlap: c.Int("overlap_size"), Every: c.Int("iters_per_window"), RollBack: c.Bool("roll_back")}
	var windows []any
	for i := range c.Int("iterations") {
		windows = append(windows, o.Steps(c.Int("num_timesteps"), i, nil))
	}
	c.Put("windows", windows)
}

func windowRange(c *Case) {
	f := c.Floats("fraction")
	c.Put("indices", sde.WindowOptions{Kind: "range", Low: f[0], High: f[1]}.Steps(c.Int("num_timesteps"), 0, nil))
}

func windowVerl(c *Case) {
	r := c.Ints("range")
	o := sde.WindowOptions{Kind: "sliding", Tail: "shift", From: r[0], Size: c.Int("window_size"), Every: c.Int("iters_per_group")}
	c.Put("starts", times(c.Int("iterations"), func(i int) int { return o.Position(r[1], i).Start }))
}

func windowDance(c *Case) {
	o := sde.WindowOptions{Kind: "subset", Drop: 1, Fraction: c.Float("timestep_fraction")}
	c.Put("num_train", len(o.Steps(c.Int("sampling_steps"), 0, func(int) int { return 0 })))
}

func windowFraction(c *Case) {
	o := sde.WindowOptions{Kind: "fraction", Fraction: c.Float("timestep_fraction")}
	c.Put("num_train", len(o.Steps(c.Int("sampling_steps"), 0, nil)))
}

func windowSupport(c *Case) {
	r := c.Ints("range")
	first, last := sde.WindowOptions{From: r[0], Size: c.Int("window_size")}.Support(r[1])
	for _, name := range []string{"flow_grpo_fast", "miles", "verl_omni"} {
		c.Put(name, []int{first, last})
	}
}
