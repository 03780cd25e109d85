package experiment

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/config"
)

// What no single value can know. Everything here is refused; what only seems unwise
// is a warning of the plan.

// report takes a key, what is wrong, and the remedy.
type report = func(key, problem, hint string)

// under prefixes the keys of a table.
func under(table string, r report) report {
	return func(key, problem, hint string) {
		r(table+"."+strings.ReplaceAll(key, "|", "|"+table+"."), problem, hint)
	}
}

// check reports all that is wrong. A table's own checks are run where its values
// are right, and those across tables where all of them are.
func (e *Experiment) check(doc *config.Document) {
	e.checkNames(doc.Report)
	e.checkTables(doc, "")
	for i, s := range e.Stages {
		prefix := fmt.Sprintf("stage[%d].", i)
		e.at(s).checkTables(doc, prefix)
	}
	e.checkRewards(doc.Report)
	e.checkRelative(func(keys, problem, hint string) { doc.Report(e.oneWritten("", keys), problem, hint) })
	e.checkStagesFilter(doc.Report)
	if doc.Clean("reward") && doc.Clean("advantage") {
		e.checkCombination(func(keys, problem, hint string) { doc.Report(e.oneWritten("", keys), problem, hint) })
		e.checkStagesRewards(doc.Report)
	}
	e.checkEpisode(doc)
	e.checkMonitors(doc.Report)
	e.Track.check(under("track", doc.Report))
	e.checkModel(doc.Report)
	if name := e.Run.Name; doc.Clean("run") && (!filepath.IsLocal(filepath.FromSlash(name)) || filepath.Clean(name) == ".") {
		doc.Report("run.name", fmt.Sprintf("%q is no folder below runs/", name), "write a plain name; train --out names a folder anywhere")
	}
	if n := e.stageIterations(); n > 0 && n != e.Run.Iterations && doc.Clean("run") && doc.Clean("stage") {
		doc.Report("run.iterations", fmt.Sprintf("is %d, but the stages have %d", e.Run.Iterations, n), fmt.Sprintf("write %d", n))
	}
}

func (e *Experiment) stageIterations() (n int) {
	for _, s := range e.Stages {
		n += s.Iterations
	}
	return n
}

// checkTables looks at the tables of the file, or of a stage of it.
func (e *Experiment) checkTables(doc *config.Document, prefix string) {
	r := func(keys, problem, hint string) { doc.Report(prefix+e.oneWritten(prefix, keys), problem, hint) }
	e.checkKinds(r)
	for _, t := range []struct {
		table string
		check func(report)
	}{
		{"optim", e.Optim.Check}, {"advantage", e.Advantage.Check}, {"sampler.window", e.Sampler.Window.Check}, {"sampler", e.Sampler.Check},
	} {
		if doc.Clean(t.table) && doc.Clean(prefix+t.table) {
			t.check(under(t.table, r))
		}
	}
	if clean := func(key string) bool { return doc.Clean(key) && doc.Clean(prefix+key) }; e.Episode == nil && clean("sampler.window") && clean("sampler.steps") {
		e.Sampler.checkWindow(under("sampler", r))
	}
	for _, table := range []string{"sampler", "advantage", "loss", "rollout"} {
		if !doc.Clean(table) || !doc.Clean(prefix+table) {
			return
		}
	}
	if e.Episode == nil {
		e.checkSampling(r)
	} else {
		e.checkTokens(r)
	}
	e.checkLoss(r)
	e.checkGroups(r)
	e.checkAverages(r)
	e.checkChoice(r)
}

// oneWritten is the first of some keys ("a|b") that the file has: a combination is
// shown where someone wrote a part of it.
func (e *Experiment) oneWritten(prefix, keys string) string {
	all := strings.Split(keys, "|")
	for _, k := range all {
		if e.written(prefix + k) {
			return k
		}
	}
	return all[0]
}

// checkNames looks for presets and devices in their lists.
func (e *Experiment) checkNames(r report) {
	names := Section{"presets", "preset", named(Presets(), func(p Preset) Name { return p.Name })}
	for _, p := range []struct{ key, name string }{
		{"preset", e.Preset}, {"sampler.preset", e.Sampler.Preset}, {"advantage.preset", e.Advantage.Preset}, {"loss.preset", e.Loss.Preset},
	} {
		if p.name != "" {
			names.Key = p.key
			names.check(p.name, r)
		}
	}
	for i, w := range e.Rewards {
		Section{"rewards", fmt.Sprintf("reward[%d].name", i), named(Rewards(), func(k RewardKind) Name { return k.Name })}.check(w.Name, r)
		if w.Scaling != "" {
			Section{"scalings", fmt.Sprintf("reward[%d].scaling", i), Scalings()}.check(w.Scaling, r)
		}
	}
	e.Run.checkDevices(r)
	if _, err := e.Run.bytes(); err != nil {
		r("run.memory", err.Error(), `a number and a unit, such as "16GiB", "900MiB" or "24GB"`)
	}
}

