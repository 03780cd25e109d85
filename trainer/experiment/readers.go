package experiment

import (
	"reflect"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/config"
)

// Who reads a key stands beside its declaration, in a tag:
//
// A key of a method's option structs is read where that method is chosen (choosers). Where there is no such method:
//
//	of:"clip,guard"      under these methods of its table: the objective of [loss], the estimator of
//	                     [advantage], the kind of a [[reward]]
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
	case "estimator":
		return append(e.modality(), e.Advantage.Estimator), "estimator " + quoted(e.Advantage.Estimator)
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

// A chooser is a key that chooses among methods, each of which reads option structs.
type chooser struct {
	label string // before the names of its methods, where they are the readers of a key
	has   []optioned
	used  []string // of an experiment
	words string   // which these are
}

// An optioned is a method with the struct of its options; nil: it has none.
type optioned struct {
	name    string
	options any
}

// choosers are all keys that choose among methods.
func (e *Experiment) choosers() []chooser {
	s := e.Sampler
	solvers := chooser{used: []string{s.Solver, s.Outside, s.EvalSolver}, words: "solver " + quoted(s.Solver)}
	for _, k := range sde.Solvers() {
		solvers.has = append(solvers.has, optioned{k.Name, k.Options})
	}
	grids := chooser{label: "kind=", used: []string{s.Schedule.Kind}, words: "sampler.schedule.kind = " + quoted(s.Schedule.Kind)}
	for _, k := range sde.Grids() {
		grids.has = append(grids.has, optioned{k.Name, k.Options})
	}
	rules := chooser{used: []string{e.Advantage.Estimator}, words: "estimator " + quoted(e.Advantage.Estimator)}
	for _, k := range advantage.Rules() {
		rules.has = append(rules.has, optioned{k.Name, k.Options})
	}
	return []chooser{solvers, grids, rules}
}

// readers are the methods that read a key, of the first chooser that has some.
func readers(all []chooser, key config.Key) (of chooser, names []string) {
	for _, c := range all {
		for _, m := range c.has {
			if slices.Contains(optionTypes(m.options), key.In) {
				names = append(names, m.name)
			}
		}
		if names != nil {
			return c, names
		}
	}
	return chooser{}, nil
}

// optionTypes are the option structs of a method: its options, and what they embed.
func optionTypes(options any) []reflect.Type {
	if options == nil {
		return nil
	}
	var below func(t reflect.Type) []reflect.Type
	below = func(t reflect.Type) []reflect.Type {
		all := []reflect.Type{t}
		for i := range t.NumField() {
			if f := t.Field(i); f.Anonymous {
				all = append(all, below(f.Type)...)
			}
		}
		return all
	}
	return below(reflect.TypeOf(options))
}

// has reports whether an option struct is among a method's options.
func has(options, one any) bool { return slices.Contains(optionTypes(options), reflect.TypeOf(one)) }

// solversWith are the solvers that have an option struct.
func solversWith(one any) (names []string) {
	for _, k := range sde.Solvers() {
		if has(k.Options, one) {
			names = append(names, k.Name)
		}
	}
	return names
}

// Keys are the keys of an experiment, each with the methods that read it (Of).
func Keys(e *Experiment) []config.Key {
	keys, all := config.Keys(e), e.choosers()
	for i, k := range keys {
		c, names := readers(all, k)
		switch {
		case names == nil:
		case k.Of == "":
			keys[i].Of = c.label + strings.Join(names, ",")
		case !strings.Contains(k.Of, "="): // of what is made, whatever the method
			keys[i].Of = k.Of + "," + strings.Join(names, ",")
		}
	}
	return keys
}

// unread says who does not read a key: "" where it is read.
func (e *Experiment) unread(key config.Key, values map[string]string, all []chooser) string {
	made := key.Of == "tokens" || key.Of == "pictures"
	if made && slices.Contains(e.modality(), key.Of) {
		return ""
	}
	if c, names := readers(all, key); names != nil {
		if !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(c.used, n) }) {
			return c.words
		}
		if made {
			return ""
		}
	}
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
	keys, values, found, all := config.Keys(e), map[string]string{}, map[string]string{}, e.choosers()
	for _, k := range keys {
		values[k.Path] = k.Default
	}
	above := ""
	for _, k := range keys {
		if above != "" && strings.HasPrefix(k.Path, above+".") || strings.HasPrefix(k.Path, "reward") || !e.written(prefix+k.Path) {
			continue // rewards are refused, with less patience: reward_options.go
		}
		if by := e.unread(k, values, all); by != "" {
			found[prefix+k.Path] = by
			above = k.Path
		}
	}
	return found
}

func quoted(name string) string { return `"` + name + `"` }

// quotedList is names as a sentence has them: "a", "b".
func quotedList(names []string) string {
	var all []string
	for _, n := range names {
		all = append(all, quoted(n))
	}
	return strings.Join(all, ", ")
}
