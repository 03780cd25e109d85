package model

import "github.com/darkroom-rl/darkroom/kernels"

// Dry is a backend that computes nothing, and counts the memory that it is asked for.
type Dry interface {
	kernels.Backend
	Peak() int
	ResetPeak()
}

// Memory is bytes beside the program itself: the most in each phase of an iteration, in
// their order, and what the host holds of its samples. Rewards that are networks are not in it.
type Memory struct {
	Texts    int64 `json:"texts"`
	Sampling int64 `json:"sampling"`
	Decoding int64 `json:"decoding"`
	Check    int64 `json:"check"` // the network in fp32, as a stage begins
	Training int64 `json:"training"`
	Samples  int64 `json:"samples"`
	Fit
}

// Fit is how a model keeps to a memory. No bit depends on it.
type Fit struct {
	Micro         int  `json:"micro_batch"`   // samples in a pass of the network; 0: the model's own choice
	Checkpointing bool `json:"checkpointing"` // backward computes again what a pass would have kept
}

// ProgramBytes is about what the program takes without a model: itself, kernels' scratch, and what
// checkpoints and pages are made in. Measured (LOG.md).
const ProgramBytes = 124 << 20

// Within reports whether the program and so many ranks fit into a budget; 0: into any.
func (n Memory) Within(budget int64, ranks int) bool {
	return budget == 0 || ProgramBytes+n.PeakOf(ranks) <= budget
}

// Peak is the most at once.
func (n Memory) Peak() int64 { return n.PeakOf(1) }

// PeakOf is that of several ranks which share a memory. Each holds the model, and asks it as much at
// once as one alone.
func (n Memory) PeakOf(ranks int) int64 {
	return int64(ranks)*max(n.Texts, n.Sampling, n.Decoding, n.Check, n.Training) + n.Samples
}
