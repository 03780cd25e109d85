package conversations

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/trainer"
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

// openTutor opens what model.teacher names.
func (m *Model) openTutor(e *experiment.Experiment) (err error) {
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
	if none != nil { // an adapter
		dir = m.Speaker.Dir
	}
	s, err := Open(dir, Options{Pool: m.Speaker.Options.Pool, F32: m.Speaker.Options.F32, Template: m.Speaker.Template.String()})
	if err != nil {
		return err
	}
	m.tutor = s
	if none == nil {
		return m.Speaker.alike(s)
	}
	file, err := Known(s.Params).Open(e.Model.Teacher)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	file.NoDropout()
	_, err = file.AddTo(s.Params)
	return err
}

// alike says what of two models' tokens or pictures differs.
func (s *Speaker) alike(other *Speaker) error {
	differ := func(what string) error {
		return fmt.Errorf("%s has other %s than %s\nhint: a teacher is asked about tokens as they were drawn: it must be of the model's family, with its tokenizer and its processor", other.Dir, what, s.Dir)
	}
	for id := range max(s.Tokens.Size(), other.Tokens.Size()) {
		if s.Tokens.Decode([]int32{int32(id)}) != other.Tokens.Decode([]int32{int32(id)}) {
			return differ(fmt.Sprintf("tokens (%d is %q, not %q)", id, other.Tokens.Decode([]int32{int32(id)}), s.Tokens.Decode([]int32{int32(id)})))
		}
	}
	switch {
	case s.Marks != other.Marks:
		return differ("marks of pictures")
	case !reflect.DeepEqual(s.Processor, other.Processor):
		return differ("sizes or patches of pictures")
	}
	return nil
}

// advised is what the teacher answers at points.
func (p *Policy) advised(at []trainer.Point) (trainer.Answers, error) {
	if p.tutor == nil {
		return trainer.Answers{}, errors.New("a teacher was asked, and model.teacher names none")
	}
	other := &Policy{Speaker: p.tutor, Sampling: p.Sampling, Supervised: p.Supervised, Keep: -1}
	answers, err := other.Eval(trainer.Current, at)
	other.forget()
	answers.Back = nil
	return answers, err
}
