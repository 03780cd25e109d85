package trainer

import "github.com/darkroom-rl/darkroom/kernels/rng"

// Draws are the keys of what is drawn for samples.
type Draws struct {
	Root   rng.Key
	Shared bool // a group starts from one noise
	// Fixed draws are the same in every iteration: of evaluations.
	Fixed bool
	// Before is how many entries of a run's list stand before the held-out prompts and are not counted by Fixed draws:
	// lessons. A run draws the same for its held-out prompts with and without them.
	Before int
}

// prompt is the key of what is drawn for a prompt.
func (d Draws) prompt(p rng.Purpose, k Key) rng.Key {
	key := d.Root.With(p)
	if d.Fixed {
		return key.Prompt(uint64(k.Prompt - d.Before))
	}
	return key.Iteration(k.Iteration).Prompt(uint64(k.Prompt))
}

// Of is the key of what is drawn for a sample and a purpose.
func (d Draws) Of(p rng.Purpose, k Key) rng.Key { return d.prompt(p, k).Sample(k.Sample) }

// Keys are a sample's: of its start, and of its steps.
func (d Draws) Keys(k Key) (start, step rng.Key) {
	start, step = d.prompt("start noise", k), d.Of("step noise", k)
	if !d.Shared {
		start = start.Sample(k.Sample)
	}
	return start, step
}
