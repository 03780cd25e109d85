package sde

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// windows are combinations of a window's options.
func windows() []WindowOptions {
	var all []WindowOptions
	for _, kind := range []string{"full", "fraction", "range", "subset", "random", "sliding", "frozen"} {
		for _, tail := range []string{"shift", "skip", "short", "mixgrpo"} {
			for _, start := range []string{"noisy", "clean"} {
				for _, lasting := range []string{"constant", "decay", "exp_decay"} {
					for _, back := range []bool{false, true} {
						all = append(all, WindowOptions{Kind: kind, Size: 3, Every: 2, Stride: 2, Start: start, From: 1, Drop: 1, RollBack: back, Tail: tail, Fraction: 0.6,
							Low: 0.2, High: 0.8, Lasting: lasting, MinEvery: 1, MaxEvery: 3, DecayFrom: 2, DecayRate: 0.3})
					}
				}
			}
		}
	}
	return all
}

// A window never leaves the steps, is ascending, and its iterations can be asked for in any
// order.
func TestWindowsStayInside(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, o := range windows() {
		for steps := 5; steps < 13; steps++ {
			for i := 40; i >= 0; i-- {
				last := -1
				for _, s := range o.Steps(steps, i, r.IntN) {
					if s <= last || s >= steps {
						t.Fatalf("%+v: step %d of %d after %d", o, s, steps, last)
					}
					last = s
				}
			}
		}
	}
}

// Sliding windows that roll back and shift or cut the rest reach every step they may.
func TestSlidingCoversEverything(t *testing.T) {
	for _, o := range windows() {
		if o.Kind != "sliding" || !o.RollBack || o.Tail == "skip" {
			continue
		}
		counts := o.Coverage(10, 200, nil)
		for s, n := range counts {
			if inside := s >= o.From && s < 10-o.Drop; inside != (n > 0) {
				t.Errorf("%+v: step %d was trained %d times", o, s, n)
			}
		}
	}
}

func TestWindowChecks(t *testing.T) {
	for key, o := range map[string]WindowOptions{"size": {Kind: "sliding"}, "overlap": {Kind: "sliding", Size: 2, Overlap: 2}, "low": {Kind: "range", Low: 1}, "max_every": {Kind: "sliding", Size: 1, Lasting: "decay"}, "": DefaultWindow()} {
		said := ""
		o.Check(func(k, problem, hint string) { said = k })
		if said != key {
			t.Errorf("%+v: %q, want %q", o, said, key)
		}
	}
}

func TestSchedules(t *testing.T) {
	for _, o := range []FlowOptions{DefaultFlow(), {Shift: 3, SigmaMax: 1, SigmaMin: 0.01}, {Shift: 1, Karras: true, SigmaMax: 1, SigmaMin: 0.01}, {Shift: 1, Exponential: true, SigmaMax: 1, SigmaMin: 0.01},
		{Shift: 1, Beta: true, SigmaMax: 1, SigmaMin: 0.01}, {Dynamic: true, SigmaMax: 1, SigmaMin: 0.01}, {Shift: 2, Terminal: 0.05, SigmaMax: 1, SigmaMin: 0.01}} {
		s, err := Flow(o, 12, nil, 0.8)
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(s.Sigmas); i++ {
			if s.Sigmas[i] >= s.Sigmas[i-1] {
				t.Errorf("%+v: %v does not fall", o, s.Sigmas)
				break
			}
		}
	}
	if _, err := Flow(DefaultFlow(), 0, nil, 0); err == nil {
		t.Error("no steps")
	}
	for x := 0.0; x <= 1; x += 0.125 {
		if Shift(1, x) != x {
			t.Error("a shift of 1 moves", x)
		}
		if p := betaCDF(betaQuantile(x, 0.6, 0.6), 0.6, 0.6); math.Abs(p-x) > 1e-9 {
			t.Errorf("beta: the quantile of %v has %v below it", x, p)
		}
	}
	for _, o := range []VPOptions{{TrainSteps: 0}, {TrainSteps: 10, Betas: "odd"}, {TrainSteps: 10, Betas: "linear", Spacing: "odd"}, {TrainSteps: 10, Betas: "linear", Spacing: "leading", Offset: 9},
		{TrainSteps: 10, Betas: "linear", Spacing: "leading", Offset: -1}} {
		if _, _, err := DDIMSteps(o, 5); err == nil {
			t.Errorf("%+v passes", o)
		}
	}
}

