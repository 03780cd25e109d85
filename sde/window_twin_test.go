package sde

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

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
