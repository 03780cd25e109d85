package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Sampler is [sampler]: the steps of the window are taken by Solver, all others by
// Outside, evaluations by EvalSolver. An objective that looks at final samples has no
// window: Solver takes every step.
type Sampler struct {
	Preset     string `toml:"preset" doc:"settings of a published system, for this table"`
	Solver     string `toml:"solver" doc:"of the steps that are trained; see darkroom list solvers"`
	Outside    string `toml:"outside" doc:"of the steps that are not"`
	EvalSolver string `toml:"eval_solver" doc:"of evaluations"`
	Steps      int    `toml:"steps" range:"[1,1000]" doc:"of a rollout"`
	EvalSteps  int    `toml:"eval_steps" range:"[1,1000]" doc:"of an evaluation"`
	sde.SolverOptions
	Guidance float64           `toml:"guidance" range:"[0,100]" doc:"scale; 1 or less samples without"`
	Most     float64           `toml:"cfg_normalization" range:"[0,100]" doc:"with guidance_kind = \"cfg\": the largest length of the combined output over the conditional one's (Z-Image); 0: any length"`
	Second   float64           `toml:"guidance_2" range:"[0,100]" doc:"scale of a model's second network (Wan 2.2's A14B); 0: there is one network"`
	Width    int               `toml:"width" range:"[0,16384]" doc:"pixels of a picture, with height; 0: what the model's folder says"`
	Height   int               `toml:"height" range:"[0,16384]" doc:"pixels of a picture, with width"`
	Frames   int               `toml:"frames" range:"[0,4096]" doc:"of a clip; 1: a picture. A model of clips needs it"`
	Sizes    []Size            `toml:"sizes" range:"[1,16384]" doc:"[[width, height], ...] of which one is drawn for each prompt of an iteration; a prompt's own size comes first"`
	Negative string            `toml:"negative" doc:"the text that guidance by two outputs leads away from; a prompt's own comes first"`
	GuideBy  string            `toml:"guidance_kind" enum:"cfg,cfg-norm,embedded" doc:"two outputs combined, the same with the norm kept, or an input of the network"`
	Schedule Schedule          `toml:"schedule"`
	Window   sde.WindowOptions `toml:"window"`
	Flash    *Flash            `toml:"flash" doc:"a compressed tail after the window (MixGRPO-Flash)"`
	Tree     *sde.TreeOptions  `toml:"tree" doc:"samples that branch (BranchGRPO, TempFlow)"`
}

func defaultSampler() Sampler {
	return Sampler{
		Solver: "flow-sde", Outside: "euler", EvalSolver: "euler", Steps: 10, EvalSteps: 28, SolverOptions: sde.DefaultSolverOptions(),
		Guidance: 4.5, GuideBy: "cfg",
		Schedule: Schedule{Kind: "shifted", GridOptions: sde.DefaultGridOptions()},
		Window:   sde.DefaultWindow(),
	}
}

// Schedule is the times that the sampler stops at.
type Schedule struct {
	Kind string `toml:"kind" doc:"see darkroom list schedules"`
	sde.GridOptions

	own int // tokens of a picture, where the file says none: Settings.Of
}

// Flash is a compressed tail.
type Flash struct {
	Ratio float64 `toml:"ratio" range:"(0,1]" doc:"share of the tail's steps that remain"`
	Order int     `toml:"order" range:"[1,3]" doc:"of the multistep solver"`
	All   bool    `toml:"all" doc:"solve every step so, and none by the window's solver"`
}

// SetDefaults is MixGRPO-Flash's.
func (f *Flash) SetDefaults() { *f = Flash{Ratio: 0.4, Order: 2} }

// rows are the steps of an iteration's sampler, and its schedule.
func (s Sampler) rows(window []int) (sde.Schedule, []sde.Row, error) {
	schedule, err := s.schedule(s.Steps)
	if err != nil {
		return schedule, nil, err
	}
	inside, err := s.row(s.Solver)
	if err != nil {
		return schedule, nil, err
	}
	outside, err := s.row(s.Outside)
	if err != nil {
		return schedule, nil, err
	}
	p := sde.Plan{Window: window, Inside: inside, Outside: outside}
	if f := s.Flash; f != nil {
		grid, _ := sde.GridNamed(s.Schedule.Kind) // its schedule was built
		p.Flash = &sde.Flash{Ratio: f.Ratio, Shift: grid.Shifted(s.Schedule.options()), All: f.All, Solver: sde.Multistep{Order: f.Order, LowerOrderFinal: true}, Whole: grid.Whole}
	}
	schedule, rows := p.Rows(schedule)
	return schedule, rows, nil
}

