package pipeline

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/edition"
)

// Wan 2.2's A14B has two networks of one architecture: the first while a step's time is at or above
// boundary_ratio · 1000, then the second, each with a guidance scale of its own. Upstream takes the first
// scale for both where the second is missing; published pairs differ (4 and 3), so here that is refused.

// expert is a network in memory. Each is loaded when it is first asked.
type expert struct {
	network *network
	forward forward
}

// Expert is the network for a time: 0, or of two networks perhaps 1.
func (p *Pipeline) Expert(time float64) int {
	if p.family.second == "" || time >= p.family.boundary {
		return 0
	}
	return 1
}

// expertOf is the network for questions, which must all be on one side of the boundary.
func (p *Pipeline) expertOf(questions []Question) (int, error) {
	first := p.Expert(questions[0].Time)
	for _, q := range questions[1:] {
		if p.Expert(q.Time) != first {
			return 0, fmt.Errorf("questions at the times %v and %v in one batch: they are for different networks, with the boundary at %v", questions[0].Time, q.Time, p.family.boundary)
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
	part, train := p.family.component, p.Train
	if i == 1 {
		part, train = p.family.second, nil
	}
	var names func(nn.Source) nn.Source
	if p.Weights != nil && i == 0 {
		names = func(stored nn.Source) nn.Source { return edition.Over(stored, p.Weights) }
	}
	n, err := p.load(part, p.Precision, train, names, func(params *nn.Params) { e.forward = p.family.build(params) })
	if err != nil {
		e.forward = nil
		return nil, err
	}
	e.network = n
	return e, nil
}

// Experts is how many networks take turns.
func (p *Pipeline) Experts() int {
	if p.family.second != "" {
		return 2
	}
	return 1
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
