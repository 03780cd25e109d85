package experiment

import (
	"reflect"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards/kinds"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Who reads a key: those methods whose options have the struct that declares it (choosers). A tag says where else a key
// is read, or is not:
//
//	of:"tokens"          in an episode; of:"pictures" otherwise
//	of:"kind=sliding"    where the key beside it has this value
//
// A key without either is read always. A table's tag holds for all keys in it.

// modality is the word for the samples.
func (e *Experiment) modality() string {
	if e.Episode != nil {
		return "tokens"
	}
	return "pictures"
}

// A chooser is a key that chooses among methods, each of which reads option structs.
type chooser struct {
	has   []optioned
	used  []string // of an experiment
	words string   // which these are
	of    string   // the prefix of their names in the list of keys
}

// An optioned is a method with the struct of its options; nil: it has none.
type optioned struct {
	name    string
	options any
	made    string   // where only pictures, or only tokens, are made by it; "": both
	keys    []string // of table, in place of options
	table   any
}

// reads reports whether the method has a key among its options.
func (o optioned) reads(key config.Key) bool {
	if o.table != nil {
		return key.In == reflect.TypeOf(o.table) && slices.Contains(o.keys, config.Last(key.Path))
	}
	return slices.Contains(optionTypes(o.options), key.In)
}

// choosers are all keys that choose among methods.
func (e *Experiment) choosers() []chooser {
	s := e.Sampler
	solvers := chooser{used: []string{s.Solver, s.Outside, s.EvalSolver}, words: "solver " + quoted(s.Solver)}
	for _, k := range sde.Solvers() {
		solvers.has = append(solvers.has, optioned{name: k.Name, options: k.Options})
	}
	grids := chooser{used: []string{s.Schedule.Kind}, words: "sampler.schedule.kind = " + quoted(s.Schedule.Kind)}
	for _, k := range sde.Grids() {
		grids.has = append(grids.has, optioned{name: k.Name, options: k.Options})
	}
	windows := chooser{used: []string{s.Window.Kind}, words: "sampler.window.kind = " + quoted(s.Window.Kind), of: "kind="}
	for _, k := range sde.Windows() {
		windows.has = append(windows.has, optioned{name: k.Name, keys: k.Keys, table: s.Window})
	}
	rules := chooser{used: []string{e.Advantage.Estimator}, words: "estimator " + quoted(e.Advantage.Estimator)}
	for _, k := range advantage.Rules() {
		rules.has = append(rules.has, optioned{name: k.Name, options: k.Options})
	}
	objectives := chooser{used: []string{e.Loss.Objective}, words: "objective " + quoted(e.Loss.Objective)}
	for _, k := range loss.Objectives() {
		if k.Pictures != nil {
			objectives.has = append(objectives.has, optioned{name: k.Name, options: k.Pictures.Options, made: "pictures"})
		}
		if k.Tokens != nil {
			objectives.has = append(objectives.has, optioned{name: k.Name, options: k.Tokens.Options, made: "tokens"})
		}
	}
	objectives.has = append(objectives.has, optioned{name: "imitate", options: loss.LessonOptions{}, made: "tokens"}) // beside rollouts
	if e.Loss.Imitate.On() {
		objectives.used = append(objectives.used, "imitate")
	}
	judges := chooser{words: "none of the rewards"}
	for _, w := range e.Rewards {
		judges.used = append(judges.used, w.Name)
	}
	for _, k := range kinds.All() {
		judges.has = append(judges.has, optioned{name: k.Name, options: k.Options})
	}
	return []chooser{judges, solvers, grids, windows, rules, objectives}
}

// readers are the methods that read a key, of the first chooser that has some; reads says whether one of them is used.
func (e *Experiment) readers(all []chooser, key config.Key) (of chooser, names []string, reads bool) {
	for _, c := range all {
		for _, m := range c.has {
			if !m.reads(key) {
				continue
			}
			if !slices.Contains(names, m.name) {
				names = append(names, m.name)
			}
			reads = reads || slices.Contains(c.used, m.name) && (m.made == "" || m.made == e.modality())
		}
		if names != nil {
			return c, names, reads
		}
	}
	return chooser{}, nil, false
}

// optionTypes are the option structs of a method: its options, and embedded ones.
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
		c, names, _ := e.readers(all, k)
		switch {
		case names == nil:
		case strings.Contains(k.Of, "="):
			keys[i].Of = strings.Join(names, ",") + "; " + k.Of
		case k.Of != "": // the modality
			keys[i].Of += "," + strings.Join(names, ",")
		default:
			keys[i].Of = c.of + strings.Join(names, ",")
		}
	}
	return keys
}

