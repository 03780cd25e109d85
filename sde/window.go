package sde

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// A Window is a way to place the steps of one iteration that are stochastic and trained. Its value is beside its
// formula; Windows lists all of them. Its position is a function of the iteration (and of draws, for the random
// kinds), so that nothing has to be saved and any iteration can be planned.
type Window struct {
	Name string
	Card string   // a sentence: its description and its source
	Keys []string // of WindowOptions, that it reads beside those that every window reads

	Draws     bool // its position is drawn
	Scattered bool // its steps are not neighbours

	Check func(o WindowOptions, report func(key, problem, hint string))           // limits of its options; nil: none
	Steps func(o WindowOptions, steps, iteration int, draw func(n int) int) []int // ascending
	Reach func(o WindowOptions, steps int) []int                                  // the steps that it may ever hold; nil: Steps
	Own   func(o WindowOptions, steps int) (places [][]int, weights []int)        // the windows that a prompt may have, and how likely each is; nil: none
	Words func(o WindowOptions) string                                            // its options in a few words; nil: its name
}

// Windows are all windows.
func Windows() []Window {
	return []Window{
		FullWindow,
		FractionWindow,
		RangeWindow,
		SubsetWindow,
		RandomWindow,
		SlidingWindow,
		FrozenWindow,
	}
}

// WindowNamed is the window of a name.
func WindowNamed(name string) (Window, bool) {
	all := Windows()
	i := slices.IndexFunc(all, func(w Window) bool { return w.Name == name })
	if i < 0 {
		return FullWindow, false
	}
	return all[i], true
}

// WindowOptions are the options of all windows, as one table of a file has them.
type WindowOptions struct {
	Kind     string  `toml:"kind" enum:"full,fraction,range,subset,random,sliding,frozen" doc:"how the window is placed"`
	Size     int     `toml:"size" range:"[0,inf)" doc:"steps in the window"`
	Every    int     `toml:"every" range:"[1,inf)" doc:"iterations at one position"`
	Stride   int     `toml:"stride" range:"[0,inf)" doc:"steps from position to position; 0: size minus overlap"`
	Overlap  int     `toml:"overlap" range:"[0,inf)" doc:"steps that two positions share"`
	Start    string  `toml:"start" enum:"noisy,clean" doc:"which end it begins at"`
	From     int     `toml:"from" range:"[0,inf)" doc:"steps before the first position"`
	Drop     int     `toml:"drop" range:"[0,inf)" doc:"last steps that are never trained"`
	RollBack bool    `toml:"roll_back" doc:"begin again after the last position; otherwise stay there"`
	Tail     string  `toml:"tail" enum:"shift,skip,short,mixgrpo" doc:"what happens to a remainder"`
	One      bool    `toml:"one" doc:"each prompt draws at one step of the window, which is drawn for it and trained; the other steps are the outside solver's (Flash-GRPO)"`
	Own      bool    `toml:"own" doc:"each prompt has a window of its own, which is drawn for it in each iteration; outside of it the outside solver steps (UniRL)"`
	Fraction float64 `toml:"fraction" range:"[0,1]" doc:"share of the steps"`
	Low      float64 `toml:"low" range:"[0,1]" doc:"where a range begins"`
	High     float64 `toml:"high" range:"[0,1]" doc:"where a range ends"`

	Lasting   string  `toml:"lasting" enum:"constant,decay,exp_decay" doc:"how Every changes with the position"`
	MinEvery  int     `toml:"min_every" range:"[0,inf)" of:"lasting=decay" doc:"of decay"`
	MaxEvery  int     `toml:"max_every" range:"[0,inf)" of:"lasting=decay" doc:"of decay"`
	DecayFrom int     `toml:"decay_from" range:"[0,inf)" of:"lasting=exp_decay" doc:"of exp_decay: the step after which it begins"`
	DecayRate float64 `toml:"decay_rate" range:"[0,inf)" of:"lasting=exp_decay" doc:"of exp_decay"`
}

// DefaultWindow is every step but the last.
func DefaultWindow() WindowOptions {
	return WindowOptions{Kind: "full", Every: 1, Start: "noisy", Drop: 1, RollBack: true, Tail: "shift", Fraction: 1, High: 1, Lasting: "constant"}
}

// window is the kind's.
func (o WindowOptions) window() Window {
	w, _ := WindowNamed(o.Kind)
	return w
}

// Reads reports whether the window reads a key.
func (o WindowOptions) Reads(key string) bool { return slices.Contains(o.window().Keys, key) }

