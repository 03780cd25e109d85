package pictures

import (
	"slices"

	"github.com/darkroom-rl/darkroom/trainer"
)

// Known is how many of the passes of points are known.
func (p *Policy) Known(points []trainer.Point) (known, all int, err error) {
	passes, err := p.passes(points)
	for _, one := range passes {
		if p.answered(one) != nil {
			known++
		}
	}
	return known, len(passes), err
}

// Unlearn forgets known outputs.
func (p *Policy) Unlearn() { p.known = recalled{} }

// Spoil changes known outputs.
func (p *Policy) Spoil() {
	for at, x := range p.known.outputs {
		other := slices.Clone(x)
		other[0]++
		p.known.outputs[at] = other
	}
}
