package fleet

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Card: a job's name is the SHA-256 of all that decides the bits of its result.
//
//	setup     the experiment, the model's files, the prompts, the program's version (worker.go)
//	weights   those that are trained, as they are now
//	how       the iteration, which fixes the sampler, and the key that everything drawn follows from
//	keys      which samples
//	recalls   whether the network's outputs come with them
//
// No clock and no machine is among them. So equal names mean equal results, and a run that is resumed asks for the
// jobs that it asked for before.
//
// Invariant (test): a change of any of these is another name, and nothing else is.

// A Job is some samples to be rolled, or to be judged by a reward, or points of the network to be asked about.
type Job struct {
	Setup    Blob      `json:"setup"`
	Weights  Blob      `json:"weights"`
	How      How       `json:"how"`
	Keys     []Keys    `json:"keys"`
	Score    *Scoring  `json:"score,omitempty"`    // with it, a reward judges samples
	Gradient *Gradient `json:"gradient,omitempty"` // with it, the network is asked; without both, samples are rolled
	// Recalls has the network's outputs at decisions come with samples, in the place of means that follow from them.
	Recalls bool `json:"recalls,omitempty"`
	// Ahead are prompts that jobs to come will probably name, for who computes something of prompts. No bit depends on
	// them, and no name.
	Ahead []int `json:"ahead,omitempty"`
}

// How says how a job's samples are drawn.
type How struct {
	Iteration int     `json:"iteration,omitempty"` // of the run, from 0
	Evaluates bool    `json:"evaluates,omitempty"` // held-out samples, by [evaluate]'s solver
	Guidance  float64 `json:"guidance,omitempty"`  // of held-out samples
	Fixed     bool    `json:"fixed,omitempty"`     // draws are the same in every iteration
	Given     int     `json:"given,omitempty"`     // tokens of a solution that some answers begin with
	Root      rng.Key `json:"root"`                // draws follow from it
}

// Keys are samples of a prompt, in a row.
type Keys struct {
	Iteration int `json:"iteration,omitempty"`
	Prompt    int `json:"prompt,omitempty"`
	First     int `json:"first,omitempty"`
	Samples   int `json:"samples"`
}

// Role is whose the job is.
func (j Job) Role() Role {
	all := Duties()
	return all[slices.IndexFunc(all, func(d Duty) bool { return d.Has(j) })].Role // each job is of one
}

// Name is the job's.
func (j Job) Name() Hash {
	j.Ahead = nil
	text, err := json.Marshal(j)
	if err != nil { // it has numbers alone; an invalid guidance was refused in the experiment
		panic(fmt.Sprintf("fleet: a job that has no name: %v", err))
	}
	return HashOf(append([]byte("darkroom job 2\n"), text...))
}

// kind is the same of jobs that take about as long.
func (j Job) kind() string {
	switch {
	case j.Gradient != nil && j.Gradient.Back:
		return "gradient"
	case j.Gradient != nil:
		return "outputs"
	case j.Score != nil:
		return "score " + j.Score.Reward
	case j.How.Evaluates:
		return "evaluation"
	case j.How.Fixed:
		return "held out"
	}
	return "roll"
}

// Samples is how many the job has.
func (j Job) Samples() (n int) {
	for _, k := range j.Keys {
		n += k.Samples
	}
	return n
}

// All are the job's keys, one a sample.
func (j Job) All() []trainer.Key {
	all := make([]trainer.Key, 0, j.Samples())
	for _, k := range j.Keys {
		for i := range k.Samples {
			all = append(all, trainer.Key{Iteration: k.Iteration, Prompt: k.Prompt, Sample: k.First + i})
		}
	}
	return all
}

// String names the job for people.
func (j Job) String() string {
	if j.Score != nil {
		return fmt.Sprintf("%s (%d samples for reward %s)", j.Name().Short(), j.Score.Count, j.Score.Reward)
	}
	if g := j.Gradient; g != nil {
		return fmt.Sprintf("%s (%s of shards %d to %d of %d, iteration %d)", j.Name().Short(), j.kind(), g.Lo+1, g.Hi, g.Shards, j.How.Iteration+1)
	}
	of := fmt.Sprintf("of iteration %d", j.How.Iteration+1)
	if j.How.Fixed {
		of = "held out"
	}
	return fmt.Sprintf("%s (%d samples %s, from prompt %d)", j.Name().Short(), j.Samples(), of, j.Keys[0].Prompt)
}

// runsOf makes runs of keys.
func runsOf(keys []trainer.Key) (all []Keys) {
	for _, k := range keys {
		if n := len(all); n > 0 {
			last := &all[n-1]
			if last.Iteration == k.Iteration && last.Prompt == k.Prompt && last.First+last.Samples == k.Sample {
				last.Samples++
				continue
			}
		}
		all = append(all, Keys{k.Iteration, k.Prompt, k.Sample, 1})
	}
	return all
}

// Split shares keys out: whole groups, in their order, at least `least` samples in each part. A group stays together,
// since the common part of its samples is computed once.
func Split(keys []trainer.Key, least int) (parts [][]trainer.Key) {
	from := 0
	for i := 1; i <= len(keys); i++ {
		if i == len(keys) || i-from >= least && keys[i].Prompt != keys[i-1].Prompt {
			parts = append(parts, keys[from:i])
			from = i
		}
	}
	return parts
}

// howOf says how an iteration's samples are drawn. It refuses settings that are not the experiment's own.
func howOf(e *experiment.Experiment, settings experiment.Settings, root rng.Key, fixed bool) (How, bool) {
	h := How{Iteration: settings.First + settings.Iteration, Evaluates: settings.Evaluates, Fixed: fixed, Root: root, Given: settings.Given}
	if settings.Evaluates {
		h.Iteration, h.Guidance = 0, settings.Sampler.Guidance
	}
	again, err := h.settings(e)
	return h, err == nil && again.Number == settings.Number && reflect.DeepEqual(again.Rows, settings.Rows) &&
		slices.Equal(again.Trained, settings.Trained) && reflect.DeepEqual(again.Sampler, settings.Sampler)
}

// settings is howOf's way back.
func (h How) settings(e *experiment.Experiment) (experiment.Settings, error) {
	if !h.Evaluates {
		it, err := e.Iteration(h.Iteration)
		it.Given = h.Given
		return it, err
	}
	s := e.Sampler
	s.Guidance = h.Guidance
	return e.Evaluating(s)
}
