package experiment

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// What the ledger has numbers of, and so what can be watched.

// Monitors are the numbers that runs have, by their names.
func Monitors() []Name {
	return named(ledger.Metrics(), func(n ledger.Metric) Name { return Name{Name: n.Name, Card: n.Card} })
}

// measures reports whether the experiment has a number.
func (e *Experiment) measures(n ledger.Metric) bool {
	switch n.Of {
	case ledger.OfPictures:
		return e.Episode == nil
	case ledger.OfTokens:
		return e.Episode != nil
	case ledger.OfDecisions:
		return e.Episode != nil || e.Kind().Has(loss.Ratio)
	case ledger.OfGreedy:
		return e.Comparison().GreedyAnswer
	}
	return true
}

// objectiveNumbers are what the objective measures beside the numbers that all runs have.
func (e *Experiment) objectiveNumbers() []string {
	if e.Episode == nil || e.Taught() {
		return e.Kind().Numbers
	}
	all := []string{"kl", "ppo_kl", "clipped", "clipped_dual"}
	if e.Loss.EntropyWeight != 0 || e.Loss.Keep.Entropy > 0 && e.Loss.Keep.Entropy < 1 {
		all = append(all, "entropy")
	}
	if e.Comparison().ValueHead {
		all = append(all, "value_loss", "value_clipped", "value_explained")
	}
	if e.Loss.Perception.On() {
		all = append(all, "perception")
	}
	if e.Imitates() {
		all = append(all, "nll", "token_probability", "imitated")
	}
	if e.Loss.Correction.On() {
		all = append(all, loss.Disagreement()...)
	}
	return all
}

// Watched are the numbers that this experiment's ledger will have.
func (e *Experiment) Watched() []Name {
	var all []Name
	turns := e.everyStage()
	add := func(name, card string) {
		if !slices.ContainsFunc(all, func(n Name) bool { return n.Name == name }) {
			all = append(all, Name{Name: name, Card: card})
		}
	}
	for _, n := range ledger.Metrics() {
		switch n.Name {
		case "reward.NAME":
			for _, name := range e.watchedRewards() {
				add(name, n.Card)
			}
		case "heldout.NAME":
			if e.Evaluate.Prompts == "" {
				continue
			}
			add("heldout.total", n.Card)
			for _, w := range e.Rewards {
				add("heldout."+w.Called(), n.Card)
			}
		case "missing.NAME":
			for _, w := range e.Rewards {
				add("missing."+w.Called(), n.Card)
			}
		case "best_of.K":
			for _, at := range turns {
				for _, k := range BestOfs(at.Rollout.Group) {
					add(fmt.Sprintf("best_of.%d", k), n.Card)
				}
			}
		case "gold.NAME":
		default:
			if slices.ContainsFunc(turns, func(at *Experiment) bool { return at.measures(n) }) {
				add(n.Name, n.Card)
			}
		}
	}
	for _, at := range turns {
		for _, name := range at.objectiveNumbers() {
			add(name, "Mean over the last update, of objective "+at.Loss.Objective+".")
		}
	}
	return all
}

// watchedRewards are the rewards by the names that monitors call them: of one that some stages train on and
// others only measure, both.
func (e *Experiment) watchedRewards() []string {
	var names []string
	for i := range e.Rewards {
		for _, at := range e.everyStage() {
			name := "gold." + at.Rewards[i].Called()
			if at.Rewards[i].Train {
				name = "reward." + at.Rewards[i].Called()
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// BestOfs are the numbers of samples whose best the ledger has: doubled up to the group.
func BestOfs(group int) []int {
	var all []int
	for k := 2; k < group; k *= 2 {
		all = append(all, k)
	}
	if group > 1 {
		all = append(all, group)
	}
	return all
}