// checkKinds looks for the names of methods in their lists.
func (e *Experiment) checkKinds(r report) {
	value := map[string]string{
		"solvers": e.Sampler.Solver, "schedules": e.Sampler.Schedule.Kind, "advantages": e.Advantage.Estimator,
		"objectives": e.Loss.Objective, "kls": e.Loss.KL.Estimator,
	}
	for _, s := range Sections() {
		if name, ok := value[s.Name]; ok {
			s.check(name, r)
			if s.Name == "solvers" {
				for key, name := range map[string]string{"sampler.outside": e.Sampler.Outside, "sampler.eval_solver": e.Sampler.EvalSolver} {
					s.Key = key
					s.check(name, r)
				}
			}
		}
	}
}

// check refuses a name that is not in the section, or means several things.
func (s Section) check(name string, r report) {
	if _, ok := find(s.Has, name); ok || name == "" && s.Name == "rewards" {
		return
	}
	if n, ok := find(Ambiguous(), strings.ToLower(name)); ok {
		r(s.Key, fmt.Sprintf("%q means several things", name), n.Card)
		return
	}
	if n, ok := find(otherwise(), strings.ToLower(name)); ok && s.Name != "rewards" {
		r(s.Key, fmt.Sprintf("no %s is named %q", s.one(), name), n.Card)
		return
	}
	var known []string
	for _, n := range s.Has {
		known = append(known, n.Name)
	}
	hint := "see darkroom list " + s.Name
	if n := config.Near(name, known); n != "" {
		hint = fmt.Sprintf("did you mean %q?", n)
	}
	r(s.Key, fmt.Sprintf("no %s is named %q", s.one(), name), hint)
}

// one is what a name of the section is a name of.
func (s Section) one() string {
	switch s.Name {
	case "advantages":
		return "estimator"
	case "kls":
		return "estimator of KL"
	}
	return strings.TrimSuffix(s.Name, "s")
}

// checkModel: what is trained.
func (e *Experiment) checkModel(r report) {
	if len(e.Model.Train) == 0 {
		r("model.train", "nothing is trained: the list is empty", `write train = "lora" or "full", or patterns of parameters' names`)
	}
	if len(e.Model.Train) > 1 {
		for i, t := range e.Model.Train {
			if t == "lora" || t == "full" {
				r(fmt.Sprintf("model.train[%d]", i), fmt.Sprintf("%q cannot be combined with others", t), fmt.Sprintf("write train = %q", t))
			}
		}
	}
	if _, adapted := e.Model.Trained(); e.Model.Adapter != "" && !adapted {
		r("model.adapter|model.train", "an adapter is trained, and not the model itself, where training begins with one", `write train = "lora"; or fold the adapter in first: darkroom export --as merged`)
	}
	switch _, adapted := e.Model.Trained(); {
	case len(e.Model.Blank) > 0 && e.Episode == nil:
		r("model.blank", "a generator of pictures begins as its folder has it", "leave it out; darkroom pretrain makes small models from nothing")
	case len(e.Model.NewTokens) > 0 && e.Episode == nil:
		r("model.new_tokens", "a generator of pictures has no tokens of its own", "leave it out")
	case len(e.Model.NewTokens) > 0 && adapted:
		r("model.new_tokens", "rows that begin as random numbers are trained, and an adapter leaves them as they are", `train = "full", or patterns that hold the embeddings and the head`)
	case len(e.Model.Blank) > 0 && adapted:
		r("model.blank", "layers that begin as random numbers are trained, and an adapter leaves them as they are", `train = "full", or patterns that hold all of model.blank`)
	}
	if slices.Equal(e.Model.Train, []string{"lora"}) && len(e.Model.LoRA.Targets) == 0 {
		r("model.lora.targets", "an adapter without targets trains nothing", `for example targets = ["attn.to_q", "attn.to_v"]`)
	}
	if e.Evaluate.Every > 0 && e.Evaluate.Prompts == "" {
		r("evaluate.prompts", "there are no prompts to evaluate on", "held-out prompts, not those of [rollout]")
	}
	if v := e.Evaluate; (v.Width == 0) != (v.Height == 0) {
		r(e.oneWritten("", "evaluate.width|evaluate.height"), "a picture needs both a width and a height", "write both, or neither")
	}
	if p := e.Evaluate.Prompts; p != "" && slices.ContainsFunc(e.Lists(), func(l List) bool { return l.Name == p }) {
		r("evaluate.prompts", "these are the prompts that are trained on", "a file of other prompts, so that a gain is a gain")
	}
	switch g := e.Evaluate.Guided; {
	case g > 0 && e.Episode != nil:
		r("evaluate.guided", "a model that speaks has no guidance", "leave it out")
	case g > 0 && g == e.Sampler.Guidance:
		r("evaluate.guided", fmt.Sprintf("everything is measured with a guidance of %v already", g), "another guidance, or leave it out")
	case g > 0 && e.Evaluate.Prompts == "":
		r("evaluate.guided", "there are no prompts to evaluate on", "evaluate.prompts")
	}
}
