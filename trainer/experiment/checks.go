package experiment

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/kinds"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Checks over several values. Everything here is refused; an unwise setting is a warning of the plan.

// report takes a key, the problem, and the remedy.
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
		Section{"rewards", fmt.Sprintf("reward[%d].name", i), named(kinds.All(), func(k rewards.Kind) Name { return Name{Name: k.Name, Card: k.Card} })}.check(w.Name, r)
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

// one is the kind of the section's names.
func (s Section) one() string {
	switch s.Name {
	case "advantages":
		return "estimator"
	case "kls":
		return "estimator of KL"
	}
	return strings.TrimSuffix(s.Name, "s")
}

// checkModel: the trained part.
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
	switch g := e.Evaluate.Guided; {
	case g > 0 && e.Episode != nil:
		r("evaluate.guided", "a model that speaks has no guidance", "leave it out")
	case g > 0 && g == e.Sampler.Guidance:
		r("evaluate.guided", fmt.Sprintf("everything is measured with a guidance of %v already", g), "another guidance, or leave it out")
	case g > 0 && e.Evaluate.Prompts == "":
		r("evaluate.guided", "there are no prompts to evaluate on", "evaluate.prompts")
	}
}

// Sampler, estimator and objective against each other.

// checkSampling: sampler against objective.
func (e *Experiment) checkSampling(r report) {
	solver, ok := sde.SolverNamed(e.Sampler.Solver)
	o := e.Kind()
	if !ok || o.Learns == loss.Nothing {
		return
	}
	other := `a solver that draws, such as "flow-sde", or an objective on noised samples, such as "nft"`
	switch {
	case o.OfTokens():
		r("loss.objective|loss.preset|preset", fmt.Sprintf("objective %q is of tokens, and a sampler of pictures has none", e.Loss.Objective), `write objective = "clip", or [episode] for a language model`)
	case o.Has(loss.Ratio) && !solver.Stochastic:
		r("sampler.solver|loss.objective", fmt.Sprintf("%s draws nothing, and objective %q compares probabilities", e.Sampler.Solver, e.Loss.Objective), other)
	case o.Has(loss.Ratio) && !solver.Density:
		r("sampler.solver|loss.objective", fmt.Sprintf("%s has no log-probability, and objective %q needs one", e.Sampler.Solver, e.Loss.Objective), other)
	case o.Has(loss.Ratio) && e.Sampler.Noise == 0 && !solver.Ancestral:
		r("sampler.noise|sampler.solver|loss.objective", fmt.Sprintf("without noise %s is deterministic, and objective %q compares probabilities", e.Sampler.Solver, e.Loss.Objective), "0.7 is what Flow-GRPO uses with flow-sde")
	case o.Has(loss.Ratio) && e.Sampler.Flash != nil && e.Sampler.Flash.All:
		r("sampler.flash.all", fmt.Sprintf("with every step solved by a deterministic method, objective %q has nothing to compare", e.Loss.Objective), "leave it out: only the tail is compressed then")
	case o.Has(loss.Ratio) && e.Loss.ClipRange == 0 && has(o.Options, e.Loss.ClipBounds):
		r("loss.clip_range", "a range of 0 lets no sample move", "1e-4 is what Flow-GRPO uses")
	case o.Has(loss.Ratio):
		e.checkSilent(r)
	}
	e.checkPictures(r, o, solver)
	e.checkGradient(r, solver)
	if e.Loss.Correction.On() {
		r("loss.correction|loss.correction.weights|loss.correction.reject", "a sampler of pictures rolls with the trainer's own kernels: its ratio is 1, and nothing is to be corrected", "leave it out; [episode] has tokens, which are corrected")
	}
	if e.Loss.Rectify && solver.Kept == nil {
		r("loss.rectify", fmt.Sprintf("what a step keeps of the gradient is known of flow-sde's and flow-wan's, and not of %s", e.Sampler.Solver), "leave it out")
	}
	if e.Loss.NoiseScale && !solver.UnitScale {
		r("loss.noise_scale", fmt.Sprintf("LongCat's weight of a step's noise is flow-sde's, and %s has another", e.Sampler.Solver), "leave it out")
	}
}

