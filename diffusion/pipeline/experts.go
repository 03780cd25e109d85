package pipeline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/edition"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Wan 2.2's A14B has two networks of one architecture: the first while a step's time is at or above
// boundary_ratio · 1000, then the second, each with a guidance scale of its own. Upstream takes the first
// scale for both where the second is missing; published pairs differ (4 and 3), so here that is refused.

// mostExperts is how many networks take turns at most.
const mostExperts = 2

// Experts are some of the networks.
type Experts [mostExperts]bool

// expert is a network in memory. Each is loaded when it is first asked.
type expert struct {
	network *network
	forward forward
}

// Expert is the network for a time: 0, or of two networks perhaps 1.
func (p *Pipeline) Expert(time float64) int {
	if len(p.family.network.parts) == 1 || time >= p.family.network.boundary {
		return 0
	}
	return 1
}

// expertOf is the network for questions, which must all be on one side of the boundary.
func (p *Pipeline) expertOf(questions []Question) (int, error) {
	first := p.Expert(questions[0].Time)
	for _, q := range questions[1:] {
		if p.Expert(q.Time) != first {
			return 0, fmt.Errorf("questions at the times %v and %v in one batch: they are for different networks, with the boundary at %v", questions[0].Time, q.Time, p.family.network.boundary)
		}
	}
	return first, nil
}

// loaded is a network, in memory.
func (p *Pipeline) loaded(i int) (*expert, error) {
	e := &p.experts[i]
	if e.network != nil {
		return e, nil
	}
	train := p.Train
	if p.Frozen[i] {
		train = nil
	}
	var names func(nn.Source) nn.Source
	if w := p.Weights[i]; w != nil {
		names = func(stored nn.Source) nn.Source { return edition.Over(stored, w) }
	}
	n, err := p.load(p.family.network.parts[i], p.Precision, train, names, func(params *nn.Params) { e.forward = p.family.network.build(params) })
	if err != nil {
		e.forward = nil
		return nil, err
	}
	e.network = n
	return e, nil
}

// Network is the parameters of one of the networks that take turns, loaded at the first call.
func (p *Pipeline) Network(i int) (*nn.Params, error) {
	if i >= p.Experts() {
		return nil, fmt.Errorf("network %d of a pipeline that has %d", i, p.Experts())
	}
	e, err := p.loaded(i)
	if err != nil {
		return nil, err
	}
	return e.network.params, nil
}

// Experts is how many networks take turns.
func (p *Pipeline) Experts() int { return len(p.family.network.parts) }

// valuesOf are the values that a part shares with another network.
func (p *Pipeline) valuesOf(part string) map[string]*tensor.Tensor {
	if i := slices.Index(p.family.network.parts, part); i >= 0 {
		return p.Memory.Values[i]
	}
	return nil
}

// AddLoRA puts an adapter of PEFT's or diffusers' layout on the denoiser. Where two networks take turns, each has its
// own: that of the second lies in a folder below the first one's that is called as the second is, transformer_2, or
// beside NAME.safetensors in NAME.transformer_2.safetensors, as 'export' writes both; one of the two may be absent.
func (p *Pipeline) AddLoRA(path string) error {
	found := false
	parts := p.family.network.parts
	for i := range parts {
		at, there := adapterOf(path, i, parts)
		if !there {
			continue
		}
		found = true
		params, err := p.Network(i)
		if err != nil {
			return err
		}
		a, err := peft.Open(at, p.family.network.parts[0]) // which is what diffusers' files call either network
		if err != nil {
			return err
		}
		_, err = a.AddTo(params)
		if err = errors.Join(err, a.Close()); err != nil {
			return err
		}
	}
	if !found {
		_, err := peft.Files(path)
		return err
	}
	return nil
}

// adapterOf is where the adapter of network i lies, and whether there is one. A folder that is called as the second
// network must have one, so that no half of a pair is left out in silence.
func adapterOf(path string, i int, parts []string) (at string, there bool) {
	info, err := os.Stat(path)
	file := err == nil && !info.IsDir()
	if i == 0 {
		_, err := peft.Files(path)
		second := file && len(parts) > 1 && peft.Second(path, parts[1]) == path
		return path, err == nil && !second
	}
	at = filepath.Join(path, parts[i])
	if file {
		at = peft.Second(path, parts[i])
	}
	info, err = os.Stat(at)
	return at, err == nil && info.IsDir() != file
}

// guidanceOf is a network's guidance.
func (p *Pipeline) guidanceOf(i int, g Guidance) Guidance {
	if i == 1 {
		g.Scale = g.Second
	}
	g.Second = 0
	return g
}

// CheckGuidance refuses scales that the pipeline's networks do not have, or lack.
func (p *Pipeline) CheckGuidance(g Guidance) error {
	switch two := p.Experts() == 2; {
	case two && g.Second == 0:
		return errors.New("this pipeline has two networks, each with a guidance scale: the second one's is missing (Wan 2.2 was published with 4 and 3; 1 is none)")
	case !two && g.Second != 0:
		return fmt.Errorf("a second guidance scale of %v: this pipeline has one network", g.Second)
	}
	return nil
}