// Check reports settings that contradict each other.
func (o WindowOptions) Check(report func(key, problem, hint string)) {
	w := o.window()
	if o.Reads("size") && o.Size < 1 {
		report("size", fmt.Sprintf("a %s window needs a size", o.Kind), "size = 4 is what MixGRPO uses")
	}
	if w.Check != nil {
		w.Check(o, report)
	}
	switch {
	case o.Own && !o.Reads("own"):
		report("own", fmt.Sprintf("a %s window lies in one place for all prompts", o.Kind), `leave it out, or write kind = "random", "subset" or "sliding"`)
	case o.Own && o.One:
		report("own", "with one = true each prompt has a step of its own already", "leave one of them out")
	}
	if o.Lasting == "decay" && (o.MaxEvery < 1 || o.MinEvery > o.MaxEvery) {
		report("max_every", "decay goes from max_every to min_every iterations", "max_every must be at least 1 and at least min_every")
	}
}

// longest is more iterations than any run has; sums of these stay whole numbers.
const longest = 1 << 30

// within are the options with numbers that are larger than there are steps, or iterations,
// cut to their effect, so that no sum of them overflows.
func (o WindowOptions) within(steps int) WindowOptions {
	for _, n := range []*int{&o.Size, &o.From, &o.Drop, &o.Overlap} {
		*n = min(*n, steps)
	}
	o.Stride = min(o.Stride, steps+1)
	for _, n := range []*int{&o.Every, &o.MinEvery, &o.MaxEvery, &o.DecayFrom} {
		*n = min(*n, longest)
	}
	return o
}

// Steps are the window's steps at an iteration, ascending. draw gives a whole number below
// n, by the caller's key; the kinds that are not random do not call it.
func (o WindowOptions) Steps(steps, iteration int, draw func(n int) int) []int {
	return o.window().Steps(o.within(steps), steps, iteration, draw)
}

// Reach are the steps that the window may ever hold, ascending.
func (o WindowOptions) Reach(steps int) []int {
	if w := o.window(); w.Reach != nil {
		return w.Reach(o.within(steps), steps)
	}
	return o.Steps(steps, 0, nil)
}

// Words are the options in a few words.
func (o WindowOptions) Words() string {
	switch w := o.window(); {
	case w.Words != nil:
		return w.Words(o)
	case o.One:
		return fmt.Sprintf("one of the first %d", o.Size)
	}
	return fmt.Sprintf("%s, drop %d", o.Kind, o.Drop)
}

// Coverage counts how often each step is in the window over the first iterations.
func (o WindowOptions) Coverage(steps, iterations int, draw func(iteration, n int) int) []int {
	counts := make([]int, steps)
	for i := range iterations {
		for _, s := range o.Steps(steps, i, func(n int) int { return draw(i, n) }) {
			if s >= 0 && s < steps {
				counts[s]++
			}
		}
	}
	return counts
}

