package trainer

import (
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// A Key says which sample is meant: the coordinates of everything drawn for it.
type Key struct {
	Iteration int
	Prompt    int // number of the prompt; samples of one prompt are a group
	Sample    int // number within the group
}

// A Sample is a policy's output for a prompt, with its decisions.
type Sample struct {
	Key       Key
	Decisions Decisions
	Item      Item
	Reused    bool // it was rolled in an earlier iteration, by other weights
	Control   bool // the others of its group are held against it, and nothing is learned from it
}

// Item is the output.
type Item struct {
	Final   []float64     // the last state
	Size    [2]int        // of a picture: width and height
	Frames  int           // of a clip; 0: a picture
	Image   *vision.Image // that it was developed to, where it is one
	Clip    *video.Clip
	Sources []*vision.Image // that it was made of
	Episode Episode         // a conversation, where it is one
}

// An Episode is a conversation, of which an objective of tokens reads as much as this. Who rolled it knows
// the rest.
type Episode interface {
	Begins() int             // the place in the sequence where the answer begins
	Length() int             // of the answer in tokens, those that the model did not write among them
	Chosen() []int           // the places of the tokens that the model chose
	Drawn(place int) float64 // the log-probability of a token in the distribution that it was drawn from
}

// Decisions are the actions on the way to one sample, oldest first, as parallel
// slices. An action follows a state: the next latent, a token. Of tokens,
// which the item's episode holds, State, Time, Action and Mean are empty.
type Decisions struct {
	Step    []int       // of the sampler; of tokens: the place in the sequence
	State   [][]float64 // the network's input
	Time    []float64   // and its other one
	Action  [][]float64
	Mean    [][]float64 // of the actions' distribution
	LogProb []float64   // under the weights that acted; 0 where nothing was drawn
	Trained []bool      // whether an objective may judge it

	// Advantage is each decision's own, where credit was given to decisions; nil: all have the
	// sample's.
	Advantage []float64

	// Masked are the log-probabilities of tokens behind masked pictures (PAPO), NaN where there is nothing to mask; nil
	// without [loss.perception].
	Masked []float64

	// Value is a value head's expectation before each decision when it was made, and Return the return: the head's
	// target. nil where there is no such head.
	Value, Return []float64
}

// Draws are the keys of samples' draws.
type Draws struct {
	Root   rng.Key
	Shared bool // a group starts from one noise
	// Fixed draws are the same in every iteration: of evaluations.
	Fixed bool
	// Before is the number of entries of a run's list before the held-out prompts that Fixed draws do not count:
	// lessons. A run draws the same for its held-out prompts with and without them.
	Before int
}

// prompt is the key of a prompt's draws.
func (d Draws) prompt(p rng.Purpose, k Key) rng.Key {
	key := d.Root.With(p)
	if d.Fixed {
		return key.Prompt(uint64(k.Prompt - d.Before))
	}
	return key.Iteration(k.Iteration).Prompt(uint64(k.Prompt))
}

// Of is the key of a sample's draws for a purpose.
func (d Draws) Of(p rng.Purpose, k Key) rng.Key { return d.prompt(p, k).Sample(k.Sample) }

// Keys are a sample's: of its start, and of its steps.
func (d Draws) Keys(k Key) (start, step rng.Key) {
	start, step = d.prompt("start noise", k), d.Of("step noise", k)
	if !d.Shared {
		start = start.Sample(k.Sample)
	}
	return start, step
}

// Groups are the places of samples by prompt, in the order of their first.
func Groups(samples []Sample) [][]int {
	prompts := make([]int, len(samples))
	for i, s := range samples {
		prompts[i] = s.Key.Prompt
	}
	return advantage.Groups(prompts)
}

// GroupNumbers number the groups of samples of several iterations: those of one prompt and one iteration
// share a number.
func GroupNumbers(samples []Sample) []int {
	all := make([]int, len(samples))
	number := map[[2]int]int{}
	for i, s := range samples {
		of := [2]int{s.Key.Iteration, s.Key.Prompt}
		if _, ok := number[of]; !ok {
			number[of] = len(number)
		}
		all[i] = number[of]
	}
	return all
}

// Pick are the elements at some places.
func Pick[T any](of []T, at []int) []T {
	out := make([]T, len(at))
	for i, k := range at {
		out[i] = of[k]
	}
	return out
}
