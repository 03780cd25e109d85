package experiment

import (
	"fmt"
	"math"
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

// Check reports what does not fit together in [sampler].
func (s Sampler) Check(r report) {
	solver, ok := solverNamed(s.Solver)
	outside, ok2 := solverNamed(s.Outside)
	eval, ok3 := solverNamed(s.EvalSolver)
	if !ok || !ok2 || !ok3 {
		return // reported with its name
	}
	s.checkLadder(r, []solverAt{{"solver", solver}, {"outside", outside}, {"eval_solver", eval}})
	switch {
	case outside.Draws && s.Outside != s.Solver:
		r("outside", fmt.Sprintf("%s draws noise, and steps outside of the window do not", s.Outside), `write outside = "euler", or the name of the solver to use it for all steps`)
	case outside.Whole && s.Window.Kind != "" && solver.Draws:
		r("outside", fmt.Sprintf("%s must take every step of a trajectory, and the window's are taken by %s", s.Outside, s.Solver), `write outside = "euler"; eval_solver may be any`)
	}
	if solver.Whole && solver.Name.Name == "heun" && s.Schedule.Kind != "heun" {
		r("schedule.kind", "heun takes two calls a step, and needs their times", `write schedule = { kind = "heun" }`)
	}
	if s.Solver == "cps" && s.Noise > 1 {
		r("noise", fmt.Sprintf("cps draws a share of each step's noise, sin(eta·π/2), and %v is above 1", s.Noise), "0.8 is what Flow-CPS uses")
	} else {
		s.checkRows(r, solver)
	}
	if s.NoiseLimit > 0 && s.Solver != "flow-sde" {
		r("noise_limit", fmt.Sprintf("%s has no limit", s.Solver), `only solver = "flow-sde" has`)
	}
	s.checkWindow(r)
	s.checkFlash(r, solver)
	s.checkTree(r, solver)
}

type solverAt struct {
	key    string
	solver Solver
}

// checkLadder: variance-preserving solvers and schedules belong together.
func (s Sampler) checkLadder(r report, solvers []solverAt) {
	i := slices.IndexFunc(Schedules(), func(k ScheduleKind) bool { return k.Name.Name == s.Schedule.Kind })
	if i < 0 {
		return
	}
	kind := Schedules()[i]
	for _, at := range solvers {
		switch {
		case at.solver.Ladder && !kind.Ladder:
			r(at.key, fmt.Sprintf("%s is for variance-preserving models, and the schedule %q is for flows", at.solver.Name.Name, s.Schedule.Kind), `write schedule = { kind = "ddpm" }, or a solver for flows`)
		case !at.solver.Ladder && kind.Ladder:
			r(at.key, fmt.Sprintf("%s is for flows, and the schedule \"ddpm\" is for variance-preserving models", at.solver.Name.Name), `write "ddim" or "ddpm" here, or another schedule`)
		}
	}
	if _, err := s.schedule(s.Steps); err != nil {
		r("steps", err.Error(), "")
	}
}

// checkRows: a solver's coefficients must be numbers. Where the noise is more than
// a step has to give, they are roots of negative ones.
func (s Sampler) checkRows(r report, solver Solver) {
	schedule, err := s.schedule(s.Steps)
	if err != nil || solver.Ladder != (schedule.Alpha != nil) || solver.Name.Name == "heun" {
		return // reported
	}
	row := solver.make(s)
	for step := range schedule.Steps() {
		one := row(schedule, step)
		for _, c := range slices.Concat(one.Next.X, one.Next.Out, one.Next.Y, []float64{one.Noise}) {
			if math.IsNaN(c) || math.IsInf(c, 0) {
				r("noise", fmt.Sprintf("%v is more noise than step %d of %s has", s.Noise, step, s.Solver), "a smaller one")
				return
			}
		}
	}
}

// mostIterations bounds what a window counts in.
const mostIterations = 1e9

// checkWindow: the window must have steps to stand on.
func (s Sampler) checkWindow(r report) {
	w := s.Window
	type limited struct {
		key   string
		value int
	}
	for _, one := range []limited{{"stride", w.Stride}, {"overlap", w.Overlap}, {"from", w.From}} {
		if one.value > s.Steps {
			r("window."+one.key, fmt.Sprintf("%d steps are more than the sampler's %d", one.value, s.Steps), "")
			return
		}
	}
	for _, one := range []limited{{"every", w.Every}, {"min_every", w.MinEvery}, {"max_every", w.MaxEvery}, {"decay_from", w.DecayFrom}} {
		if one.value > mostIterations {
			r("window."+one.key, fmt.Sprintf("%d is too large", one.value), "no run has that many iterations")
			return
		}
	}
	if w.Drop >= s.Steps {
		r("window.drop", fmt.Sprintf("leaves no step of %d", s.Steps), "drop is the number of last steps that are never trained, usually 1")
		return
	}
	switch last := s.Steps - w.Drop; w.Kind {
	case "random", "sliding", "frozen":
		if w.Size > last || w.From+w.Size > last {
			r("window.size", fmt.Sprintf("%d steps from step %d on do not fit into the first %d of %d", w.Size, w.From, last, s.Steps), "a smaller size, a smaller drop, or more steps")
		}
	case "fraction", "range", "subset":
		if steps := w.Steps(s.Steps, 0, func(int) int { return 0 }); len(steps) == 0 {
			r("window.kind", fmt.Sprintf("the window holds none of %d steps", s.Steps), "a larger share, or more steps")
		}
	}
}

// checkFlash: the compressed tail follows a window of neighbours.
func (s Sampler) checkFlash(r report, solver Solver) {
	if s.Flash == nil {
		return
	}
	switch {
	case s.Window.Kind == "subset":
		r("flash", "a compressed tail follows the window, and the steps of a subset lie anywhere", `write window = { kind = "sliding", ... }, or leave flash out`)
	case solver.Ladder:
		r("flash", fmt.Sprintf("the tail is solved for flows, and %s is not for them", s.Solver), "leave flash out")
	case s.Tree != nil:
		r("flash", "a tree's branches are solved step by step, without a compressed tail", "leave flash or tree out")
	}
}

// checkTree: what branches must draw.
func (s Sampler) checkTree(r report, solver Solver) {
	if s.Tree == nil {
		return
	}
	if !solver.Draws {
		r("tree", fmt.Sprintf("%s draws nothing: all children of a split would be equal", s.Solver), `a solver that draws, such as "dance"`)
	}
	if solver.History {
		r("tree", fmt.Sprintf("%s looks at steps before the last, which a branch shares with others", s.Solver), `a solver of one step, such as "dance"`)
	}
	if len(s.Tree.Splits) == 0 {
		r("tree.splits", "a tree needs steps to branch at", "BranchGRPO uses [0, 3, 6, 9]")
	}
	for _, p := range s.Tree.Splits {
		if p >= s.Steps {
			r("tree.splits", fmt.Sprintf("step %d is not one of %d, which begin at 0", p, s.Steps), "")
			return
		}
	}
	if !slices.IsSorted(s.Tree.Splits) || len(slices.Compact(slices.Clone(s.Tree.Splits))) < len(s.Tree.Splits) {
		r("tree.splits", "the steps are not in ascending order, each once", "")
	}
	if n := s.Tree.Leaves(); n > 4096 {
		r("tree.splits", fmt.Sprintf("one sample would become %d", n), "fewer splits or children")
	}
	if s.Tree.Prune.Width != "none" && s.Tree.Prune.Ratio == 0 {
		r("tree.prune.ratio", "nothing would be kept", "0.5 keeps half of the late edges")
	}
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
	case alone && slices.Contains([]string{"group", "dr", "max-group", "leave-one-out", "global", "win-rate", "ends", "best", "pass-at-k", "diversity"}, e.Advantage.Estimator):
		r("rollout.group", fmt.Sprintf("estimator %q compares the samples of a prompt, and there is one", e.Advantage.Estimator), `a group of 2 or more, or estimator = "history" or "batch"`)
	case pairs && e.Advantage.Estimator != "ends":
		r("advantage.estimator|loss.objective", fmt.Sprintf("objective %q takes the best and the worst of a group", e.Loss.Objective), `write estimator = "ends"`)
	case e.Sampler.Tree != nil && e.Episode == nil && e.Rollout.Group != e.Sampler.Tree.Leaves() && len(e.Sampler.Tree.Splits) > 0:
		r("rollout.group|sampler.tree", fmt.Sprintf("a tree with %d splits has %d leaves, not %d", len(e.Sampler.Tree.Splits), e.Sampler.Tree.Leaves(), e.Rollout.Group), "a group is the leaves of one tree")
	}
}

