package prompts

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
)

// A Curriculum draws prompts in proportion to how often they fail (GLM-4.5V's curriculum sampling;
// Kimi k1.5: p ∝ 1 - s):
//
//	failure      p(prompt) ∝ max(1 - s, floor)
//	uncertainty  p(prompt) ∝ √(s(1-s)) + floor    (single-stream SPO; Xu and Ding, 2025)
//	s ← s + (1 - memory)(success now - s)
//
// s is a running mean of the prompt's success, and 0 before its first visit, so that new prompts
// come first (by uncertainty it is 1/2). Success is the share of a group's samples that reach Success, or, without, the
// mean of their totals cut to 0 and 1. Upstreams publish p alone; floor and memory are ours, and theirs are probably 0
// and a plain replacement.
//
// Invariants (tests): frequencies of drawn prompts follow the weights; an iteration has no prompt
// twice; rates survive a checkpoint.
type Curriculum struct {
	By      string   `toml:"by" enum:"failure,uncertainty" doc:"what comes more often: prompts that fail, or those whose outcome is open"`
	Floor   float64  `toml:"floor" range:"(0,1]" doc:"the least weight of a prompt, so that none is forgotten"`
	Memory  float64  `toml:"memory" range:"[0,1)" doc:"how much of a prompt's success so far stays when it is rolled again"`
	Success *float64 `toml:"success" doc:"a total from which a sample counts as a success; without, the total itself does, cut to 0 and 1"`
}

// Card describes the choice and names its source.
func (Curriculum) Card() string {
	return "Prompts drawn in proportion to how often they fail (GLM-4.5V, Kimi k1.5), or to how open their outcome is (single-stream SPO)."
}

// Words are the choice in a plan.
func (c Curriculum) Words() string {
	return fmt.Sprintf("prompts drawn in proportion to failure, at least %v", c.Floor)
}

// SetDefaults is a curriculum before its keys are read.
func (c *Curriculum) SetDefaults() { *c = Curriculum{By: "failure", Floor: 0.05, Memory: 0.5} }

// Successes are the success rates of prompts; NaN: it was never rolled.
type Successes []float64

// NewSuccesses knows nothing about n prompts.
func NewSuccesses(n int) Successes {
	s := make(Successes, n)
	for i := range s {
		s[i] = math.NaN()
	}
	return s
}

// Draw are n different prompts out of some.
func (c Curriculum) Draw(k rng.Key, known Successes, n int, among []int) []int {
	weights, u := make([]float64, len(among)), make([]float64, n)
	for i, p := range among {
		weights[i] = c.weight(known[p])
	}
	draw := k.Draw()
	for i := range u {
		u[i] = draw.Float64()
	}
	var drawn []int
	for _, i := range portable.Weighted(u, weights, n) {
		drawn = append(drawn, among[i])
	}
	return drawn
}

// weight is how often a prompt comes, whose success so far is s.
func (c Curriculum) weight(s float64) float64 {
	switch {
	case c.By == "uncertainty" && math.IsNaN(s):
		return 0.5 + c.Floor
	case c.By == "uncertainty":
		return math.Sqrt(s*(1-s)) + c.Floor
	case math.IsNaN(s):
		return 1
	}
	return max(1-s, c.Floor)
}

// Learn takes in the totals of a prompt's samples. Missing ones say nothing.
func (c Curriculum) Learn(known Successes, prompt int, totals []float64) {
	now := Rate(totals, c.Success)
	switch old := known[prompt]; {
	case math.IsNaN(now):
	case math.IsNaN(old):
		known[prompt] = now
	default:
		known[prompt] = old + float64((1-c.Memory)*(now-old))
	}
}

// Rate is how well a prompt's samples did: the share that reaches success, or the mean total cut to
// 0 and 1; NaN where all are missing.
func Rate(totals []float64, success *float64) float64 {
	sum, n := 0.0, 0.0
	for _, v := range totals {
		switch {
		case math.IsNaN(v):
			continue
		case success == nil:
			sum += min(max(v, 0), 1)
		case v >= *success:
			sum++
		}
		n++
	}
	return sum / n
}