// options are the schedule's, with the tokens of the picture where the file says none.
func (s Schedule) options() sde.GridOptions {
	o := s.GridOptions
	if o.Tokens == 0 {
		o.Tokens = s.own
	}
	return o
}

func (s Sampler) schedule(steps int) (sde.Schedule, error) {
	grid, ok := sde.GridNamed(s.Schedule.Kind)
	if !ok {
		return sde.Schedule{}, fmt.Errorf("no schedule is named %q", s.Schedule.Kind)
	}
	return grid.Build(s.Schedule.options(), steps)
}

func (s Sampler) row(name string) (func(sde.Schedule, int) sde.Row, error) {
	solver, ok := sde.SolverNamed(name)
	if !ok {
		return nil, fmt.Errorf("no solver is named %q", name)
	}
	return solver.Build(s.SolverOptions), nil
}

// How large pictures are. Of all that may say it, the first counts:
//
//	a prompt's own width and height, [evaluate] width and height for held-out ones, [sampler] width and
//	height, [sampler] sizes, of which one is drawn for each prompt of an iteration, the model's folder

// A Size is a picture's width and height in pixels.
type Size [2]int

func (s Size) String() string { return fmt.Sprintf("%d x %d", s[0], s[1]) }

// PictureSizes are those of an iteration whose prompts name none; empty: the size of the model.
func (it Settings) PictureSizes() []Size {
	switch s, v := it.Sampler, it.Experiment.Evaluate; {
	case it.Evaluates && v.Width > 0:
		return []Size{{v.Width, v.Height}}
	case s.Width > 0:
		return []Size{{s.Width, s.Height}}
	default:
		return s.Sizes
	}
}

// Frames are those of an iteration's clips; 0 and 1: it makes pictures.
func (it Settings) Frames() int {
	if n := it.Experiment.Evaluate.Frames; it.Evaluates && n > 0 {
		return n
	}
	return it.Sampler.Frames
}

// Makes is the modalities of the experiment's samples, in training and in evaluations: "pictures", "clips" or
// "replies".
func (e *Experiment) Makes() (all []string) {
	if e.Episode != nil {
		return []string{"replies"}
	}
	for _, held := range []bool{false, true} {
		if held && e.Evaluate.Prompts == "" {
			continue
		}
		made := "pictures"
		if (Settings{Experiment: e, Evaluates: held}).Frames() > 1 {
			made = "clips"
		}
		if !slices.Contains(all, made) {
			all = append(all, made)
		}
	}
	return all
}

// checkClips: settings that clips cannot be learned with.
func (e *Experiment) checkClips(r report) {
	if !slices.Contains(e.Makes(), "clips") {
		return
	}
	switch {
	case !e.Kind().Has(loss.Advantages) && e.Kind().Steps == nil:
		r("sampler.frames|loss.objective", fmt.Sprintf("objective %q follows a reward's gradient, which rewards of clips do not give", e.Loss.Objective), "another objective, or frames = 1")
	case e.Rollout.Offline:
		r("sampler.frames|rollout.offline", "what is learned from offline is pictures", "leave offline out, or write frames = 1")
	}
}

// checkSizes: one way to say how large pictures are, and all of it.
func (s Sampler) checkSizes(r report) {
	if (s.Width == 0) != (s.Height == 0) {
		r("width|height", "a picture needs both a width and a height", "write both, or neither")
	}
	if s.Width > 0 && len(s.Sizes) > 0 {
		r("sizes|width", "pictures have one size by width and height, and several by sizes", "leave one of them out; in a stage, sizes = [] or width = 0 and height = 0 does")
	}
}

