package experiment

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// What the ledger has numbers of, and so what can be watched.

// A Number is a number of the ledger. Rewards and objectives add theirs.
type Number struct {
	Name
	has func(*Experiment) bool // who has it; nil: all
}

// Numbers are those that runs have.
func Numbers() []Number {
	tokens := func(e *Experiment) bool { return e.Episode != nil }
	pictures := func(e *Experiment) bool { return e.Episode == nil }
	decisions := func(e *Experiment) bool { return e.Episode != nil || e.Kind().Has(loss.Ratio) }
	greedy := func(e *Experiment) bool { return e.Comparison().GreedyAnswer }
	return []Number{
		{Name{Name: "total", Card: "Mean of what is trained on."}, nil},
		{Name{Name: "reward.NAME", Card: "Mean of a trained reward over the iteration's samples."}, nil},
		{Name{Name: "gold.NAME", Card: "Mean of a reward that is only measured, over the iteration's samples."}, nil},
		{Name{Name: "heldout.NAME", Card: "Mean of a reward over held-out prompts, in iterations that evaluate; heldout.total is all trained ones."}, nil},
		{Name{Name: "missing", Card: "Share of samples without a total."}, nil},
		{Name{Name: "missing.NAME", Card: "Share of samples that a reward has no score for."}, nil},
		{Name{Name: "dead_groups", Card: "Groups whose samples all have one total."}, nil},
		{Name{Name: "dead_share", Card: "The same, over the number of groups."}, nil},
		{Name{Name: "skipped", Card: "Updates that were skipped, since their numbers were infinite or none."}, nil},
		{Name{Name: "spread_in_groups", Card: "Mean over groups of the deviation of totals."}, nil},
		{Name{Name: "diversity", Card: "Root mean squared difference of the latents of two samples of a prompt."}, nil},
		{Name{Name: "reward_modes", Card: "How many bins of the totals' histogram are in use, e to its entropy: 1 where all samples score alike. Bins are those of the first iteration."}, nil},
		{Name{Name: "best_of.K", Card: "Expected best total of K samples of a prompt: 2, 4, 8 and so on, up to the group."}, nil},
		{Name{Name: "picture.brightness", Card: "Mean brightness of the rolled pictures, 0 to 255."}, pictures},
		{Name{Name: "picture.contrast", Card: "Their contrast."}, pictures},
		{Name{Name: "picture.saturation", Card: "Their saturation."}, pictures},
		{Name{Name: "picture.colourfulness", Card: "Their colourfulness."}, pictures},
		{Name{Name: "picture.entropy", Card: "Entropy of their grey levels."}, pictures},
		{Name{Name: "picture.clipped", Card: "Share of their values at either end."}, pictures},
		{Name{Name: "picture.sharpness", Card: "Variance of their Laplacian."}, pictures},
		{Name{Name: "loss", Card: "Of the last update."}, nil},
		{Name{Name: "gradient", Card: "Norm of the last update's gradient, before it is clipped."}, nil},
		{Name{Name: "lr", Card: "Learning rate of the last update."}, nil},
		{Name{Name: "ratio", Card: "How far any ratio of the last update is from 1."}, decisions},
		{Name{Name: "mismatch", Card: "Root mean squared log-ratio of the first update, when nothing has moved: 0 where rollout and training agree."}, decisions},
		{Name{Name: "clip_fraction", Card: "Share of decisions whose ratio is clipped, or that are left out."}, decisions},
		{Name{Name: "noise_floor", Card: "What rounding to the run's precision does to log-probabilities (rms), at the start of every stage; of episodes: how far an engine's lie from the trainer's."}, decisions},
		{Name{Name: "episode.calls", Card: "Tools called, a mean over conversations."}, tokens},
		{Name{Name: "episode.refused_calls", Card: "Share of the calls that were refused."}, tokens},
		{Name{Name: "episode.turns", Card: "The model's turns, a mean over conversations."}, tokens},
		{Name{Name: "episode.pictures", Card: "Pictures that a conversation holds at its end."}, tokens},
		{Name{Name: "episode.tokens", Card: "The model's own tokens."}, tokens},
		{Name{Name: "episode.called", Card: "Share of conversations that call a tool."}, tokens},
		{Name{Name: "episode.score_called", Card: "Mean total of conversations that call a tool."}, tokens},
		{Name{Name: "episode.score_direct", Card: "Mean total of conversations that call none."}, tokens},
		{Name{Name: "episode.answered", Card: "Share of conversations that end with an answer."}, tokens},
		{Name{Name: "episode.over", Card: "Share of conversations that run into a limit."}, tokens},
		{Name{Name: "episode.defused", Card: "Special tokens that the model wrote into what came back to it, a mean over conversations."}, tokens},
		{Name{Name: "episode.entropy", Card: "Entropy of what a token is drawn from, in nats, a mean over the tokens of all conversations."}, tokens},
		{Name{Name: "episode.lost", Card: "Share of conversations that are missing, since a tool outside failed."}, tokens},
		{Name{Name: "episode.greedy", Card: "Mean total of the likeliest answer to each prompt, which remax compares with."}, greedy},
		{Name{Name: "episode.given", Card: "Tokens that were not drawn, a mean over conversations: of its prompt's solution, or of the branch that it grew from."}, tokens},
		{Name{Name: "episode.cut", Card: "Share of conversations whose last turn is cut off."}, tokens},
	}
}

// Monitors are the numbers by their names.
func Monitors() []Name { return named(Numbers(), func(n Number) Name { return n.Name }) }

// measures reports whether the experiment has a number.
func (e *Experiment) measures(n Number) bool { return n.has == nil || n.has(e) }

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
	for _, n := range Numbers() {
		switch n.Name.Name {
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
				add(n.Name.Name, n.Card)
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
