package sde

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// A window is the steps of one iteration that are stochastic and trained. Its position is a
// function of the iteration (and of draws, for the random kinds), so that nothing has to be
// saved and any iteration can be planned.
//
//	full      every step
//	fraction  the first ⌊T·f⌋ (flow_grpo, where 0.99 drops the last)
//	range     ⌊T·a⌋ to ⌊T·b⌋-1 (UniRL)
//	subset    ⌊(T-Drop)·f⌋ steps drawn without order from all but the last Drop (DanceGRPO)
//	random    Size steps in a row from a drawn start (flow_grpo fast, miles, verl-omni)
//	sliding   Size steps in a row that move by Stride every Every iterations (MixGRPO)
//	frozen    Size steps from From on, always
//
// Tail is a sliding window's rule for a shorter remainder: "shift" moves
// it back so that it fits (verl-omni), "skip" leaves the remainder out (UniRL), "short" cuts
// it, and "mixgrpo" cuts it and has an empty one where it begins at the very end, as MixGRPO
// does. Lasting makes later positions shorter (MixGRPO's decay, exp_decay).
type WindowOptions struct {
	Kind     string  `toml:"kind" enum:"full,fraction,range,subset,random,sliding,frozen" doc:"how the window is placed"`
	Size     int     `toml:"size" range:"[0,inf)" of:"kind=random,sliding,frozen" doc:"steps in the window"`
	Every    int     `toml:"every" range:"[1,inf)" doc:"iterations at one position"`
	Stride   int     `toml:"stride" range:"[0,inf)" of:"kind=sliding" doc:"steps from position to position; 0: size minus overlap"`
	Overlap  int     `toml:"overlap" range:"[0,inf)" of:"kind=sliding" doc:"steps that two positions share"`
	Start    string  `toml:"start" enum:"noisy,clean" of:"kind=sliding" doc:"which end it begins at"`
	From     int     `toml:"from" range:"[0,inf)" of:"kind=random,sliding,frozen" doc:"steps before the first position"`
	Drop     int     `toml:"drop" range:"[0,inf)" doc:"last steps that are never trained"`
	RollBack bool    `toml:"roll_back" of:"kind=sliding" doc:"begin again after the last position; otherwise stay there"`
	Tail     string  `toml:"tail" enum:"shift,skip,short,mixgrpo" of:"kind=sliding" doc:"what happens to a remainder"`
	One      bool    `toml:"one" doc:"each prompt draws at one step of the window, which is drawn for it and trained; the other steps are the outside solver's (Flash-GRPO)"`
	Own      bool    `toml:"own" of:"kind=random,subset,sliding" doc:"each prompt has a window of its own, which is drawn for it in each iteration; outside of it the outside solver steps (UniRL)"`
	Fraction float64 `toml:"fraction" range:"[0,1]" of:"kind=fraction,subset" doc:"share of the steps"`
	Low      float64 `toml:"low" range:"[0,1]" of:"kind=range" doc:"where a range begins"`
	High     float64 `toml:"high" range:"[0,1]" of:"kind=range" doc:"where a range ends"`

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

// Check reports settings that contradict each other.
func (o WindowOptions) Check(report func(key, problem, hint string)) {
	needs := o.Kind == "random" || o.Kind == "sliding" || o.Kind == "frozen"
	if needs && o.Size < 1 {
		report("size", fmt.Sprintf("a %s window needs a size", o.Kind), "size = 4 is what MixGRPO uses")
	}
	if o.Kind == "sliding" && o.Stride == 0 && o.Overlap >= o.Size && o.Size > 0 {
		report("overlap", fmt.Sprintf("an overlap of %d steps leaves a window of %d no way to move", o.Overlap, o.Size), "overlap must be smaller than size")
	}
	if o.Kind == "range" && o.Low >= o.High {
		report("low", fmt.Sprintf("the range from %v to %v is empty", o.Low, o.High), "low must be smaller than high")
	}
	switch {
	case o.Own && !slices.Contains([]string{"random", "subset", "sliding"}, o.Kind):
		report("own", fmt.Sprintf("a %s window lies in one place for all prompts", o.Kind), `leave it out, or write kind = "random", "subset" or "sliding"`)
	case o.Own && o.One:
		report("own", "with one = true each prompt has a step of its own already", "leave one of them out")
	}
	if o.Lasting == "decay" && (o.MaxEvery < 1 || o.MinEvery > o.MaxEvery) {
		report("max_every", "decay goes from max_every to min_every iterations", "max_every must be at least 1 and at least min_every")
	}
}

// Support is the first and the last start that a random window may have.
func (o WindowOptions) Support(steps int) (first, last int) {
	return o.From, steps - o.Drop - o.Size
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
	o = o.within(steps)
	switch o.Kind {
	case "fraction":
		return span(0, int(float64(steps)*o.Fraction))
	case "range":
		return span(int(float64(steps)*o.Low), int(float64(steps)*o.High))
	case "subset":
		n := max(0, steps-o.Drop)
		return subset(n, int(float64(n)*o.Fraction), draw)
	case "random":
		first, last := o.Support(steps)
		if last < first {
			return span(first, steps-o.Drop)
		}
		start := first + draw(last-first+1)
		return span(start, start+o.Size)
	case "frozen":
		return span(o.From, min(o.From+o.Size, steps-o.Drop))
	case "sliding":
		p := o.Position(steps, iteration)
		return span(p.Start, min(p.Start+o.Size, steps-o.Drop))
	}
	return span(0, steps-o.Drop)
}

func span(from, to int) []int {
	all := []int{}
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
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

// Reach are the steps that the window may ever hold, ascending.
func (o WindowOptions) Reach(steps int) []int {
	o = o.within(steps)
	switch o.Kind {
	case "subset":
		if len(o.Steps(steps, 0, func(int) int { return 0 })) == 0 {
			return []int{}
		}
		return span(0, steps-o.Drop)
	case "random":
		if _, last := o.Support(steps); last < o.From || o.Size > 0 {
			return span(o.From, steps-o.Drop)
		}
		return []int{}
	case "sliding":
		var all []int
		for _, s := range o.starts(steps) {
			all = append(all, span(s, min(s+o.Size, steps-o.Drop))...)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	return o.Steps(steps, 0, nil)
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
