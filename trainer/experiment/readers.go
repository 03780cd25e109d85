package experiment

import (
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/config"
)

// Who reads a key stands beside its declaration, in a tag:
//
//	of:"clip,guard"      under these methods of its table: the objective of [loss], the estimator of
//	                     [advantage], the solvers of [sampler], the kind of a [[reward]]
//	of:"estimator=gae"   under this method of another table
//	of:"kind=sliding"    where the key beside it has this value
//
// A key without a tag is read always. Three words stand for many methods: "tokens" for all of an
// episode, "steps" for objectives that compare probabilities of a sampler's steps, "noised" for those
// on noised samples; "pictures" is where there is no episode, "pairs" for objectives that compare two, "imitate"
// where written answers are learned from beside rollouts.
// What a table's tag says holds for all keys in it.

// methods is what a tag may refer to by the name of its chooser: the methods that the experiment uses,
// and in words what they are.
func (e *Experiment) methods(chooser string) (used []string, words string) {
	switch o := e.objective(); chooser {
	case "objective", "loss":
		return append(e.modality(), e.objectiveReads()...), "objective " + quoted(o.Name.Name)
	case "estimator", "advantage":
		return append(e.modality(), e.Advantage.Estimator), "estimator " + quoted(e.Advantage.Estimator)
	case "solver", "sampler":
		s := e.Sampler
		return append(e.modality(), s.Solver, s.Outside, s.EvalSolver), "solver " + quoted(s.Solver)
	}
	return e.modality(), map[bool]string{true: "an episode", false: "a sampler of pictures"}[e.Episode != nil]
}

// modality is the word for what is made.
func (e *Experiment) modality() []string {
	if e.Episode != nil {
		return []string{"tokens"}
	}
	return []string{"pictures"}
}

// objectiveReads are the words that the objective answers to. The clip of tokens is called ppo, since it
// has other options than the clip of steps.
func (e *Experiment) objectiveReads() []string {
	o := e.objective()
	if e.Episode != nil {
		used := []string{o.Name.Name}
		if o.Both {
			used[0] = "ppo"
		}
		if e.Loss.Imitate.On() {
			used = append(used, "imitate")
		}
		return used
	}
	used := []string{o.Name.Name}
	for word, is := range map[string]bool{"steps": o.Ratio, "noised": o.Noised, "pairs": o.Pairs} {
		if is {
			used = append(used, word)
		}
	}
	return used
}

// readersOf takes a tag apart.
func readersOf(key config.Key) (chooser string, names []string) {
	chooser, list, chosen := strings.Cut(key.Of, "=")
	if !chosen {
		chooser, list = "", key.Of
		if table, _, nested := strings.Cut(key.Path, "."); nested {
			chooser = table
		}
	}
	return chooser, strings.Split(list, ",")
}

// unread says who does not read a key: "" where it is read.
func (e *Experiment) unread(key config.Key, values map[string]string) string {
	if key.Of == "" {
		return ""
	}
	chooser, names := readersOf(key)
	beside := strings.TrimPrefix(config.Parent(key.Path)+"."+chooser, ".")
	if value, ok := values[beside]; ok && chooser != "" {
		if slices.Contains(names, strings.Trim(value, `"`)) {
			return ""
		}
		return beside + " = " + value
	}
	used, words := e.methods(chooser)
	if !slices.ContainsFunc(names, func(n string) bool { return n != "tokens" && n != "pictures" }) {
		_, words = e.methods("") // no other method would read it
	}
	if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(used, n) }) {
		return ""
	}
	return words
}

// unreadKeys are the written keys of some tables that nothing reads, with who does not read them. prefix
// is what stands before keys in the file: that of a stage.
func (e *Experiment) unreadKeys(prefix string) map[string]string {
	keys, values, found := config.Keys(e), map[string]string{}, map[string]string{}
	for _, k := range keys {
		values[k.Path] = k.Default
	}
	above := ""
	for _, k := range keys {
		if above != "" && strings.HasPrefix(k.Path, above+".") || strings.HasPrefix(k.Path, "reward") || !e.written(prefix+k.Path) {
			continue // rewards are refused, with less patience: reward_options.go
		}
		if by := e.unread(k, values); by != "" {
			found[prefix+k.Path] = by
			above = k.Path
		}
	}
	return found
}

func quoted(name string) string { return `"` + name + `"` }
