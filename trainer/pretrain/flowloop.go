package pretrain

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// flowLoop is the loop of flow matching, whatever is matched: updates, an average of the weights, states to go on
// from, and judgement on the way.
type flowLoop struct {
	name, dir string
	Flow
	Judging
	Hooks
	pool   *tensor.Pool
	pass   func(s *stage, step int) (loss float64) // leaves an update's gradient in the parameters
	report func(step int, guidances ...float64) error
}

// matched is what learns: text encoders and a transformer.
type matched interface {
	all() []*autograd.Param
	groups(muon float64) []optim.Group
	save(dir string) error
}

func (m flowLoop) run(g matched, params []*nn.Params) error {
	s := m.Flow.begin(m.name, m.pool, m.Say, g.groups(m.Muon)...)
	defer s.mover.Free()
	shadow := optim.NewShadow(g.all())
	defer shadow.Free()
	state := &progress{m.dir, m.name, params, s.mover, shadow}
	from, err := state.load()
	if err != nil {
		return err
	}
	var loss, length mean
	for step := from + 1; step <= s.Steps; step++ {
		if err := m.stopped(); err != nil {
			return state.orSave(err, step-1)
		}
		l := m.pass(&s, step)
		norm, err := s.mover.Step(m.rateAt(step))
		if err != nil {
			return fmt.Errorf("%s, step %d: %w", m.name, step, err)
		}
		shadow.Follow(min(m.EMA, float64(1+step)/float64(10+step)))
		loss.add(l)
		length.add(norm)
		if step%50 == 0 || step == s.Steps {
			s.say(step, s.Steps, "loss %.4f  gradient %.3f", loss.take(), length.take())
		}
		if step%m.Save == 0 {
			if err := state.save(step); err != nil {
				return err
			}
		}
		if step%m.Every == 0 && step < s.Steps {
			shadow.Swap()
			err := errors.Join(g.save(m.dir), m.report(step, 1))
			shadow.Swap()
			if err != nil {
				return err
			}
		}
	}
	shadow.Swap()
	if err := g.save(m.dir); err != nil {
		return err
	}
	return m.report(s.Steps, 1, m.Guidance)
}

// noised puts a clean sample at a time of the flow, and its noise less the sample, which is the velocity, into
// target.
func (f Flow) noised(clean, x, target []float32, t float64) {
	for j, z := range clean {
		e := target[j]
		x[j] = float32(float64((1-t)*float64(z)) + float64(t*float64(e)))
		target[j] = e - z
	}
}

// distance is the mean squared distance of a network's output from its target, of total numbers in all, and out
// becomes its gradient.
func distance(out, target []float32, total float64) (loss float64) {
	for i, y := range out {
		d := float64(y) - float64(target[i])
		loss += d * d / total
		out[i] = float32(2 * d / total)
	}
	return loss
}
