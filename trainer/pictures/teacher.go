package pictures

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// A teacher is another model that gives its own means at the steps of the policy's samples (Diffusion-OPD, 2026): it
// is the reference of loss.kl, whose distance of means is the divergence of both policies at a step. It is the model
// itself with another adapter, or a model of the same class in another folder. It is given the trained model's texts,
// so that both must have the same text encoders, and takes the memory of a second network that is frozen.

// openTeacher opens the model of model.teacher.
func (m *Model) openTeacher(e *experiment.Experiment) (err error) {
	path := e.Model.Teacher
	if path == "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("model.teacher: %w", err)
		}
	}()
	o := m.opened
	o.Train, o.Frozen, o.Cache = nil, pipeline.Experts{}, pipeline.Cache{}
	dir, err := assets.Resolve(path)
	if err != nil {
		return err
	}
	_, none := pipeline.ClassOf(dir)
	if none != nil { // an adapter
		dir = m.Pipeline.Dir()
	} else {
		o.Quantize = ""
	}
	if m.Policy.teacher, err = pipeline.Open(dir, o); err != nil {
		return err
	}
	teacher := m.Policy.teacher
	if own := m.Pipeline; teacher.Class() != own.Class() {
		return fmt.Errorf("%s holds a %s, and a %s is trained\nhint: the teacher must be of the same class", path, teacher.Class(), own.Class())
	}
	if none == nil {
		return nil
	}
	return teachAll(teacher, path)
}

// teachAll puts adapters on the networks that they are of: where two take turns, a run of one leaves an adapter of one.
func teachAll(teacher *pipeline.Pipeline, path string) error {
	has := [2]bool{true}
	if teacher.Experts() > 1 {
		var err error
		if has, err = model.Halves(path); err != nil {
			return err
		}
		if has == [2]bool{} {
			has[0] = true // whose reading reports the error
		}
	}
	for i := range teacher.Experts() {
		if !has[i] {
			continue
		}
		if err := teach(teacher, i, path); err != nil {
			return err
		}
	}
	return nil
}

// teach puts the adapter on one of the teacher's networks.
func teach(teacher *pipeline.Pipeline, number int, path string) error {
	file, err := known(teacher, number).Open(path)
	if err != nil {
		return err
	}
	params, err := teacher.Network(number)
	if err == nil {
		file.NoDropout()
		_, err = file.AddTo(params)
	}
	return errors.Join(err, file.Close())
}

// taught is the teacher's outputs at points.
func (p *Policy) taught(at []trainer.Point) (trainer.Forward, error) {
	if p.teacher == nil {
		return trainer.Forward{}, errors.New("a teacher was asked, and model.teacher names none")
	}
	twin := p.Twin(p.teacher)
	twin.Guidance = p.guidanceOf(trainer.Teacher)
	p.Passes.Reference += len(at) * twin.each()
	defer twin.Free()
	return twin.Eval(trainer.Current, at)
}
