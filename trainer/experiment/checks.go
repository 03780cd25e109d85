package experiment

import (
	"fmt"
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
	return func(key, problem, hint string) { r(table+"."+key, problem, hint) }
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
	e.checkMonitors(doc.Report)
	e.checkModel(doc.Report)
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
	e.checkGroups(r)
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
		Section{"rewards", fmt.Sprintf("reward[%d].name", i), Rewards()}.check(w.Name, r)
	}
	if d := e.Run.Device; d != "auto" && d != "cpu" && !strings.HasPrefix(d, "cuda:") {
		r("run.device", fmt.Sprintf("%q is no device", d), "write \"auto\", \"cpu\", or \"cuda:0\"")
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

// checkSampling: sampler against objective.
func (e *Experiment) checkSampling(r report) {
	solver, ok := solverNamed(e.Sampler.Solver)
	i := slices.IndexFunc(Objectives(), func(o ObjectiveKind) bool { return o.Name.Name == e.Loss.Objective })
	if !ok || i < 0 {
		return
	}
	o := Objectives()[i]
	other := `a solver that draws, such as "flow-sde", or an objective on noised samples, such as "nft"`
	switch {
	case o.Ratio && !solver.Draws:
		r("sampler.solver|loss.objective", fmt.Sprintf("%s draws nothing, and objective %q compares probabilities", e.Sampler.Solver, e.Loss.Objective), other)
	case o.Ratio && !solver.Judged:
		r("sampler.solver|loss.objective", fmt.Sprintf("%s has no log-probability, and objective %q needs one", e.Sampler.Solver, e.Loss.Objective), other)
	case o.Ratio && e.Sampler.Noise == 0 && !slices.Contains([]string{"ddpm", "dpm++2m-sde"}, e.Sampler.Solver):
		r("sampler.noise|sampler.solver|loss.objective", fmt.Sprintf("without noise %s is deterministic, and objective %q compares probabilities", e.Sampler.Solver, e.Loss.Objective), "0.7 is what Flow-GRPO uses with flow-sde")
	case o.Ratio && e.Sampler.Flash != nil && e.Sampler.Flash.All:
		r("sampler.flash.all", fmt.Sprintf("with every step solved by a deterministic method, objective %q has nothing to compare", e.Loss.Objective), "leave it out: only the tail is compressed then")
	case o.Ratio && e.Loss.ClipRange == 0 && (e.Loss.Objective == "clip" || e.Loss.Objective == "guard"):
		r("loss.clip_range", "a range of 0 lets no sample move", "1e-4 is what Flow-GRPO uses")
	}
	if o.Noised && e.Sampler.Tree != nil {
		r("sampler.tree|loss.objective", fmt.Sprintf("objective %q judges final samples only, and a tree's credit lies on its steps", e.Loss.Objective), `objective = "clip", or no tree`)
	}
	if o.Noised && e.Loss.KL.Weight > 0 && e.Loss.KL.Estimator != "velocity" {
		r("loss.kl.estimator|loss.kl|loss.objective", fmt.Sprintf("objective %q has outputs at noised samples, and no transitions", e.Loss.Objective), `write estimator = "velocity"`)
	}
	if (e.Sampler.Tree != nil) != (e.Advantage.Estimator == "tree") {
		key, problem, hint := "advantage.estimator|sampler.tree", "a tree's nodes are compared by depth", `write estimator = "tree"`
		if e.Sampler.Tree == nil {
			problem, hint = "there is no tree", `write sampler.tree = { splits = [0, 3, 6, 9] }, or estimator = "group"`
		}
		r(key, problem, hint)
	}
	if slices.Contains([]string{"gae", "opo", "gpg", "reinforce++"}, e.Advantage.Estimator) {
		r("advantage.estimator", fmt.Sprintf("%s looks at tokens, and a sampler of pictures has none", e.Advantage.Estimator), `write estimator = "group", or [episode] for a language model`)
	}
	if o.Tokens {
		r("loss.objective|loss.preset|preset", fmt.Sprintf("objective %q is of tokens, and a sampler of pictures has none", e.Loss.Objective), `write objective = "clip", or [episode] for a language model`)
	}
}

// checkTokens: a language model's episodes have tokens, and neither steps nor final
// pictures that could be noised.
func (e *Experiment) checkTokens(r report) {
	o := e.objective()
	switch {
	case o.Name.Name != "" && !o.Tokens && o.Name.Name != "clip":
		r("loss.objective|loss.preset|preset", fmt.Sprintf("objective %q is of pictures, and an episode has tokens", e.Loss.Objective), `write objective = "clip", "gspo", "cispo", ...`)
	case e.Advantage.Estimator == "tree":
		r("advantage.estimator", "an episode has no tree", `write estimator = "group"`)
	case e.Loss.KL.Weight > 0 && (e.Loss.KL.Estimator == "mean" || e.Loss.KL.Estimator == "velocity"):
		r("loss.kl.estimator|loss.kl|loss.kl.weight", "tokens have log-probabilities, and no means", `write estimator = "k3"`)
	}
}

// checkGroups: who is compared with whom.
func (e *Experiment) checkGroups(r report) {
	i := slices.IndexFunc(Objectives(), func(o ObjectiveKind) bool { return o.Name.Name == e.Loss.Objective })
	pairs := i >= 0 && Objectives()[i].Pairs
	alone := e.Rollout.Group == 1
	switch {
	case alone && pairs:
		r("rollout.group|loss.objective", fmt.Sprintf("objective %q needs a better and a worse sample of each prompt", e.Loss.Objective), "a group of 2 or more")
	case alone && e.Advantage.Singleton == "zero" && slices.Contains([]string{"group", "dr", "max-group", "leave-one-out", "global", "win-rate", "ends", "best", "pass-at-k", "diversity"}, e.Advantage.Estimator):
		r("rollout.group", fmt.Sprintf("estimator %q compares the samples of a prompt, and there is one: its advantage is 0", e.Advantage.Estimator), `a group of 2 or more, or estimator = "history" or "batch", or singleton = "raw"`)
	case pairs && e.Advantage.Estimator != "ends":
		r("advantage.estimator|loss.objective", fmt.Sprintf("objective %q takes the best and the worst of a group", e.Loss.Objective), `write estimator = "ends"`)
	case e.Sampler.Tree != nil && e.Episode == nil && e.Rollout.Group != e.Sampler.Tree.Leaves() && len(e.Sampler.Tree.Splits) > 0:
		r("rollout.group|sampler.tree", fmt.Sprintf("a tree with %d splits has %d leaves, not %d", len(e.Sampler.Tree.Splits), e.Sampler.Tree.Leaves(), e.Rollout.Group), "a group is the leaves of one tree")
	}
}

// checkModel: what is trained.
func (e *Experiment) checkModel(r report) {
	if len(e.Model.Train) > 1 {
		for i, t := range e.Model.Train {
			if t == "lora" || t == "full" {
				r(fmt.Sprintf("model.train[%d]", i), fmt.Sprintf("%q is not one of several: it stands alone", t), fmt.Sprintf("write train = %q", t))
			}
		}
	}
	if slices.Equal(e.Model.Train, []string{"lora"}) && len(e.Model.LoRA.Targets) == 0 {
		r("model.lora.targets", "an adapter without targets trains nothing", `for example targets = ["attn.to_q", "attn.to_v"]`)
	}
	if e.Evaluate.Every > 0 && e.Evaluate.Prompts == "" {
		r("evaluate.prompts", "there are no prompts to evaluate on", "held-out prompts, not those of [rollout]")
	}
	if p := e.Evaluate.Prompts; p != "" && p == e.Rollout.Prompts {
		r("evaluate.prompts", "these are the prompts that are trained on", "a file of other prompts, so that a gain is a gain")
	}
}
