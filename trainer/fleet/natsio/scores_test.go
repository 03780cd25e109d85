package natsio

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// TestScores: a worker for rewards gets its items and nothing else, and a rolling worker gets none of those.
func TestScores(t *testing.T) {
	b, err := Listen(Address{Listen: "127.0.0.1:0", Dir: t.TempDir(), Run: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	gold := rewards.Each(rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
		return rewards.Score{Value: float64(len(item.Prompt))}, nil
	}), 1)
	var work sync.WaitGroup
	at, stop := context.WithCancel(ctx)
	for name, role := range map[string]fleet.Role{"rolls": fleet.Rolls, "asks": fleet.Scorers} {
		l, err := Join(t.Context(), b.Ticket, name, role, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		p := &fleet.Panel{Blobs: l, Open: func(fleet.Setup) (map[string]rewards.Judge, func() error, error) {
			return map[string]rewards.Judge{"gold": gold}, func() error { return nil }, nil
		}}
		w := fleet.Worker{Name: name, Link: l, Beat: 200 * time.Millisecond, Logf: t.Logf, Do: func(ctx context.Context, j fleet.Job) ([]byte, error) {
			if (j.Score != nil) != (role == fleet.Scorers) {
				t.Errorf("worker %s got job %s", name, j)
			}
			if j.Score == nil {
				return answer(j), nil
			}
			return p.Do(ctx, j)
		}}
		work.Go(func() {
			defer l.Close()
			if err := w.Run(at); err != nil {
				t.Error(err)
			}
		})
	}
	f := fleet.New(fleet.Options{Hub: b.Hub.As(fleet.Scorers), Rules: fleet.Patient(), Logf: t.Logf})
	s, err := f.OpenScores(fleet.Setup{Config: "[run]", Train: []prompts.Prompt{{Text: "a"}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	for f.Workers() == 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	here := rewards.Each(rewards.Func(func(context.Context, rewards.Item) (rewards.Score, error) {
		return rewards.Score{}, errors.New("it was asked here")
	}), 1)
	var all sync.WaitGroup
	for n := range 5 {
		all.Go(func() {
			for i, r := range s.Score(ctx, "gold", []rewards.Item{{Prompt: strings.Repeat("a", n)}, {Prompt: "abc"}}, here) {
				if want := []int{n, 3}[i]; r.Missing != nil || r.Value != float64(want) {
					t.Errorf("%+v, want %d", r, want)
				}
			}
		})
	}
	do(t, b, 3, false)
	all.Wait()
	s.Close()
	stop()
	work.Wait()
}
