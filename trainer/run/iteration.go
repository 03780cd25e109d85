package run

import (
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// iteration is one turn of the experiment, and the key of its draws.
type iteration struct {
	number  int // from 0
	turn    experiment.Turn
	root    rng.Key
	attempt int // rollbacks before it
}

// samplesOf are the samples of an iteration's prompts.
func (it iteration) samplesOf(list []int) []trainer.Key {
	var all []trainer.Key
	for _, p := range list {
		for k := range it.turn.Samples() {
			all = append(all, trainer.Key{Iteration: it.number, Prompt: p, Sample: k})
		}
	}
	return all
}

// attempt counts rollbacks, which do not take it back.
type attempt struct {
	Attempt   int            `json:"attempt,omitempty"`
	LRScale   float64        `json:"lr_scale,omitempty"`  // 0: 1
	Rollbacks map[string]int `json:"rollbacks,omitempty"` // by the monitors' rules
}

// scale is what learning rates are multiplied with.
func (a attempt) scale() float64 {
	if a.LRScale == 0 {
		return 1
	}
	return a.LRScale
}

// root is the key of everything that is drawn in the attempt.
func (a attempt) root(seed int) rng.Key {
	key := rng.New(uint64(seed))
	if a.Attempt > 0 {
		key = key.Attempt(a.Attempt)
	}
	return key
}