// A ReaderDefault is a key's default for one reader.
type ReaderDefault struct {
	Reader  string // a method, with " (tokens)" where its form of pictures has the common default; "tokens": all of them
	Default string
}

// ReaderDefaults returns the defaults of a key that differ from Key.Default: names of objectives and estimators set
// keys, and objectives of tokens have defaults of their own.
func ReaderDefaults() map[string][]ReaderDefault {
	base, found := map[string]string{}, map[string][]ReaderDefault{}
	plain := Default()
	all := plain.choosers()
	for _, k := range config.Keys(&plain) {
		base[k.Path] = k.Default
	}
	compare := func(e *Experiment, reader string, options any) {
		for _, k := range config.Keys(e) {
			_, names, _ := e.readers(all, k)
			reads := names == nil || slices.Contains(optionTypes(options), k.In)
			if was, has := base[k.Path]; has && reads && !k.Table && k.Default != was {
				found[k.Path] = append(found[k.Path], ReaderDefault{reader, k.Default})
			}
		}
	}
	episodes := Default()
	episodes.Loss.OfTokens()
	for _, c := range all {
		for _, m := range c.has {
			if m.made == "tokens" {
				compare(&episodes, "tokens", m.options)
			}
		}
	}
	for path, of := range found { // once for all of them
		found[path] = slices.Compact(of)
	}
	for _, o := range loss.Objectives() {
		for i, form := range []*loss.Form{o.Pictures, o.Tokens} {
			if form != nil && form.Set != nil {
				e := Default()
				form.Set(&e.Loss.Options)
				compare(&e, o.Name+[]string{"", " (tokens)"}[i], form.Options)
			}
		}
	}
	for _, r := range advantage.Rules() {
		if r.Set != nil {
			e := Default()
			r.Set(&e.Advantage.Settings)
			compare(&e, r.Name, r.Options)
		}
	}
	return found
}

// unread names a reader that is missing for the key: "" where it is read.
func (e *Experiment) unread(key config.Key, values map[string]string, all []chooser) string {
	c, names, reads := e.readers(all, key)
	beside, list, chosen := strings.Cut(key.Of, "=")
	switch {
	case key.Of != "" && !chosen && (key.Of == e.modality() || reads):
		return ""
	case key.Of != "" && !chosen && names == nil:
		return map[bool]string{true: "an episode", false: "a sampler of pictures"}[e.Episode != nil]
	case names != nil && !reads:
		return c.words
	case chosen:
		beside = strings.TrimPrefix(config.Parent(key.Path)+"."+beside, ".")
		if value := values[beside]; !slices.Contains(strings.Split(list, ","), strings.Trim(value, `"`)) {
			return beside + " = " + value
		}
	}
	return ""
}

// unreadKeys are the written keys of some tables that nothing reads, with who does not read them. prefix is the
// prefix of keys in the file: that of a stage.
func (e *Experiment) unreadKeys(prefix string) map[string]string {
	keys, values, found, all := config.Keys(e), map[string]string{}, map[string]string{}, e.choosers()
	for _, k := range keys {
		values[k.Path] = k.Default
	}
	above := ""
	for _, k := range keys {
		if above != "" && strings.HasPrefix(k.Path, above+".") || strings.HasPrefix(k.Path, "reward") || !e.written(prefix+k.Path) {
			continue // rewards are refused, with less patience: rewards.go
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
