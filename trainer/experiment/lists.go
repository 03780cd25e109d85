package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/data/prompts"
)

// What an experiment trains on: one list of prompts or several, in each of its stages. All of them lie one behind
// another in one list, in which a key names a prompt by its place; a stage draws from its own.

// A List is one that stages train on, and the first of Turns that does.
type List struct {
	Name    string
	Offline bool // its prompts name pictures that are learned from
	Turn    int
}

// Lists are those of all stages, each once, in the order of the stages.
func (e *Experiment) Lists() (all []List) {
	for i, at := range e.everyStage() {
		for _, name := range at.Rollout.Prompts {
			if !slices.ContainsFunc(all, func(l List) bool { return l.Name == name }) {
				all = append(all, List{name, at.Rollout.Offline, i})
			}
		}
	}
	return all
}

// Training reads what is trained on, by all stages: read reads a list of pictures that exist.
func (e *Experiment) Training(read func(name string) ([]prompts.Prompt, error)) (all []prompts.Prompt, err error) {
	for _, l := range e.Lists() {
		open := e.Open
		if l.Offline {
			open = read
		}
		list, err := open(l.Name)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = list // without a copy, where there is one
			continue
		}
		all = append(all, list...)
	}
	return all, nil
}

// Named are the names of lists, for people.
func (r Rollout) Named() string { return strings.Join(r.Prompts, ", ") }

// Named are the names of all lists of the stages, for people.
func (e *Experiment) Named() string {
	var names []string
	for _, l := range e.Lists() {
		names = append(names, l.Name)
	}
	return strings.Join(names, ", ")
}

// SamePrompts reports whether another stage goes on with the same lists.
func (r Rollout) SamePrompts(other Rollout) bool {
	return slices.Equal(r.Prompts, other.Prompts) && slices.Equal(r.Shares, other.Shares)
}

// Asked are how many prompts of each list an iteration has by its share; nil without shares.
func (r Rollout) Asked() (all []float64) {
	sum := 0.0
	for _, s := range r.Shares {
		sum += s
	}
	for _, s := range r.Shares {
		all = append(all, float64(r.PromptsPerIteration)*s/sum)
	}
	return all
}

// AllOffline reports whether nothing is rolled in any stage, since pictures exist that are learned from.
func (e *Experiment) AllOffline() bool {
	return !slices.ContainsFunc(e.everyStage(), func(at *Experiment) bool { return !at.Rollout.Offline })
}

// ownLists forgets shares of other lists than a stage's own.
func (e *Experiment) ownLists(prefix string, s *Stage) {
	if e.written(prefix+"rollout.prompts") && !e.written(prefix+"rollout.shares") {
		s.Rollout.Shares = nil
	}
}

// checkLists: lists that are there once, and a share of each.
func (e *Experiment) checkLists(r report) {
	roll := e.Rollout
	for i, name := range roll.Prompts {
		if slices.Contains(roll.Prompts[:i], name) {
			r(fmt.Sprintf("rollout.prompts[%d]", i), name+" is there twice", "once, with a larger number in rollout.shares")
			return
		}
	}
	switch n := len(roll.Shares); {
	case n == 0:
	case n != len(roll.Prompts):
		r("rollout.shares", fmt.Sprintf("%s of %s", count(n, "share"), count(len(roll.Prompts), "list")), "a number for each list of rollout.prompts, in their order")
	case roll.Curriculum != nil:
		r("rollout.shares|rollout.curriculum", "both say which prompts come more often", "one of them")
	}
}

// checkStagesLists: a list is read in one way.
func (e *Experiment) checkStagesLists(r report) {
	for i, at := range e.everyStage() {
		for _, l := range e.Lists() {
			if l.Offline != at.Rollout.Offline && slices.Contains(at.Rollout.Prompts, l.Name) {
				key := fmt.Sprintf("stage[%d].rollout.offline", i)
				if !e.written(key) {
					key = fmt.Sprintf("stage[%d].rollout.offline", l.Turn)
				}
				r(key, fmt.Sprintf("%s has prompts in one stage, and in another pictures that are learned from", l.Name), "a list of its own: prompts in [stage.rollout]")
				return
			}
		}
	}
}

// listWords say which lists an iteration's prompts are of.
func (e *Experiment) listWords() string {
	roll := e.Rollout
	if len(roll.Shares) != len(roll.Prompts) {
		return roll.Named()
	}
	var all []string
	for i, name := range roll.Prompts {
		all = append(all, fmt.Sprintf("%s (%v)", name, roll.Shares[i]))
	}
	return strings.Join(all, ", ") + " by shares"
}