// checkRewards: something to train on, each name once.
func (e *Experiment) checkRewards(r report) {
	if len(e.Rewards) == 0 {
		if !e.written("reward") {
			r("reward", "there is none: nothing says which picture is better", "write [[reward]] with a name, such as \"aesthetic\"")
		}
		return
	}
	seen := map[string]bool{}
	trained := false
	for i, w := range e.Rewards {
		key := fmt.Sprintf("reward[%d].", i)
		if seen[w.Name] && w.Name != "" {
			r(key+"name", fmt.Sprintf("%q is there twice", w.Name), "one [[reward]] with the sum of both weights")
		}
		seen[w.Name] = true
		trained = trained || w.Train
		switch {
		case w.Train && w.Weight == 0 && w.Name != "":
			r(key+"weight", "a reward of weight 0 changes nothing", "write train = false to measure it only")
		case w.Name == "http" && w.URL == "":
			r(key+"name", "an http reward needs a url", `for example url = "http://localhost:8080"`)
		case w.Name == "exec" && w.Path == "":
			r(key+"name", "an exec reward needs the path of a program", "")
		case w.KeyEnv != "" && strings.ContainsAny(w.KeyEnv, " =-"):
			r(key+"key_env", "this is not the name of an environment variable", "write the variable's name here, and never the key itself")
		}
	}
	if !trained {
		r("reward", "all are gold (train = false): there is nothing to train on", "leave train out of one of them")
	}
}

// checkMonitors: they watch something that exists.
func (e *Experiment) checkMonitors(r report) {
	var names []string
	for _, w := range e.Rewards {
		kind := "reward."
		if !w.Train {
			kind = "gold."
		}
		names = append(names, kind+w.Name)
	}
	for i, m := range e.Monitors {
		key := fmt.Sprintf("monitor[%d].", i)
		isReward := strings.HasPrefix(m.Watch, "reward.") || strings.HasPrefix(m.Watch, "gold.")
		if isReward && !slices.Contains(names, m.Watch) {
			hint := "what can be watched: " + strings.Join(names, ", ")
			if n := config.Near(m.Watch, names); n != "" {
				hint = fmt.Sprintf("did you mean %q?", n)
			}
			r(key+"watch", fmt.Sprintf("no reward is called %q", m.Watch), hint)
		}
		if m.FallsBelow == nil && m.RisesAbove == nil && m.Watch != "" {
			r(key+"watch", "nothing says when", "write falls_below or rises_above")
		}
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