func span(from, to int) []int {
	all := []int{}
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

// FullWindow has every step.
var FullWindow = Window{
	Name: "full", Card: "Every step but the last drop ones.",
	Steps: func(o WindowOptions, steps, _ int, _ func(int) int) []int { return span(0, steps-o.Drop) },
}

// FractionWindow has the first ⌊T·f⌋ steps: 0.99 drops the last.
var FractionWindow = Window{
	Name: "fraction", Card: "The first share of the steps (flow_grpo, where 0.99 drops the last).",
	Keys: []string{"fraction"},
	Steps: func(o WindowOptions, steps, _ int, _ func(int) int) []int {
		return span(0, int(float64(steps)*o.Fraction))
	},
	Words: func(o WindowOptions) string { return fmt.Sprintf("first %v", o.Fraction) },
}

// RangeWindow has the steps ⌊T·a⌋ to ⌊T·b⌋-1.
var RangeWindow = Window{
	Name: "range", Card: "From one share of the steps to another (UniRL).",
	Keys: []string{"low", "high"},
	Check: func(o WindowOptions, report func(key, problem, hint string)) {
		if o.Low >= o.High {
			report("low", fmt.Sprintf("the range from %v to %v is empty", o.Low, o.High), "low must be smaller than high")
		}
	},
	Steps: func(o WindowOptions, steps, _ int, _ func(int) int) []int {
		return span(int(float64(steps)*o.Low), int(float64(steps)*o.High))
	},
}

// SubsetWindow has ⌊(T-Drop)·f⌋ steps, drawn without order from all but the last Drop.
var SubsetWindow = Window{
	Name: "subset", Card: "A share of the steps, drawn without order (DanceGRPO).",
	Keys: []string{"own", "fraction"}, Draws: true, Scattered: true,
	Steps: func(o WindowOptions, steps, _ int, draw func(int) int) []int {
		n := max(0, steps-o.Drop)
		return subset(n, int(float64(n)*o.Fraction), draw)
	},
	Reach: func(o WindowOptions, steps int) []int {
		if _, has := o.subset(steps); has == 0 {
			return []int{}
		}
		return span(0, steps-o.Drop)
	},
	Words: func(o WindowOptions) string { return fmt.Sprintf("%v of all but %d", o.Fraction, o.Drop) },
}

// subset draws k of n: a partial shuffle.
func subset(n, k int, draw func(int) int) []int {
	all := span(0, n)
	for i := range k {
		j := i + draw(n-i)
		all[i], all[j] = all[j], all[i]
	}
	all = all[:k]
	slices.Sort(all)
	return all
}

// RandomWindow has Size steps in a row from a drawn start.
var RandomWindow = Window{
	Name: "random", Card: "Some steps in a row from a drawn start (flow_grpo fast, verl-omni, miles).",
	Keys: []string{"size", "from", "own"}, Draws: true,
	Steps: func(o WindowOptions, steps, _ int, draw func(int) int) []int { return o.row(steps, draw) },
	Reach: func(o WindowOptions, steps int) []int {
		if _, last := o.Support(steps); last < o.From || o.Size > 0 {
			return span(o.From, steps-o.Drop)
		}
		return []int{}
	},
	Own: func(o WindowOptions, steps int) (places [][]int, weights []int) {
		from, to := o.Support(steps)
		for i := range max(1, to-from+1) {
			if at := o.row(steps, func(int) int { return i }); len(at) > 0 {
				places, weights = append(places, at), append(weights, 1)
			}
		}
		return places, weights
	},
	Words: func(o WindowOptions) string { return fmt.Sprintf("random %d, drop %d", o.Size, o.Drop) },
}

// Support is the first and the last start that a random window may have.
func (o WindowOptions) Support(steps int) (first, last int) {
	return o.From, steps - o.Drop - o.Size
}

// row are Size steps from a drawn start.
func (o WindowOptions) row(steps int, draw func(int) int) []int {
	first, last := o.Support(steps)
	if last < first {
		return span(first, steps-o.Drop)
	}
	start := first + draw(last-first+1)
	return span(start, start+o.Size)
}

// FrozenWindow has Size steps from From on, always.
var FrozenWindow = Window{
	Name: "frozen", Card: "Some steps in a row, always the same (MixGRPO-Flash*).",
	Keys: []string{"size", "from"},
	Steps: func(o WindowOptions, steps, _ int, _ func(int) int) []int {
		return span(o.From, min(o.From+o.Size, steps-o.Drop))
	},
}

// SlidingWindow has Size steps in a row that move by Stride every Every iterations. Tail is the treatment of a
// remainder that is shorter: "shift" moves it back so that it fits (verl-omni), "skip" leaves it out (UniRL), "short"
// cuts it, and "mixgrpo" cuts it and has an empty one where it begins at the very end, as MixGRPO does. Lasting makes
// later positions shorter (MixGRPO's decay, exp_decay).
var SlidingWindow = Window{
	Name: "sliding", Card: "Some steps in a row that move with the iterations (MixGRPO).",
	Keys: []string{"size", "stride", "overlap", "start", "from", "roll_back", "tail", "own"},
	Check: func(o WindowOptions, report func(key, problem, hint string)) {
		if o.Stride == 0 && o.Overlap >= o.Size && o.Size > 0 {
			report("overlap", fmt.Sprintf("an overlap of %d steps leaves a window of %d no way to move", o.Overlap, o.Size), "overlap must be smaller than size")
		}
	},
	Steps: func(o WindowOptions, steps, iteration int, _ func(int) int) []int {
		p := o.Position(steps, iteration)
		return span(p.Start, min(p.Start+o.Size, steps-o.Drop))
	},
	Reach: func(o WindowOptions, steps int) []int {
		var all []int
		for _, s := range o.starts(steps) {
			all = append(all, span(s, min(s+o.Size, steps-o.Drop))...)
		}
		slices.Sort(all)
		return slices.Compact(all)
	},
	Own: WindowOptions.positions,
	Words: func(o WindowOptions) string {
		return fmt.Sprintf("sliding %d by %d every %d, drop %d", o.Size, o.Stride, o.Every, o.Drop)
	},
}

// Position is the first step of a sliding window.
type Position struct{ Start, Since int } // Since: iterations spent there before this one

// Position is a sliding or frozen window's at an iteration.
func (o WindowOptions) Position(steps, iteration int) Position {
	o = o.within(steps)
	if o.Kind == "frozen" {
		return Position{o.From, iteration % o.lasts(o.From, steps)}
	}
	starts := o.starts(steps)
	if len(starts) == 0 {
		return Position{Start: o.From, Since: iteration}
	}
	round := 0
	for _, s := range starts {
		round += o.lasts(s, steps)
	}
	if o.RollBack {
		iteration %= round
	}
	for _, s := range starts {
		n := o.lasts(s, steps)
		if iteration < n {
			return Position{s, iteration}
		}
		iteration -= n
	}
	last := starts[len(starts)-1]
	return Position{last, iteration % o.lasts(last, steps)}
}

// starts are a sliding window's positions in one round.
func (o WindowOptions) starts(steps int) []int {
	stride, end := o.Stride, steps-o.Drop
	if stride == 0 {
		stride = o.Size - o.Overlap
	}
	stride = max(stride, 1)
	var starts []int
	for s := o.From; ; s += stride {
		if o.Tail == "mixgrpo" && s > end || o.Tail == "short" && s >= end || o.Tail == "skip" && s+o.Size > end && s > o.From {
			break
		}
		if o.Tail == "shift" {
			starts = append(starts, max(o.From, min(s, end-o.Size)))
			if s+o.Size >= end {
				break
			}
			continue
		}
		starts = append(starts, s)
	}
	if o.Tail == "mixgrpo" && !o.RollBack && (len(starts) == 0 || starts[len(starts)-1] != end) {
		starts = append(starts, end) // where it is cut to, and stays
	}
	if o.Start == "clean" {
		slices.Reverse(starts)
	}
	return starts
}

// lasts is the number of iterations at a position.
func (o WindowOptions) lasts(start, steps int) int {
	n := o.Every
	switch o.Lasting {
	case "decay":
		p := float64(start) / float64(steps-o.Drop)
		n = max(o.MinEvery, int(float64(float64(o.MaxEvery)*(1-p))+float64(float64(o.MinEvery)*p)))
	case "exp_decay":
		n = int(math.Ceil(float64(o.Every) * portable.Exp(-o.DecayRate*float64(max(0, start-o.DecayFrom)))))
	}
	return max(n, 1)
}

// A window of a prompt's own (UniRL's per-prompt windows): random and subset windows are drawn for the prompt as
// Steps draws them for an iteration; a sliding one has one of the positions of a round, in proportion to its time
// there. Positions that hold no step are left out, since a sample that draws nowhere cannot be judged.
//
// Invariants (tests): every own window is one that Steps has in some iteration, and not empty; OwnMean is the mean over
// many draws, and OwnShares how often they hold each step.

// OwnSteps are the steps of a prompt's own window, ascending. draw gives a whole number below n, by the prompt's key.
func (o WindowOptions) OwnSteps(steps int, draw func(n int) int) []int {
	o = o.within(steps)
	if w := o.window(); w.Draws {
		return o.Steps(steps, 0, draw)
	}
	places, weights := o.owned(steps)
	all := 0
	for _, w := range weights {
		all += w
	}
	if all == 0 {
		return []int{}
	}
	u := draw(all)
	for i, w := range weights {
		if u < w {
			return places[i]
		}
		u -= w
	}
	return places[len(places)-1]
}

// positions returns a sliding window's positions of a round with a step, and the time at each.
func (o WindowOptions) positions(steps int) (places [][]int, weights []int) {
	for _, s := range o.starts(steps) {
		if at := span(s, min(s+o.Size, steps-o.Drop)); len(at) > 0 {
			places, weights = append(places, at), append(weights, o.lasts(s, steps))
		}
	}
	return places, weights
}

// OwnMean is how many steps an own window holds, and where its first one lies, on average.
func (o WindowOptions) OwnMean(steps int) (size, first float64) {
	o = o.within(steps)
	if o.window().Scattered { // the least of k numbers out of n that are drawn without order
		n, k := o.subset(steps)
		return k, (n - k) / (k + 1)
	}
	places, weights := o.owned(steps)
	n := 0.0
	for i, at := range places {
		w := float64(weights[i])
		n, size, first = n+w, size+float64(w*float64(len(at))), first+float64(w*float64(at[0]))
	}
	return size / max(n, 1), first / max(n, 1)
}

// OwnShares is how likely an own window is to hold each step.
func (o WindowOptions) OwnShares(steps int) []float64 {
	o = o.within(steps)
	shares := make([]float64, steps)
	if o.window().Scattered {
		n, k := o.subset(steps)
		for s := range int(n) {
			shares[s] = k / n
		}
		return shares
	}
	places, weights := o.owned(steps)
	n := 0.0
	for _, w := range weights {
		n += float64(w)
	}
	for i, at := range places {
		for _, s := range at {
			shares[s] += float64(weights[i]) / n
		}
	}
	return shares
}

// subset is of how many steps a subset is drawn, and how many it has.
func (o WindowOptions) subset(steps int) (of, has float64) {
	n := float64(max(0, steps-o.Drop))
	return n, float64(int(n * o.Fraction))
}

// owned are the windows that a prompt may have, none of them empty, and how likely each is beside the others.
func (o WindowOptions) owned(steps int) (places [][]int, weights []int) {
	if own := o.window().Own; own != nil {
		return own(o, steps)
	}
	return nil, nil
}
