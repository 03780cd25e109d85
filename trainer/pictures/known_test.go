package pictures_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
)

// TestKnownAnswers: what was answered in a roll is not asked again before the weights move, and outputs and gradients
// are the same bytes as if it were; a network that would answer otherwise is an error.
func TestKnownAnswers(t *testing.T) {
	p := painter(t, 3, flowSDE)
	p.Micro = 2
	roll := func() (points []trainer.Point) {
		samples, err := p.Roll(trainer.Current, many()[:4])
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			points = append(points, trainer.Point{Key: s.Key, State: s.Decisions.State[0], Time: s.Decisions.Time[0]})
		}
		return points
	}
	points := roll()
	// back goes forward and backward, and gives the bytes of outputs and gradients.
	back := func() (outputs [][]float64, grads []byte, err error) {
		answers, err := p.Eval(trainer.Current, points)
		if err != nil {
			return nil, nil, err
		}
		outputs = answers.Outputs
		if err := answers.Back(outputs); err != nil {
			return nil, nil, err
		}
		for _, w := range p.Moved() {
			g := w.Grad()
			grads = append(grads, g.Bytes()...)
			w.ZeroGrad()
		}
		return outputs, grads, nil
	}
	if n, all, err := p.Known(points); err != nil || all != 2 || n != 2 {
		t.Fatalf("%d of %d passes are known (%v)", n, all, err)
	}
	one, gradients, err := back()
	if err != nil {
		t.Fatal(err)
	}
	if other := slices.Clone(points); true {
		other[3].State = slices.Clone(other[3].State)
		if n, _, err := p.Known(other); err != nil || n != 1 {
			t.Errorf("%d passes with a state that was not rolled are known (%v)", n, err)
		}
	}
	p.Spoil()
	if _, _, err := back(); err == nil || !strings.Contains(err.Error(), "answers otherwise") {
		t.Errorf("other answers than were known: %v", err)
	}
	for _, w := range p.Moved() {
		w.ZeroGrad()
	}
	p.Unlearn()
	two, same, err := back()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(one, two, slices.Equal) || !bytes.Equal(gradients, same) {
		t.Error("what is known has other bytes than what is asked")
	}
	first := roll()
	points = roll()
	for name, of := range map[string][]trainer.Point{"the first portion": first, "the second": points} { // of a roll
		if n, _, err := p.Known(of); err != nil || n != 2 {
			t.Errorf("%d of 2 passes of %s are known (%v)", n, name, err)
		}
	}
	answers, err := p.Eval(trainer.Current, points)
	if err != nil {
		t.Fatal(err)
	}
	if err := answers.Back(answers.Outputs); err != nil {
		t.Fatal(err)
	}
	p.Params().Move(1, 1e-3)
	if n, _, err := p.Known(points); err != nil || n != 0 {
		t.Errorf("%d passes are known after the weights moved (%v)", n, err)
	}
}
