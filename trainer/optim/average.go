package optim

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/portable"
)

// Decay says how much of an average is kept at its step t = 0, 1, ... It grows
// towards a limit: an average that kept 0.999 from the start would hold on to the
// weights of the first updates for a thousand more. With k = t - (copy-1), or
// k = t where copy is 0, w = warmup and progress p = (k-w)/(steps-w):
//
//	constant        limit
//	power           (1+k)/(w+k)
//	inverse_gamma   1 - (1 + k/gamma)^-exponent
//	linear          start + (limit-start) k/w
//	ramp            k < flat: start; then start + rate (k-flat)
//	cosine          k < w: start k/w; then start + (limit-start) (1 - cos πp)/2
//
// never above the limit and never below the floor; the first copy steps keep 0.
//
// Published rules: flow_grpo is power with w = 10. diffusers (EMAModel) is the same with copy = 1 +
// update_after_step, or inverse_gamma with use_ema_warmup.
// DiffusionNFT's old policy is constant 0, or a ramp of 0.001 to 0.5, or of
// 0.0075 to 0.999 after 75 steps. Flow-Factory has the rest; its
// "piecewise_linear" is a ramp with copy = flat + 1, its "warmup_cosine" a cosine
// with warmup, its CRD's "20-0.25-0.005-0.999" a ramp from start = 0.25 with flat = 20.
//
// Invariant (test): all stay within [0, limit], and none but a cosine with a
// warm-up ever falls.
type Decay struct {
	Kind     string  `toml:"kind" enum:"constant,power,inverse_gamma,linear,ramp,cosine" doc:"how the share that is kept grows"`
	Copy     int     `toml:"copy" range:"[0,inf)" doc:"steps at the start that keep nothing"`
	Flat     int     `toml:"flat" range:"[0,inf)" doc:"steps of ramp that keep start, before it grows"`
	Warmup   int     `toml:"warmup" range:"[0,inf)" doc:"steps of the growth, of power, linear and cosine"`
	Steps    int     `toml:"steps" range:"[0,inf)" doc:"step at which cosine reaches the limit"`
	Start    float64 `toml:"start" range:"[0,1)" doc:"where linear, ramp and cosine begin"`
	Rate     float64 `toml:"rate" range:"[0,inf)" doc:"growth of ramp per step"`
	Gamma    float64 `toml:"gamma" range:"(0,inf)" doc:"scale of inverse_gamma's steps"`
	Exponent float64 `toml:"exponent" range:"(0,inf)" doc:"how fast inverse_gamma grows"`
	Floor    float64 `toml:"floor" range:"[0,1)" doc:"least share kept after the copies"`
}

// DefaultDecay is flow_grpo's.
func DefaultDecay() Decay {
	return Decay{Kind: "power", Warmup: 10, Rate: 0.001, Gamma: 1, Exponent: 2.0 / 3}
}

// Check reports contradictions between fields.
func (d Decay) Check(report func(key, problem, hint string)) {
	if d.Kind == "cosine" && d.Steps <= d.Warmup {
		report("steps", fmt.Sprintf("%d steps leave nothing after a warm-up of %d", d.Steps, d.Warmup),
			"steps is the step at which cosine reaches its limit")
	}
}

// At is the share kept at a step.
func (d Decay) At(limit float64, step int) float64 {
	if step < d.Copy {
		return 0
	}
	if d.Copy > 0 {
		step -= d.Copy - 1
	}
	return max(min(d.grown(limit, float64(step)), limit), d.Floor)
}

// grown is the share before limit and floor.
func (d Decay) grown(limit, k float64) float64 {
	w := float64(d.Warmup)
	switch d.Kind {
	case "power":
		return (1 + k) / (w + k)
	case "inverse_gamma":
		return 1 - portable.Pow(1+k/d.Gamma, -d.Exponent)
	case "linear":
		if k >= w {
			return limit
		}
		return d.Start + (limit-d.Start)*k/w
	case "ramp":
		return d.Start + float64(d.Rate*max(k-float64(d.Flat), 0))
	case "cosine":
		if k < w {
			return d.Start * k / w
		}
		p := 1.0
		if rest := float64(d.Steps) - w; rest > 0 {
			p = min((k-w)/rest, 1)
		}
		return d.Start + float64((limit-d.Start)*(1-portable.Cos(math.Pi*p))/2)
	}
	return limit
}

// An average of weights follows them at a distance (EMA):
//
//	every step t:   if (t+1) is a multiple of Every:  average += (1 - decay(t)) (weights - average)
//
// flow_grpo keeps one for evaluation and checkpoints, DiffusionNFT samples from one, its old policy.

// A Pace says when an average moves and how much of it is kept. The weights themselves are a Shadow's.
type Pace struct {
	Limit float64
	Shape Decay
	Every int
	T     int // steps done, counted whether they moved the average or not
}

// Pace is that of the average which the options ask for.
func (o Options) Pace() Pace { return Pace{Limit: o.EMA, Shape: o.EMAShape, Every: o.EMAEvery} }

// Next counts a step, and returns its decay and whether the average moves.
func (p *Pace) Next() (decay float64, due bool) {
	decay = p.Shape.At(p.Limit, p.T)
	p.T++
	return decay, p.T%max(1, p.Every) == 0
}

// Shadow is Average in the engine: it follows parameters' values at a distance.
//
//	average = average + (1-d)(value - average)
type Shadow struct {
	Of     []*autograd.Param
	Values []*tensor.Tensor // nil among them: another rank's
	from   []*tensor.Tensor // followed ones; nil: the parameters' own values
}

// NewShadow starts at the values.
func NewShadow(ps []*autograd.Param) *Shadow { return NewShadowOf(ps, nil) }

// NewShadowOf follows values of parameters that lie elsewhere (Group.Values), in their pool.
func NewShadowOf(ps []*autograd.Param, values []*tensor.Tensor) *Shadow {
	s := &Shadow{Of: ps, from: values, Values: make([]*tensor.Tensor, len(ps))}
	for i, p := range ps {
		if x := s.followed(i); x != nil {
			t := x.Pool().Lasting(kernels.F32, p.Shape...).Named(p.Name + ", averaged")
			t.Pool().Backend().Axpby(&kernels.Axpby{A: 1, X: x.Span(), Y: t.Span()})
			s.Values[i] = t
		}
	}
	return s
}

func (s *Shadow) followed(i int) *tensor.Tensor {
	if s.from != nil {
		return s.from[i]
	}
	return s.Of[i].Value
}

// Follow keeps the share decay of the average.
func (s *Shadow) Follow(decay float64) {
	for i := range s.Of {
		if x := s.followed(i); x != nil {
			x.Pool().Backend().Axpby(&kernels.Axpby{A: float32(1 - decay), B: float32(decay), X: x.Span(), Y: s.Values[i].Span()})
		}
	}
}

// Swap exchanges the averages and the values, of which neither is copied: a model that is judged or
// saved by its average is swapped, used, and swapped back.
func (s *Shadow) Swap() {
	for i, p := range s.Of {
		p.Value, s.Values[i] = s.Values[i], p.Value
		p.Updated()
	}
}

// Free gives the averages' memory back.
func (s *Shadow) Free() {
	for _, t := range s.Values {
		if t != nil {
			t.Free()
		}
	}
}
