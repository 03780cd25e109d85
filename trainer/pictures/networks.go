package pictures

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Where two networks take turns (Wan 2.2's A14B), a step's time says which of them is asked, in rollout and in training
// alike, so the first ratio is 1 and gradients reach the network that was asked. model.experts says which are trained:
// both, high (the first, with the noisy steps) or low. Each has an adapter of its own, or weights of its own that are
// trained, and counts its own updates; the gradient's norm is that of all together, as PyTorch's over one optimiser.
// Steps of a network that is not trained are sampled and not judged, so that the window must leave them out.
//
// Invariants (tests): a run's bytes depend neither on threads, nor on samples in a pass, nor on a stop; with a window
// on one side of the boundary the other network's adapter stays as it was.

// frozenOf are the networks that model.experts leaves as they are.
func frozenOf(experts string) (frozen pipeline.Experts) {
	frozen[0], frozen[1] = experts == "low", experts == "high"
	return frozen
}

// trainedOf are the networks of a pipeline that are trained, by their numbers.
func trainedOf(p *pipeline.Pipeline) (all []int) {
	for i := range p.Experts() {
		if !p.Frozen[i] {
			all = append(all, i)
		}
	}
	return all
}

// known is an adapter file's name for one of a pipeline's networks.
func known(p *pipeline.Pipeline, number int) model.Known {
	k := model.Known{Component: p.Component(), Alone: p.Experts() > 1 && len(trainedOf(p)) == 1}
	if number > 0 {
		k.Part = model.Second
	}
	return k
}

// openNetworks loads the networks that are trained.
func openNetworks(p *pipeline.Pipeline) (all []model.Network, err error) {
	for _, i := range trainedOf(p) {
		params, err := p.Network(i)
		if err != nil {
			return nil, err
		}
		all = append(all, model.Network{Params: params, Number: i})
	}
	return all, nil
}

// adapt puts adapters on the trained networks, and reports which of them move.
func (m *Model) adapt(e *experiment.Experiment) error {
	networks, err := openNetworks(m.Pipeline)
	if err != nil {
		return err
	}
	for _, n := range networks {
		a, err := model.Adapt(e, n.Params, known(m.Pipeline, n.Number))
		if err != nil {
			return err
		}
		if a != nil {
			m.adapters = append(m.adapters, a)
		}
	}
	return nil
}

// Learn sets the trained parameters: an adapter that was put on the denoiser, or, without one, the parameters that
// the pipeline was opened to train. needs are the further sets of weights.
func (p *Policy) Learn(a *nn.Adapters, o optim.Options, needs ...trainer.Weights) error {
	return p.learn([]*nn.Adapters{a}, o, needs, model.Place{})
}

// learn is Learn for networks that take turns: an adapter each, in their order, or none. at says where states lie.
func (p *Policy) learn(adapters []*nn.Adapters, o optim.Options, needs []trainer.Weights, at model.Place) error {
	networks, err := openNetworks(p.Pipeline)
	if err != nil {
		return err
	}
	parts := partsOf(networks)
	for i, a := range adapters {
		parts[i].Adapter = a
	}
	p.learner, err = model.NewLearner(o, needs, at, parts...)
	return err
}

// partsOf are the trained parts of networks.
func partsOf(networks []model.Network) (parts []model.Part) {
	for _, n := range networks {
		part := model.Part{Params: n.Trained()}
		if n.Number > 0 {
			part.Name = model.Second
		}
		parts = append(parts, part)
	}
	return parts
}

// checkNetworks refuses settings that cannot be trained where two networks take turns.
func checkNetworks(p *pipeline.Pipeline, settings experiment.Settings) error {
	if err := p.CheckGuidance(GuidanceOf(settings.Sampler)); err != nil || p.Experts() == 1 {
		return err
	}
	if g := settings.Loss.KL.Guidance; g > 0 {
		return fmt.Errorf("this model has two networks, each with a guidance scale, and loss.kl.guidance = %v is one: leave it out", g)
	}
	experts, trained := settings.Model.Experts, trainedOf(p)
	if len(trained) == p.Experts() {
		return nil
	}
	if settings.Noised() {
		return fmt.Errorf("this model has two networks, of which model.experts = %q trains one, and the objective noises samples to the times of both: experts = \"both\", or an objective of steps", experts)
	}
	for _, step := range settings.Trained {
		if time := settings.Schedule.Timesteps[step]; !slices.Contains(trained, p.Expert(time)) {
			first := slices.IndexFunc(settings.Schedule.Timesteps, func(t float64) bool { return p.Expert(t) == 1 })
			if first < 0 {
				first = len(settings.Schedule.Timesteps)
			}
			return fmt.Errorf("step %d, at the time %.0f, is of the network that model.experts = %q does not train: steps below %d are the first one's (high); a window on one side of that, or experts = \"both\"", step, time, experts, first)
		}
	}
	return nil
}

// timesOf are a time of each network that is trained, of the steps of an iteration.
func (m *Model) timesOf(settings experiment.Settings) (times []float64) {
	for _, i := range trainedOf(m.Pipeline) {
		for _, t := range settings.Schedule.Timesteps[:settings.Schedule.Steps()] {
			if m.Pipeline.Expert(t) == i {
				times = append(times, t)
				break
			}
		}
	}
	return times
}
