package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// recalling is a model whose samples have one number, and that knows no outputs.
type recalling struct {
	model.Model
	model.Recaller
	skips int
}

func (m *recalling) Passes() *ledger.Passes                                      { return nil }
func (m *recalling) Params() trainer.Params                                      { return skipping{nil, m} }
func (m *recalling) Remember([]trainer.Sample, [][][]float64, func(trainer.Key)) {}

func (m *recalling) Items(samples []trainer.Sample) ([]rewards.Item, error) {
	return make([]rewards.Item, len(samples)), nil
}

type skipping struct {
	trainer.Params
	of *recalling
}

func (p skipping) Skip() { p.of.skips++ }

func rolls(_ context.Context, keys []trainer.Key) (all []trainer.Sample, err error) {
	for _, k := range keys {
		all = append(all, trainer.Sample{Key: k, Item: trainer.Item{Final: []float64{float64(k.Sample)}}})
	}
	return all, nil
}

// TestSettle: a worker whose job has other bytes here is dismissed, and the results of its jobs are forgotten. One with
// the same bytes is honest: the network answers otherwise than it rolled. Answers of programs are not compared.
func TestSettle(t *testing.T) {
	key := func(prompt int) trainer.Key { return trainer.Key{Prompt: prompt} }
	for what, c := range map[string]struct {
		doubts []trainer.Key
		impure bool
		want   error
		gone   []string
	}{
		"no doubt":          {},
		"a liar":            {doubts: []trainer.Key{key(0)}, want: ErrMisled, gone: []string{"liar"}},
		"an honest one":     {doubts: []trainer.Key{key(1)}, want: model.ErrOtherwise},
		"both":              {doubts: []trainer.Key{key(0), key(1)}, want: model.ErrOtherwise, gone: []string{"liar"}},
		"the trainer":       {doubts: []trainer.Key{key(2)}, want: model.ErrOtherwise},
		"nobody":            {doubts: []trainer.Key{key(7)}, want: model.ErrOtherwise},
		"a liar's programs": {doubts: []trainer.Key{key(0)}, impure: true, want: ErrMisled, gone: []string{"liar"}},
	} {
		hub := NewInside()
		own := &recalling{}
		said := ""
		logs := func(format string, args ...any) { said += fmt.Sprintf(format, args...) + "\n" }
		m := &Model{Model: own, recaller: own, fleet: New(Options{Hub: hub, Logf: logs}), e: &experiment.Experiment{}, ctx: newChanging(), impure: c.impure, doubts: map[trainer.Key]bool{}}
		for i, by := range []string{"liar", "honest", Here, "liar"} {
			j := Job{Keys: []Keys{{Prompt: i, Samples: 1}}}
			payload, err := (&share{Model: m, roll: rolls}).here(t.Context(), j)
			if err != nil {
				t.Fatal(err)
			}
			if by == "liar" {
				payload[len(payload)-1] ^= 1
			}
			m.made = append(m.made, made{Job: j, by: by, payload: HashOf(payload), roll: rolls})
			if by == Here {
				continue
			}
			if err := hub.Link(by).Send(t.Context(), Event{Kind: Done, Job: j.Name(), Payload: HashOf(payload)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range c.doubts {
			m.doubt(k)
		}
		if err := m.settle(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
		for _, j := range m.made {
			asked := j.by != Here && slices.ContainsFunc(j.All(), func(k trainer.Key) bool { return slices.Contains(c.doubts, k) })
			if asked && !strings.Contains(said, j.Job.String()+" of worker "+j.by+" says") {
				t.Errorf("%s: of job %s it says %q", what, j.Job, said)
			}
		}
		if got := m.fleet.Refused(); len(got) != len(c.gone) || len(c.gone) > 0 && got["liar"] == "" {
			t.Errorf("%s: dismissed %v", what, got)
		}
		if (own.skips > 0) != (c.want != nil) || m.anew != (c.want == ErrMisled) {
			t.Errorf("%s: the gradient was dropped %d times, and the iteration begins anew: %v", what, own.skips, m.anew)
		}
		for _, j := range m.made {
			kept, err := hub.Kept(t.Context(), j.Name())
			if want := j.by == "honest" || j.by == "liar" && c.want != ErrMisled; err != nil || (kept != nil) != want {
				t.Errorf("%s: of %s a result is kept: %v, %v", what, j.by, kept != nil, err)
			}
		}
		if err := m.settle(t.Context()); err != nil {
			t.Errorf("%s: a second time: %v", what, err)
		}
		if err := hub.Close(); err != nil {
			t.Error(err)
		}
	}
}