// Of are the settings for pictures of a number of tokens, on which a dynamic schedule depends.
func (it Settings) Of(tokens int) (Settings, error) {
	if s := it.Sampler.Schedule; s.Kind != "dynamic" || s.Tokens > 0 || s.own == tokens {
		return it, nil
	}
	e := *it.Experiment
	e.Sampler.Schedule.own = tokens
	it.Experiment = &e
	var err error
	if it.Evaluates {
		it.Schedule, it.Rows, err = e.Evaluation()
	} else {
		it.Schedule, it.Rows, err = e.Sampler.rows(e.drawn(it.Window))
	}
	return it, err
}

// Show says how many tokens the first size of one of EachStage has, for the plan's rows.
func (e *Experiment) Show(turn, tokens int) {
	if len(e.Stages) > 0 {
		e.Stages[turn].Sampler.Schedule.own = tokens
	}
	if turn == 0 {
		e.Sampler.Schedule.own = tokens
	}
}

// sizeWords say how large pictures are, for the plan; "": as the model's folder says.
func (e *Experiment) sizeWords() string {
	words := func(all []Size) string {
		var said []string
		for _, s := range all {
			said = append(said, s.String())
		}
		if len(said) > 1 {
			return "for each prompt one of " + strings.Join(said, ", ")
		}
		return strings.Join(said, "")
	}
	of := func(it Settings) string {
		said := words(it.PictureSizes())
		if n := it.Frames(); n > 1 {
			said = strings.TrimSuffix(fmt.Sprintf("%d frames, %s", n, said), ", ")
		}
		return said
	}
	trained, held := of(Settings{Experiment: e}), of(Settings{Experiment: e, Evaluates: true})
	switch {
	case e.Evaluate.Prompts == "" || held == trained:
		return trained
	case trained == "":
		return "as the model's folder says; held out: " + held
	}
	return trained + "; held out: " + held
}

// Evaluating is how held-out samples are made, by a sampler.
func (e *Experiment) Evaluating(s Sampler) (Settings, error) {
	other := *e
	other.Sampler = s
	it := Settings{Experiment: &other, Evaluates: true}
	var err error
	it.Schedule, it.Rows, err = other.Evaluation()
	return it, err
}

// Contradictions in [sampler].

// Check reports settings of [sampler] that contradict each other.
func (s Sampler) Check(r report) {
	solver, ok := sde.SolverNamed(s.Solver)
	outside, ok2 := sde.SolverNamed(s.Outside)
	eval, ok3 := sde.SolverNamed(s.EvalSolver)
	if !ok || !ok2 || !ok3 {
		return // reported with its name
	}
	s.checkLadder(r, []solverAt{{"solver", solver}, {"outside", outside}, {"eval_solver", eval}})
	switch {
	case outside.Stochastic && s.Outside != s.Solver:
		r("outside", fmt.Sprintf("%s draws noise, and steps outside of the window do not", s.Outside), `write outside = "euler", or the name of the solver to use it for all steps`)
	case outside.Whole && s.Window.Kind != "" && solver.Stochastic:
		r("outside", fmt.Sprintf("%s must take every step of a trajectory, and the window's are taken by %s", s.Outside, s.Solver), `write outside = "euler"; eval_solver may be any`)
	}
	if s.checkCalls(r, solver) {
		return // its rows would be reported again, as noise
	}
	clean := true
	if solver.Check != nil {
		solver.Check(s.SolverOptions, func(key, problem, hint string) {
			clean = false
			r(key, problem, hint)
		})
	}
	if clean {
		s.checkRows(r, solver)
	}
	if s.NoiseLimit > 0 && !has(solver.Options, s.FlowSDEOptions) {
		r("noise_limit", fmt.Sprintf("%s has no limit", s.Solver), fmt.Sprintf("only solver = %s has", quotedList(solversWith(s.FlowSDEOptions))))
	}
	s.checkSizes(r)
	s.checkFlash(r, solver)
	s.checkOne(r)
	s.checkTree(r, solver)
}

type solverAt struct {
	key    string
	solver sde.Solver
}