// Fusing a uniform tree keeps the mean; a depth's advantages add up to 0.
func TestTrees(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	tree := NewTree()
	for range 3 {
		var next []int
		for _, n := range tree.Leaves {
			next = append(next, tree.Grow(n, true, r.NormFloat64()), tree.Grow(n, true, r.NormFloat64()))
		}
		tree.Leaves = next
	}
	rewards, mean := make([]float64, 8), 0.0
	for i := range rewards {
		rewards[i] = r.NormFloat64()
		mean += rewards[i] / 8
	}
	all := tree.Fuse(rewards, false)
	if math.Abs(all[0]-mean) > 1e-12 {
		t.Errorf("the root has %v, the mean is %v", all[0], mean)
	}
	sums := map[int]float64{}
	for n, a := range tree.DepthAdvantages(all) {
		sums[tree.Depth[n]] += a
	}
	for d, s := range sums {
		if math.Abs(s) > 1e-9 {
			t.Errorf("depth %d adds up to %v", d, s)
		}
	}
	weighted := tree.Fuse(rewards, true)
	for n := range weighted {
		low, high := math.Inf(1), math.Inf(-1)
		for _, x := range rewards {
			low, high = math.Min(low, x), math.Max(high, x)
		}
		if weighted[n] < low || weighted[n] > high {
			t.Errorf("node %d: %v is not between its leaves", n, weighted[n])
		}
	}
}

// TestWindowKeys: a key that a window reads is an option of the table, and all windows read the keys that none names.
func TestWindowKeys(t *testing.T) {
	table := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[WindowOptions]()) {
		table[f.Tag.Get("toml")] = true
	}
	for _, w := range Windows() {
		for _, k := range w.Keys {
			if !table[k] {
				t.Errorf("%s reads %s, which the table does not have", w.Name, k)
			}
		}
		if slices.Contains(w.Keys, "own") != (w.Own != nil || w.Scattered) {
			t.Errorf("%s reads own, and nothing says which windows a prompt may have", w.Name)
		}
	}
}

// TestOwnWindows: a prompt's own window is one that the iteration's window has at some time, none is empty, all are
// met, and their means equal OwnMean, the frequencies of steps OwnShares.
func TestOwnWindows(t *testing.T) {
	sliding := DefaultWindow()
	sliding.Kind, sliding.Size, sliding.Stride, sliding.Every = "sliding", 4, 3, 2
	short, mix, decay, random, subset := sliding, sliding, sliding, sliding, sliding
	short.Tail, mix.Tail, mix.Size, mix.Stride = "short", "mixgrpo", 4, 1
	decay.Lasting, decay.MinEvery, decay.MaxEvery = "decay", 1, 9
	random.Kind, random.Size, random.From = "random", 3, 1
	subset.Kind, subset.Fraction = "subset", 0.4
	for name, o := range map[string]WindowOptions{"sliding": sliding, "short": short, "mixgrpo": mix, "decay": decay, "random": random, "subset": subset} {
		const steps, draws = 11, 10000
		r := rand.New(rand.NewPCG(1, 2))
		had := map[string]bool{}
		for i := range 400 {
			had[nameOf(o.Steps(steps, i, r.IntN))] = true
		}
		size, first, met, held := 0.0, 0.0, map[string]bool{}, make([]float64, steps)
		for range draws {
			own := o.OwnSteps(steps, r.IntN)
			if len(own) == 0 || o.Kind != "subset" && !had[nameOf(own)] || slices.ContainsFunc(own, func(s int) bool { return !slices.Contains(o.Reach(steps), s) }) {
				t.Fatalf("%s: a window %v", name, own)
			}
			size, first, met[nameOf(own)] = size+float64(len(own)), first+float64(own[0]), true
			for _, s := range own {
				held[s]++
			}
		}
		delete(had, nameOf(nil))
		if o.Kind != "subset" && len(met) != len(had) {
			t.Errorf("%s: %d windows are met of %d", name, len(met), len(had))
		}
		for s, want := range o.OwnShares(steps) {
			if math.Abs(held[s]/draws-want) > 0.03 || (held[s] == 0) != (want == 0) {
				t.Errorf("%s: step %d is held by %v of the windows, want %v", name, s, held[s]/draws, want)
			}
		}
		wantSize, wantFirst := o.OwnMean(steps)
		if math.Abs(size/draws-wantSize) > 0.1 || math.Abs(first/draws-wantFirst) > 0.1 {
			t.Errorf("%s: means %v and %v, want %v and %v", name, size/draws, first/draws, wantSize, wantFirst)
		}
	}
}

func nameOf(steps []int) string {
	var name []byte
	for _, s := range steps {
		name = append(name, byte('a'+s))
	}
	return string(name)
}

// machine is MixGRPO's window as its authors wrote it: a position that every iteration
// advances. Position is the same as a function of the iteration.
type machine struct {
	o              WindowOptions
	end            int // T - 2
	cur, it, first int
}

