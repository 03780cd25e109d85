package conversations

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Card: on-policy distillation (Agarwal et al., 2023, GKD with λ = 1; Thinking Machines, 2025): another model says how
// likely it finds the tokens of the policy's own episodes, and is the reference of loss.kl. With estimator k2 the
// gradient at a token is (log p - log p of the teacher): the policy gradient of the divergence, a token at a time.
//
// The teacher is the model itself with another adapter, or a model in another folder with the same tokens and the same
// cutting of pictures, since ids and places are given to it as they are.
//
// Invariant (tests): a teacher that is the model has divergence 0; one with other tokens is refused by name.

// openTeacher opens the model of model.teacher.
func (m *Model) openTeacher(e *experiment.Experiment) (err error) {
	if e.Model.Teacher == "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("model.teacher: %w", err)
		}
	}()
	dir, err := assets.Resolve(e.Model.Teacher)
	if err != nil {
		return err
	}
	_, none := os.Stat(filepath.Join(dir, "config.json"))
	o := chat.Options{Pool: m.VLM.Options.Pool, F32: m.VLM.Options.F32, Template: m.VLM.Template.String(), Home: m.VLM.Options.Home, Stock: m.VLM.Options.Stock}
	if none != nil { // an adapter
		dir, o.Quantize = m.VLM.Dir, m.VLM.Options.Quantize
	}
	s, err := chat.Open(dir, o)
	if err != nil {
		return err
	}
	m.Teacher = s
	if none == nil {
		return m.VLM.CheckAlike(s)
	}
	file, err := chat.Known(s.Params).Open(e.Model.Teacher)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	file.NoDropout()
	_, err = file.AddTo(s.Params)
	return err
}