// checkLadder: variance-preserving solvers and schedules belong together.
func (s Sampler) checkLadder(r report, solvers []solverAt) {
	kind, ok := sde.GridNamed(s.Schedule.Kind)
	if !ok {
		return
	}
	for _, at := range solvers {
		switch {
		case at.solver.VP && !kind.VP:
			r(at.key, fmt.Sprintf("%s is for variance-preserving models, and the schedule %q is for flows", at.solver.Name, s.Schedule.Kind), `write schedule = { kind = "ddpm" }, or a solver for flows`)
		case !at.solver.VP && kind.VP:
			r(at.key, fmt.Sprintf("%s is for flows, and the schedule \"ddpm\" is for variance-preserving models", at.solver.Name), `write "ddim" or "ddpm" here, or another schedule`)
		}
	}
	if _, err := s.schedule(s.Steps); err != nil {
		r("steps", err.Error(), "")
	}
}

// checkCalls: a solver of several calls a step needs a schedule with their times, and no other solver takes that.
func (s Sampler) checkCalls(r report, solver sde.Solver) (wrong bool) {
	grid, ok := sde.GridNamed(s.Schedule.Kind)
	switch {
	case solver.Calls > 1 && (!ok || grid.Calls != solver.Calls):
		i := slices.IndexFunc(sde.Grids(), func(g sde.Grid) bool { return g.Calls == solver.Calls })
		r("schedule.kind", fmt.Sprintf("%s takes two calls a step, and needs their times", s.Solver), fmt.Sprintf("write schedule = { kind = %q }", sde.Grids()[i].Name))
	case ok && grid.Calls > 1 && solver.Calls != grid.Calls:
		i := slices.IndexFunc(sde.Solvers(), func(k sde.Solver) bool { return k.Calls == grid.Calls })
		r("schedule.kind", fmt.Sprintf("%s lists every time twice, and %s would take steps of no length", grid.Name, s.Solver), fmt.Sprintf("write schedule = { kind = \"shifted\" }, or solver = %q", sde.Solvers()[i].Name))
		return true
	}
	return false
}

// fits reports whether the solvers are for the schedule's kind of model.
func (s Sampler) fits(t sde.Schedule) bool {
	for _, name := range []string{s.Solver, s.Outside} {
		if k, ok := sde.SolverNamed(name); !ok || k.VP != (t.Alpha != nil) {
			return false
		}
	}
	return true
}

// checkRows: a solver's coefficients must be numbers. Where the noise is more than
// a step has to give, they are roots of negative ones.
func (s Sampler) checkRows(r report, solver sde.Solver) {
	schedule, err := s.schedule(s.Steps)
	if err != nil || !s.fits(schedule) || solver.Calls > 1 {
		return // reported
	}
	row := solver.Build(s.SolverOptions)
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

// mostIterations bounds a window's numbers of iterations.
const mostIterations = 1e9

// checkWindow: the window must fit the steps.
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
	switch last := s.Steps - w.Drop; {
	case w.Reads("size"):
		if w.Size > last || w.From+w.Size > last {
			room := fmt.Sprintf("%d of %d", last, s.Steps)
			if w.Drop > 0 {
				room += fmt.Sprintf(": window.drop = %d leaves out the last %d", w.Drop, w.Drop)
			}
			r("window.size", fmt.Sprintf("%d steps from step %d on do not fit into the first %s", w.Size, w.From, room), "a smaller size, a smaller drop, or more steps")
		}
	default:
		if steps := w.Steps(s.Steps, 0, func(int) int { return 0 }); len(steps) == 0 {
			r("window.kind", fmt.Sprintf("the window holds none of %d steps", s.Steps), "a larger share, or more steps")
		}
	}
}

// checkOne: samples that draw where their prompt does draw nowhere else.
func (s Sampler) checkOne(r report) {
	key, where := "one", "at one step"
	switch {
	case s.Window.Own:
		key, where = "own", "in a window of its own"
	case !s.Window.One:
		return
	}
	outside, _ := sde.SolverNamed(s.Outside)
	switch {
	case s.Tree != nil || s.Flash != nil:
		r("window."+key, fmt.Sprintf("a prompt that draws %s has no tree, and no compressed tail behind a common window", where), fmt.Sprintf("leave %s, tree or flash out", key))
	case s.Outside == s.Solver || outside.Stochastic && s.Noise > 0:
		r("outside", fmt.Sprintf("with window.%s a sample draws %s, and %s draws at the others", key, where, s.Outside), `write outside = "euler"`)
	}
}