func (m *machine) advance() {
	o, limit := m.o, m.o.Every
	switch o.Lasting {
	case "decay":
		p := float64(m.cur) / float64(m.end)
		limit = max(o.MinEvery, int(float64(o.MaxEvery)*(1-p)+float64(o.MinEvery)*p))
	case "exp_decay":
		limit = int(math.Ceil(float64(limit) * math.Exp(-o.DecayRate*float64(max(0, m.cur-o.DecayFrom)))))
	}
	if m.it++; m.it >= limit {
		m.it = 0
		if o.Stride > 0 {
			m.cur += o.Stride
		} else {
			m.cur += o.Size
		}
	}
	if m.cur > m.end {
		if m.cur = m.end; m.o.RollBack {
			m.cur, m.it = m.first, 0
		}
	}
}

func TestMixGRPOIsItsStateMachine(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 2000 {
		steps := 4 + r.IntN(24)
		end := steps - 2
		o := WindowOptions{Kind: "sliding", Tail: "mixgrpo", Drop: 2, From: r.IntN(end + 1), Size: 1 + r.IntN(end+2), Stride: r.IntN(4), Every: 1 + r.IntN(5), RollBack: r.IntN(2) == 0,
			Lasting: []string{"constant", "decay", "exp_decay"}[r.IntN(3)], MinEvery: r.IntN(4), DecayFrom: r.IntN(steps), DecayRate: r.Float64()}
		o.MaxEvery = o.MinEvery + 1 + r.IntN(5)
		m := machine{o: o, end: end, cur: o.From, first: o.From}
		for i := range 120 {
			if p := o.Position(steps, i); p != (Position{m.cur, m.it}) {
				t.Fatalf("%+v, %d steps, iteration %d: %+v, the machine is at %d, %d", o, steps, i, p, m.cur, m.it)
			}
			if got, want := o.Steps(steps, i, nil), span(m.cur, min(m.cur+o.Size, end)); !slices.Equal(got, want) {
				t.Fatalf("%+v, %d steps, iteration %d: %v, want %v", o, steps, i, got, want)
			}
			m.advance()
		}
	}
}

// UniRL's windows and verl-omni's are whole; their formulas are closed.
func TestStatelessWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 500 {
		size := 1 + r.IntN(4)
		from, every, overlap, back := r.IntN(4), 1+r.IntN(4), r.IntN(size), r.IntN(2) == 0
		steps := from + size + r.IntN(12)
		stride := size - overlap
		rounds := max(1, (steps-from-size)/stride+1)
		unirl := WindowOptions{Kind: "sliding", Tail: "skip", From: from, Size: size, Overlap: overlap, Every: every, RollBack: back}
		verl := WindowOptions{Kind: "sliding", Tail: "shift", From: from, Size: size, Every: every}
		for i := range 60 {
			k := min(i/every, rounds-1)
			if back {
				k = i / every % rounds
			}
			if got, want := unirl.Steps(steps, i, nil), span(from+k*stride, from+k*stride+size); !slices.Equal(got, want) {
				t.Fatalf("%+v, %d steps, iteration %d: %v, want %v", unirl, steps, i, got, want)
			}
			start := min(from+i/every*size, steps-size)
			if got, want := verl.Steps(steps, i, nil), span(start, start+size); !slices.Equal(got, want) {
				t.Fatalf("%+v, %d steps, iteration %d: %v, want %v", verl, steps, i, got, want)
			}
		}
	}
}

// A drawn window starts everywhere in its support and nowhere else; a drawn subset has its
// share of the steps, each of them sometimes.
func TestDrawnWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	o := WindowOptions{Kind: "random", Size: 3, From: 1, Drop: 2}
	starts := map[int]int{}
	for i := range 500 {
		w := o.Steps(10, i, r.IntN)
		if len(w) != 3 {
			t.Fatalf("a window of %v", w)
		}
		starts[w[0]]++
	}
	first, last := o.Support(10)
	for s := range 10 {
		if inside := s >= first && s <= last; inside != (starts[s] > 0) {
			t.Errorf("%d windows start at %d; the support is %d to %d", starts[s], s, first, last)
		}
	}
	if w := (WindowOptions{Kind: "subset", Fraction: 1, Drop: 5}).Steps(3, 0, r.IntN); len(w) != 0 {
		t.Errorf("all steps are dropped, and %v remain", w)
	}
	some := WindowOptions{Kind: "subset", Fraction: 0.6, Drop: 1}
	total := 0
	for s, n := range some.Coverage(10, 500, func(_, n int) int { return r.IntN(n) }) {
		if inside := s < 9; inside != (n > 0) {
			t.Errorf("step %d was drawn %d times", s, n)
		}
		total += n
	}
	if total != 500*5 {
		t.Errorf("%d steps in 500 windows of ⌊9·0.6⌋", total)
	}
}
