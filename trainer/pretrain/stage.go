package pretrain

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// stage is one loop of updates.
type stage struct {
	Stage
	name  string
	pool  *tensor.Pool
	mover *optim.Optimizer
	say   func(step, steps int, format string, args ...any)
}

// begin sets a stage up. What it reports goes to say.
func (s Stage) begin(name string, pool *tensor.Pool, say func(line string), groups ...optim.Group) stage {
	for i := range groups {
		o := optim.Defaults()
		o.Betas, o.WeightDecay = s.Betas, s.Decay
		if groups[i].Muon {
			o.Betas[0] = 0.95
		}
		groups[i].Options = o
	}
	return stage{s, name, pool, optim.NewOptimizer(s.GradClip, groups...), func(step, steps int, format string, args ...any) {
		say(fmt.Sprintf("%s %d/%d  ", name, step, steps) + fmt.Sprintf(format, args...))
	}}
}

// groupsOf gives matrices to Muon, at its rate beside lr, but for those whose names have one of
// the parts, and the rest to AdamW.
func groupsOf(all []*autograd.Param, muon float64, not ...string) []optim.Group {
	var hidden, rest []*autograd.Param
	for _, p := range all {
		named := slices.ContainsFunc(not, func(part string) bool { return strings.Contains(p.Name, part) })
		if muon > 0 && len(p.Shape) == 2 && !named {
			hidden = append(hidden, p)
		} else {
			rest = append(rest, p)
		}
	}
	out := []optim.Group{{Params: rest, Rate: 1}}
	if len(hidden) > 0 {
		out = append(out, optim.Group{Params: hidden, Rate: muon, Muon: true})
	}
	return out
}

// rate is the learning rate of an update, counted from 1: it rises, then falls along half a
// cosine to a share of the highest.
func (s Stage) rate(step int, least float64) float64 {
	fall := least + float64((1-least)*0.5*(1+portable.Cos(math.Pi*float64(step)/float64(s.Steps))))
	return s.LR * min(1, float64(step)/float64(max(1, s.Warmup))) * fall
}

func (s *stage) tape() *autograd.Tape {
	return autograd.New(s.pool, autograd.Options{DType: kernels.BF16, Math: kernels.MathBF16, Train: true})
}

// mean is a running mean of what is said.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m *mean) take() float64 {
	v := m.sum / float64(max(1, m.n))
	*m = mean{}
	return v
}