// checkFlash: the compressed tail follows a window of neighbours.
func (s Sampler) checkFlash(r report, solver sde.Solver) {
	if s.Flash == nil {
		return
	}
	window, _ := sde.WindowNamed(s.Window.Kind)
	switch {
	case window.Scattered:
		r("flash", "a compressed tail follows the window, and the steps of a subset lie anywhere", `write window = { kind = "sliding", ... }, or leave flash out`)
	case solver.VP:
		r("flash", fmt.Sprintf("the tail is solved for flows, and %s is not for them", s.Solver), "leave flash out")
	case s.Tree != nil:
		r("flash", "a tree's branches are solved step by step, without a compressed tail", "leave flash or tree out")
	}
}

// checkTree: the draws of branches.
func (s Sampler) checkTree(r report, solver sde.Solver) {
	if s.Tree == nil {
		return
	}
	if !solver.Stochastic {
		r("tree", fmt.Sprintf("%s draws nothing: all children of a split would be equal", s.Solver), `a solver that draws, such as "dance"`)
	}
	if solver.History {
		r("tree", fmt.Sprintf("%s looks at steps before the last, which a branch shares with others", s.Solver), `a solver of one step, such as "dance"`)
	}
	if s.Tree.Of().Trunk {
		s.checkTrunk(r)
	}
	s.Tree.Check(s.Steps, under("tree", r))
}

// checkTrunk: a trunk is one path without noise, whose branches have one choice each.
func (s Sampler) checkTrunk(r report) {
	if s.Outside == s.Solver {
		r("outside", fmt.Sprintf("a trunk has no noise, and %s would draw on it", s.Outside), `write outside = "euler"`)
	}
	if w := s.Window; len(s.Tree.Splits) == 0 && w.Reads("tail") && w.Tail == "mixgrpo" {
		r("window.tail", "a trunk has branches at the steps of the window, which is empty in some iterations", `write tail = "shift"`)
	}
}

// The meaning of [sampler.tree].

// Growth is how an iteration's trees are made.
func (s Sampler) Growth(window []int) (sde.Growth, error) {
	schedule, err := s.schedule(s.Steps)
	if err != nil {
		return sde.Growth{}, err
	}
	inside, err := s.row(s.Solver)
	if err != nil {
		return sde.Growth{}, err
	}
	outside, err := s.row(s.Outside)
	if err != nil {
		return sde.Growth{}, err
	}
	g := s.Tree.Growth(window)
	g.Stochastic = func(step int) sde.Row { return inside(schedule, step) }
	g.Deterministic = func(step int) sde.Row { return outside(schedule, step) }
	between := s.Tree.Between(window, s.Steps)
	g.Draws = func(step int) bool { return slices.Contains(between, step) }
	return g, nil
}

// Samples is how many samples of a prompt an iteration rolls: a group, or the leaves of the
// prompt's trees.
func (it Settings) Samples() int {
	if tree := it.Sampler.Tree; tree != nil && it.Episode == nil {
		return tree.Of().Starts(*tree, it.Rollout.Group) * tree.Growth(it.Window).Leaves()
	}
	return it.Rollout.Group
}

// Credit is the advantage of every node of some trees, by the rewards of their leaves: by layers
// of a tree that branches, by steps of trees with a trunk, which prompts tells apart.
func (e *Experiment) Credit(prompts []int, trees []*sde.Tree, rewards [][]float64) ([][]float64, error) {
	if e.Sampler.Tree.Of().Trunk {
		return advantage.Branches(e.Advantage.Options, prompts, trees, rewards)
	}
	var all [][]float64
	for i, t := range trees {
		a, err := advantage.Layers(t, rewards[i], e.Sampler.Tree.Fuse == "probability", e.Advantage.Clip)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// Judged are the edges of a tree that an iteration trains, by the nodes that they lead to: those that drew, less
// pruned ones. Pruning counts the stage's iterations from 1.
func (it Settings) Judged(tree *sde.Tree, advantages []float64) []int {
	drew := slices.Clone(advantages)
	for n := range drew {
		if !tree.SDE[n] {
			drew[n] = math.NaN()
		}
	}
	s := it.Sampler
	return s.Tree.Prune.Kept(tree, drew, s.Tree.Growth(it.Window).Splits, s.Steps, it.Iteration+1, it.Run.Iterations)
}