// checkTimes: the times that samples are noised to.
func (e *Experiment) checkTimes(r report, solver sde.Solver) {
	l := e.Loss
	switch first, end := l.Range[0], l.Range[1]; {
	case solver.VP && l.Draw == "permutation":
		r("loss.time_draw", "a ladder's times are shares of its thousand training steps, and not the sampler's", `leave it out`)
	case first == 0 && end == 0:
	case first >= end:
		r("loss.time_range", fmt.Sprintf("no step lies from %d to before %d", first, end), "the first step, counted from 0, and the one after the last, as in [1, 12]")
	case end > e.Sampler.Steps:
		r("loss.time_range|sampler.steps", fmt.Sprintf("the sampler has %d steps, and times end before step %d", e.Sampler.Steps, end), fmt.Sprintf("at most %d", e.Sampler.Steps))
	}
}

// checkPictures: estimator, tree and KL against the objective.
func (e *Experiment) checkPictures(r report, o loss.Form, solver sde.Solver) {
	tree, kl := e.Sampler.Tree, e.Loss.KL
	if o.OfFinished() && !solver.Stochastic && e.Rollout.SharedNoise && e.Rollout.Group > 1 && e.Rollout.TextNoise == nil {
		r("rollout.shared_noise|sampler.solver|loss.objective", fmt.Sprintf("%s draws nothing, so that the samples of a group that start from one noise are all the same", e.Sampler.Solver), "write shared_noise = false, or a solver that draws")
	}
	if e.Rollout.TextNoise != nil && o.Learns != loss.NoisedSamples {
		r("rollout.text_noise|loss.objective", fmt.Sprintf("objective %q compares steps with those of the roll, whose texts have noise", e.Loss.Objective), `an objective of finished samples, such as "nft", or no text_noise`)
	}
	if o.Has(loss.Flow) && solver.VP {
		r("loss.objective|loss.preset|preset", fmt.Sprintf("objective %q is defined by a flow's velocities, and %s is for a variance-preserving ladder", e.Loss.Objective, e.Sampler.Solver), `on a ladder: objective = "dpo", "dgpo", "rwr" or "sft" on noised samples, or "clip"`)
	}
	if o.OfFinished() {
		e.checkTimes(r, solver)
	}
	if o.OfFinished() && tree != nil {
		r("sampler.tree|loss.objective", fmt.Sprintf("objective %q judges final samples only, and a tree's credit lies on its steps", e.Loss.Objective), `objective = "clip", or no tree`)
	}
	if o.OfFinished() && o.Has(loss.Advantages) && kl.Weight > 0 && kl.Estimator != "velocity" {
		r("loss.kl.estimator|loss.kl|loss.objective", fmt.Sprintf("objective %q has outputs at noised samples, and no transitions", e.Loss.Objective), `write estimator = "velocity"`)
	}
	if o.Has(loss.Ratio) && kl.Weight > 0 && kl.Estimator == "velocity" && solver.VP {
		r("loss.kl.estimator|loss.kl", fmt.Sprintf("%s's outputs are not velocities", e.Sampler.Solver), `write estimator = "mean"`)
	}
	switch layers := tree != nil && !tree.Of().Trunk; {
	case layers && !e.Comparison().Edges:
		r("advantage.estimator|sampler.tree", "a tree's nodes are compared by depth", `write estimator = "tree"`)
	case tree == nil && e.Comparison().Edges:
		r("advantage.estimator|sampler.tree", "there is no tree", `write sampler.tree = { splits = [0, 3, 6, 9] }, or estimator = "group"`)
	case tree != nil && !layers && !e.Comparison().Branches():
		r("advantage.estimator|sampler.tree", "branches of one step are compared with each other, as groups", `write estimator = "group"`)
	}
	if tree != nil && e.Advantage.How == "gdpo" {
		r("advantage.combine|sampler.tree", "a tree's advantages are those of its edges, and gdpo compares samples once more", `write combine = "advantages"`)
	}
	switch k := e.Comparison(); {
	case k.ValueHead:
		r("advantage.estimator|advantage.preset|preset", "gae needs a value network, which learns what every decision will come to, and pictures have none", `write estimator = "reinforce++", which is the same without it, or "group"`)
	case k.TokensOnly:
		r("advantage.estimator|advantage.preset|preset", fmt.Sprintf("%s looks at tokens, and a sampler of pictures has none", e.Advantage.Estimator), `write estimator = "group", or [episode] for a language model`)
	}
}

