package prompts

import (
	"fmt"
	"math"
)

// A Skip leaves out prompts that keep teaching nothing (GRESO; Zheng et al., 2025), before they are
// rolled. A prompt that was solved, or failed, z visits in a row is skipped with probability
//
//	1 - max(p^z, 0.01)     p: easy where it was solved, hard where it failed
//
// and p moves by Step after every iteration of the second pass over the list and later ones: down,
// to Least, while the share of solved (failed) prompts among the rolled ones is at least a third
// (two thirds) of Target; else up, to Most. A skipped prompt's place in the list goes to the next.
//
// Defaults are those of the authors' scripts. Upstream calls a group solved at a mean reward of 0.98
// and failed at 0.11, since a wrong answer in the right form earns 0.1 there.
//
// Invariants (tests): the frequency of skipping follows the formula; rates survive a checkpoint; every prompt is rolled
// in the end.
type Skip struct {
	Easy    float64  `toml:"easy" range:"(0,1]" doc:"p of solved prompts, at the start"`
	Hard    float64  `toml:"hard" range:"(0,1]" doc:"p of failed prompts, at the start"`
	Target  float64  `toml:"target" range:"[0,1]" doc:"share of rolled prompts that may teach nothing: a third of them solved, two thirds failed"`
	Step    float64  `toml:"step" range:"[0,1]" doc:"by how much an iteration moves p; 0: p stays"`
	Least   float64  `toml:"least" range:"(0,1]" doc:"the least p"`
	Most    float64  `toml:"most" range:"(0,1]" doc:"the largest p"`
	Solved  float64  `toml:"solved" doc:"a prompt whose pass rate is at least this was solved"`
	Failed  float64  `toml:"failed" doc:"a prompt whose pass rate is at most this failed"`
	Success *float64 `toml:"success" doc:"a total from which a sample counts as a success; without, the total itself does, cut to 0 and 1"`
}

// Card describes the choice and names its source.
func (Skip) Card() string {
	return "Prompts that keep being solved, or keep failing, are skipped before they are rolled, more often the longer (GRESO)."
}

// Words are the choice in a plan.
func (s Skip) Words() string {
	return fmt.Sprintf("prompts that keep being solved (at %v) or failing (at %v) are skipped", s.Solved, s.Failed)
}

// SetDefaults are the authors' scripts.
func (s *Skip) SetDefaults() {
	*s = Skip{Easy: 0.5, Hard: 0.5, Target: 0.25, Step: 0.01, Least: 0.05, Most: 0.95, Solved: 0.98, Failed: 0.11}
}

// Check reports settings that contradict each other.
func (s Skip) Check(report func(key, problem, hint string)) {
	if s.Least > s.Most {
		report("least", "least lies above most", "least = 0.05, most = 0.95 are GRESO's")
	}
	if s.Failed >= s.Solved {
		report("failed", "a prompt would have failed and be solved at once", "failed = 0.11, solved = 0.98 are GRESO's")
	}
}

// Skips is the state of a Skip.
type Skips struct {
	Solved []int   `json:"solved"` // of each prompt, how often in a row until its last visit
	Failed []int   `json:"failed"`
	Easy   float64 `json:"easy"`
	Hard   float64 `json:"hard"`
	Rolled int     `json:"rolled"` // prompts so far
}

// New has learned nothing about n prompts.
func (s Skip) New(n int) *Skips {
	return &Skips{Solved: make([]int, n), Failed: make([]int, n), Easy: s.Easy, Hard: s.Hard}
}

// Out says whether a prompt is skipped, by two drawn numbers in [0, 1), as upstream draws one for each reason.
func (k *Skips) Out(prompt int, u, v float64) bool {
	return u < leftOut(k.Easy, k.Solved[prompt]) || v < leftOut(k.Hard, k.Failed[prompt])
}

// leftOut is the probability to be skipped after z visits that taught nothing. Products are the same on every machine.
func leftOut(p float64, z int) float64 {
	rolled := 1.0
	for ; z > 0 && rolled > 0.01; z-- {
		rolled *= p
	}
	return 1 - math.Max(rolled, 0.01)
}

// Learn takes in an iteration's prompts, each with the totals of its samples. Missing ones say nothing.
func (s Skip) Learn(k *Skips, prompts []int, totals [][]float64) {
	solved, failed, n := 0, 0, 0
	again := k.Rolled >= len(k.Solved)
	for i, p := range prompts {
		rate := Rate(totals[i], s.Success)
		k.Rolled++
		if math.IsNaN(rate) {
			continue
		}
		n++
		if k.Solved[p]++; rate < s.Solved {
			k.Solved[p] = 0
		} else {
			solved++
		}
		if k.Failed[p]++; rate > s.Failed {
			k.Failed[p] = 0
		} else {
			failed++
		}
	}
	if !again || n == 0 {
		return
	}
	k.Easy = s.moved(k.Easy, float64(solved)/float64(n) >= s.Target/3)
	k.Hard = s.moved(k.Hard, float64(failed)/float64(n) >= s.Target*2/3)
}

// moved is p after an iteration with too many prompts that taught nothing, or not.
func (s Skip) moved(p float64, many bool) float64 {
	if many {
		return math.Max(p-s.Step, s.Least)
	}
	return math.Min(p+s.Step, s.Most)
}
