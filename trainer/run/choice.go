package run

import (
	"slices"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// Which prompts an iteration rolls, and which of its samples are learned from.

// choice is what that depends on, beside the experiment.
type choice struct {
	pool   []int             // the prompts that pass rates leave, of all stages
	pools  map[int]*pool     // what stages draw from, by their numbers (pool.go)
	known  prompts.Successes // of the curriculum
	skips  *prompts.Skips    // of GRESO; nil: nothing was learned
	banned []int             // prompts that the model does well, in their order
	place  int               // in the endless list of prompts, where an iteration may ask for more of it
	buffer *trainer.Buffer
}

func (t *training) beginChoice() {
	t.choice = choice{known: prompts.NewSuccesses(len(t.train)), buffer: &trainer.Buffer{}}
	t.choice.pool = prompts.LessonsOf(t.train, "")
	t.choice.buffer.Uniform = func(iteration, n int) []float64 {
		u, draw := make([]float64, n), t.root().With("buffer").Iteration(iteration).Draw()
		for i := range u {
			u[i] = draw.Float64()
		}
		return u
	}
}

// keys are an iteration's first samples.
func (t *training) keys(i int) []trainer.Key {
	return t.samplesOf(i, t.asks(i, 0, t.now.turn.Rollout.PromptsPerIteration, nil))
}

// samplesOf are the samples of an iteration's prompts.
func (t *training) samplesOf(i int, list []int) []trainer.Key {
	var all []trainer.Key
	for _, p := range list {
		for k := range t.now.turn.Samples() {
			all = append(all, trainer.Key{Iteration: i, Prompt: p, Sample: k})
		}
	}
	return all
}

// asks are n prompts for a roll of an iteration, which has seen some. Where iterations may roll
// again, the endless list of prompts goes on where the last roll ended.
func (t *training) asks(i, roll, n int, seen []int) []int {
	c, r := &t.choice, t.now.turn.Rollout
	if t.now.turn.Taught() {
		return t.lessons(i, n)
	}
	from := t.pool(t.now.turn)
	var list []int
	if r.Curriculum == nil && r.Resample == nil && r.Skip == nil && r.Ban == nil {
		return from.iteration(i, n)
	}
	out := map[int]bool{}
	for _, p := range slices.Concat(seen, c.banned) {
		out[p] = true
	}
	among := slices.DeleteFunc(slices.Clone(from.places), func(p int) bool { return out[p] })
	if r.Curriculum != nil {
		return r.Curriculum.Draw(t.root().With("curriculum").Iteration(i).Attempt(roll), c.known, n, among)
	}
	for len(list) < min(n, len(among)) {
		p := from.at(c.place)
		if c.place++; !out[p] && !slices.Contains(list, p) && !t.skipped(p) {
			list = append(list, p)
		}
	}
	return list
}

// mostAhead is how many iterations are looked ahead.
const mostAhead = 8

// ahead are prompts that this iteration and the next ones ask for, as far as it is known: nothing that is drawn depends
// on it.
func (t *training) ahead() (all []int) {
	if t.now.turn.Experiment == nil {
		return nil
	}
	r := t.now.turn.Rollout
	if r.Resample != nil || r.Curriculum != nil || r.Skip != nil || r.Ban != nil {
		return nil
	}
	last := min(t.loop.Iteration+mostAhead, t.now.turn.First+t.now.turn.Run.Iterations-1, t.Run.Iterations-1)
	for i := t.loop.Iteration; i <= last; i++ {
		all = append(all, t.asks(i, 0, r.PromptsPerIteration, nil)...)
	}
	return all
}

// skipped says whether [rollout.skip] leaves out the prompt before the current place.
func (t *training) skipped(p int) bool {
	if t.now.turn.Rollout.Skip == nil || t.choice.skips == nil {
		return false
	}
	draw := t.root().With("skip").Sample(t.choice.place).Draw()
	return t.choice.skips.Out(p, draw.Float64(), draw.Float64())
}

// chooses is the iteration's choice of samples.
func (t *training) chooses() trainer.Choice {
	r, a := t.now.turn.Rollout, t.now.turn.Advantage
	c := trainer.Choice{Some: a.Keep != nil && t.now.turn.Episode != nil}
	if e := t.now.turn.Episode; e != nil && e.Shuffled != nil {
		c.Keep = learnable
	}
	compared := a.Filter != nil && a.Filter.Compared
	if a.Filter != nil && !compared || r.Resample != nil {
		c.Keep = t.keeps
	}
	if r.Resample != nil {
		c.Further = t.further
	}
	if r.More != nil {
		c.Further = t.more
	}
	if a.BestOf > 0 {
		c.Best = func(r *trainer.Report, places []int) []int { return t.bestOf(a.BestOf, a.BestBy, r, places) }
	}
	if a.Margin > 0 && t.now.turn.Kind().Pairs {
		c.Best = func(r *trainer.Report, places []int) []int { return apart(a.Margin, r, places) }
	}
	if compared {
		c.Best = t.taught(c.Best)
	}
	if r.Buffer != nil {
		b := t.choice.buffer
		b.Age, b.Groups = r.Buffer.Iterations, r.Buffer.Groups
		first := t.stageBegan(t.loop.Iteration)
		b.Kept = slices.DeleteFunc(b.Kept, func(g trainer.Group) bool { return g.Iteration() < first }) // other rows
		c.Buffer = b
	}
	return c
}

// taught leaves out the samples of groups without signal after they were compared, and before best chooses.
func (t *training) taught(best func(*trainer.Report, []int) []int) func(*trainer.Report, []int) []int {
	return func(r *trainer.Report, places []int) []int {
		signal := make([]bool, len(r.Samples))
		for _, g := range t.signal(r.Samples, r.Scores) {
			for _, i := range g {
				signal[i] = true
			}
		}
		places = slices.DeleteFunc(places, func(i int) bool { return !signal[i] })
		if best == nil || len(places) == 0 {
			return places
		}
		return best(r, places)
	}
}

// stageBegan is the first iteration of the stage of an iteration.
func (t *training) stageBegan(i int) int {
	first := 0
	for n, s := range t.Stages {
		if i < first+s.Iterations || n == len(t.Stages)-1 {
			break
		}
		first += s.Iterations
	}
	return first
}

// signal are the places of the groups that teach something, in the order of their first sample.
func (t *training) signal(samples []trainer.Sample, scores []float64) [][]int {
	f := advantage.Filter{By: "unequal"}
	if t.now.turn.Advantage.Filter != nil {
		f = *t.now.turn.Advantage.Filter
	}
	kept := f.Kept(trainer.GroupNumbers(samples), members(samples, scores), nil)
	return slices.DeleteFunc(trainer.Groups(samples), func(g []int) bool { _, ok := slices.BinarySearch(kept, g[0]); return !ok })
}

// keeps is trainer.Choice.Keep: groups with signal, and, where more were rolled than an iteration
// has, the first ones.
func (t *training) keeps(samples []trainer.Sample, scores []float64) []bool {
	kept := make([]bool, len(samples))
	all := t.signal(samples, scores)
	if t.now.turn.Rollout.Resample != nil {
		all = all[:min(len(all), t.now.turn.Rollout.PromptsPerIteration)]
	}
	for _, g := range all {
		for _, i := range g {
			kept[i] = !samples[i].Control
		}
	}
	return kept
}

// further is trainer.Choice.Further.
func (t *training) further(r *trainer.Report) []trainer.Key {
	q := t.now.turn.Rollout.Resample
	lacking := t.now.turn.Rollout.PromptsPerIteration - len(t.signal(r.Samples, r.Scores))
	if r.Rolls >= q.Rolls || lacking <= 0 {
		return nil
	}
	if q.Prompts > 0 {
		lacking = q.Prompts
	}
	var seen []int
	for _, g := range trainer.Groups(r.Samples) {
		seen = append(seen, r.Samples[g[0]].Key.Prompt)
	}
	return t.samplesOf(t.loop.Iteration, t.asks(t.loop.Iteration, r.Rolls, lacking, seen))
}

// more is trainer.Choice.Further for [rollout.more]: after the first roll, the samples that prompts which fail lack.
func (t *training) more(r *trainer.Report) (keys []trainer.Key) {
	if r.Rolls > 1 {
		return nil
	}
	m, divided := t.now.turn.Rollout.More, t.now.turn.Advantage.Scale != "none"
	for _, g := range trainer.Groups(r.Samples) {
		n := len(g)
		for k := range m.Further(prompts.Rate(trainer.Pick(r.Scores, g), m.Success), n, divided) {
			keys = append(keys, trainer.Key{Iteration: t.loop.Iteration, Prompt: r.Samples[g[0]].Key.Prompt, Sample: n + k})
		}
	}
	return keys
}

// bestOf are n of each group, by their advantages, or where others are drawn by their totals, in the order of samples.
func (t *training) bestOf(n int, by string, r *trainer.Report, places []int) []int {
	var chosen []int
	for _, g := range trainer.Groups(trainer.Pick(r.Samples, places)) {
		inside := trainer.Pick(places, g)
		var kept []int
		switch worth := trainer.Pick(r.Advantages, inside); by {
		case "size":
			kept = advantage.Largest(worth, n)
		case "drawn":
			u, draw := make([]float64, n-1), t.root().With("filtration").Iteration(t.loop.Iteration).Prompt(uint64(r.Samples[inside[0]].Key.Prompt)).Draw()
			for i := range u {
				u[i] = draw.Float64()
			}
			kept = advantage.FirstAndDrawn(u, trainer.Pick(r.Scores, inside), n)
		default:
			kept = advantage.BestOfN(worth, n)
		}
		for _, k := range kept {
			chosen = append(chosen, inside[k])
		}
	}
	slices.Sort(chosen)
	return chosen
}

// apart are the samples of groups whose best and worst totals differ by a margin at least.
func apart(margin float64, r *trainer.Report, places []int) []int {
	pairs := advantage.Pairs(trainer.GroupNumbers(trainer.Pick(r.Samples, places)), trainer.Pick(r.Scores, places), margin)
	return slices.DeleteFunc(slices.Clone(places), func(i int) bool {
		return !slices.ContainsFunc(pairs, func(p [2]int) bool { return r.Samples[places[p[0]]].Key.Prompt == r.Samples[i].Key.Prompt })
	})
}

// learn keeps what became of the iteration's prompts, for a curriculum, for skipping or for bans.
func (t *training) learn(r *trainer.Report) {
	c, s, b := t.now.turn.Rollout.Curriculum, t.now.turn.Rollout.Skip, t.now.turn.Rollout.Ban
	if c == nil && s == nil && b == nil {
		return
	}
	var list []int
	var totals [][]float64
	for _, g := range trainer.Groups(r.Samples) {
		list, totals = append(list, r.Samples[g[0]].Key.Prompt), append(totals, trainer.Pick(r.Scores, g))
	}
	for i, p := range list {
		if b != nil && b.Banned(totals[i]) && t.left() > t.now.turn.Rollout.PromptsPerIteration {
			t.choice.banned = append(t.choice.banned, p)
		}
	}
	if s != nil {
		if t.choice.skips == nil {
			t.choice.skips = s.New(len(t.train))
		}
		s.Learn(t.choice.skips, list, totals)
		return
	}
	if c == nil {
		return
	}
	for i, p := range list {
		c.Learn(t.choice.known, p, totals[i])
	}
}

// account writes down what was chosen.
func (t *training) account(l *ledger.Line, r *trainer.Report) {
	roll, a := t.now.turn.Rollout, t.now.turn.Advantage
	if roll.Resample == nil && roll.More == nil && roll.Buffer == nil && a.Filter == nil && a.BestOf == 0 && a.Margin == 0 && !t.loop.Choice.Some {
		return
	}
	l.Choice = &ledger.ChoiceLine{Rolls: r.Rolls, Learned: len(r.Learned), Reused: r.Reused}
	counts := func(i int) bool { return r.Advantages[i] == r.Advantages[i] }
	if a.Filter != nil && a.Filter.Compared {
		counts = func(i int) bool { return slices.Contains(r.Learned, i) }
	}
	for _, g := range trainer.Groups(r.Samples) {
		if slices.ContainsFunc(g, counts) {
			l.Choice.Groups++
		}
	}
}