// checkSilent: where a step draws nothing there is no choice to judge.
func (e *Experiment) checkSilent(r report) {
	schedule, rows, err := e.Sampler.rows(e.drawn(e.Sampler.Window.Reach(e.Sampler.Steps)))
	if err != nil || !e.Sampler.fits(schedule) {
		return // reported
	}
	reach := e.trained(e.Sampler.Window.Reach(e.Sampler.Steps))
	silent := slices.DeleteFunc(slices.Clone(reach), func(step int) bool {
		return step >= len(rows) || rows[step].Stochastic() && rows[step].Density != sde.None
	})
	if len(silent) == 0 {
		return
	}
	hint := "a smaller window"
	if len(silent) == 1 && silent[0] == e.Sampler.Steps-1 {
		hint = "write drop = 1: the last step is left out then"
	}
	r("sampler.window.drop|sampler.window.kind|sampler.window|sampler.solver", fmt.Sprintf("step %d is trained, and %s draws nothing there: its probability cannot change", silent[0], e.Sampler.Solver), hint)
}

// checkTokens: a language model's episodes have tokens, and neither steps nor final
// pictures that could be noised.
func (e *Experiment) checkTokens(r report) {
	o, k := e.Kind(), e.Comparison()
	how := k.Credit
	if how == "" {
		how = "spread"
	}
	switch {
	case o.Learns != loss.Nothing && !o.OfTokens():
		r("loss.objective|loss.preset|preset", fmt.Sprintf("objective %q is of pictures, and an episode has tokens", e.Loss.Objective), `write objective = "clip", "gspo", "cispo", ...`)
	case k.Edges:
		r("advantage.estimator", "an episode has no tree", `write estimator = "group"`)
	case e.Loss.KL.Weight > 0 && (e.Loss.KL.Estimator == "mean" || e.Loss.KL.Estimator == "velocity"):
		r("loss.kl.estimator|loss.kl|loss.kl.weight", "tokens have log-probabilities, and no means", `write estimator = "k3"`)
	case e.Loss.Ratio != "plain":
		r("loss.ratio", fmt.Sprintf("ratio %q takes out the drift of a sampler's steps, and an episode has none", e.Loss.Ratio), `leave it out, or write ratio = "plain"`)
	case e.Advantage.Turns != nil && how != "spread":
		r("advantage.turns|advantage.estimator", fmt.Sprintf("estimator %q gives every token the rewards that come behind it, and turns have their own already", e.Advantage.Estimator), `leave it out, or write estimator = "group"`)
	case k.Name != "" && e.Advantage.Credit.How != how:
		r("advantage.credit.how", fmt.Sprintf("estimator %q has credit %q", e.Advantage.Estimator, how), "leave it out: the estimator's name sets it")
	}
}

// checkLoss: the options of the objective against each other.
func (e *Experiment) checkLoss(r report) {
	switch o := e.Kind(); {
	case e.Episode != nil && o.OfTokens():
		e.Loss.Tokens().Check(under("loss", r))
	case e.Episode == nil && o.Check != nil:
		o.Check(e.Loss.Options, under("loss", r))
	}
}

