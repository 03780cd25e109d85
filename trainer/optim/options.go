package optim

import "fmt"

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

// Check reports what no single field can know.
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
