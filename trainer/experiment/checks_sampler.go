package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/sde"
)

// What does not go together in [sampler].

// Check reports what does not fit together in [sampler].
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

// checkTree: what branches must draw.
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