// checkGroups: who is compared with whom.
func (e *Experiment) checkGroups(r report) {
	o, k, tree := e.Kind(), e.Comparison(), e.Sampler.Tree
	group, alone := e.Rollout.Group, e.Rollout.Group == 1
	torn, mend := "", ""
	if tree != nil && e.Episode == nil {
		torn, mend = tree.Of().Group(*tree, group)
	}
	switch {
	case alone && o.Has(loss.SamplePairs):
		r("rollout.group|loss.objective", fmt.Sprintf("objective %q needs a better and a worse sample of each prompt", e.Loss.Objective), "a group of 2 or more")
	case alone && e.Advantage.Singleton == "zero" && k.Company == advantage.InGroup && o.Has(loss.Advantages) && !k.Alone:
		r("rollout.group", fmt.Sprintf("estimator %q compares the samples of a prompt, and there is one: its advantage is 0", e.Advantage.Estimator), `a group of 2 or more, or estimator = "history" or "batch", or singleton = "raw"`)
	case o.Has(loss.SamplePairs) && e.Optim.Split && e.Optim.Updates > 1:
		r("optim.split|loss.objective", "samples are shared out among the updates, and a pair would be torn apart", "split = false: every update sees all pairs")
	case o.Has(loss.SamplePairs) && !k.Ends:
		r("advantage.estimator|loss.objective", fmt.Sprintf("objective %q takes the best and the worst of a group", e.Loss.Objective), `write estimator = "ends"`)
	case torn != "":
		r("rollout.group|sampler.tree", torn, mend)
	case k.Members != nil && k.Members(e.Advantage.Settings) > group:
		r("advantage.k|rollout.group", fmt.Sprintf("there are %d samples in a group: nobody is the best of %d", group, k.Members(e.Advantage.Settings)), "a smaller k, or a larger group")
	case e.Advantage.Keep != nil && e.Advantage.Keep.Of > group:
		r("advantage.keep.of", fmt.Sprintf("there are %d samples in a group", group), "fewer, or a larger group")
	case e.Advantage.BestOf == 0 && e.Advantage.BestBy != "advantage":
		r("advantage.best_by", "best_of = 0 keeps all samples", "say with best_of how many are kept")
	case e.Advantage.BestOf > group:
		r("advantage.best_of", fmt.Sprintf("there are %d samples in a group", group), "fewer, or a larger group")
	case e.Advantage.BestOf > 0 && (tree != nil || o.Has(loss.SamplePairs)):
		r("advantage.best_of", "samples of a tree are left out by sampler.tree.prune, and pairs are the best and the worst already", "leave it out")
	}
}

// checkTeacher: a teacher that is named is used, and one that is used is named.
func (e *Experiment) checkTeacher(r report) {
	asked := false
	for _, at := range e.EachStage() {
		asks := at.Loss.KL.Reference == "teacher"
		asked = asked || asks
		led := at.Loss.KL.Guidance > 0 && at.Loss.KL.Guidance != at.Sampler.Guidance
		switch {
		case at.Loss.KL.Guidance > 0 && (at.Kind().Has(loss.Reference) || !slices.Contains([]string{"base", "stage", "teacher"}, at.Loss.KL.Reference)):
			r("loss.kl.guidance", "the reference is no model that could be asked with a guidance of its own", `reference = "base", "stage" or "teacher", and an objective that has a KL`)
		case led && at.Loss.KL.Weight == 0:
			r("loss.kl.weight|loss.kl", "at a weight of 0 the reference is not asked", "weight = 1")
		case at.Kind().Has(loss.Teacher) && at.Episode == nil && at.Loss.KL.Reference == "base" && !led:
			r("loss.kl.reference|loss.objective", "the teacher is the model itself, so that there is nothing to learn", `loss.kl.guidance = 4: the model with guidance; or reference = "teacher"`)
		case asks && e.Model.Teacher == "":
			r("loss.kl.reference|loss.objective", "no teacher is named", `[model] teacher = "runs/maps" or another adapter or folder`)
		case asks && at.Loss.KL.Weight == 0:
			r("loss.kl.weight|loss.kl", "at a weight of 0 the teacher is not asked", "weight = 1")
		default:
			continue
		}
		return
	}
	if e.Model.Teacher != "" && !asked {
		r("model.teacher", "no loss asks the teacher", `loss.kl = { weight = 1, reference = "teacher" }, or objective = "distill"`)
	}
}

// checkAverages: who reads a moving average needs one.
func (e *Experiment) checkAverages(r report) {
	l, o := e.Loss, e.Kind()
	if e.Optim.EMA > 0 {
		return
	}
	hint := "write optim.ema = 0.9, or leave this out"
	if l.KL.Reference == "ema" && (l.KL.Weight > 0 || o.Has(loss.Reference)) {
		r("loss.kl.reference|loss.kl", "there is no moving average of the weights", hint)
	}
	if l.KL.EMAWeight > 0 && o.Has(loss.AverageIfWeighted) {
		r("loss.kl.ema_weight|loss.kl", "there is no moving average of the weights", hint)
	}
}
