package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// TestWithdrawn: a job that was withdrawn while it waited is given to nobody.
func TestWithdrawn(t *testing.T) {
	h := NewInside()
	defer h.Close()
	ctx, all := t.Context(), jobsOf(2)
	for _, j := range all {
		if err := h.Offer(ctx, j.Name(), j, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Withdraw(ctx, all[0].Name()); err != nil {
		t.Fatal(err)
	}
	if j, err := h.Take(ctx); err != nil || j == nil || j.Name() != all[1].Name() {
		t.Errorf("took %v, %v", j, err)
	}
	if j, err := h.Take(ctx); err != nil || j != nil {
		t.Errorf("then took %v, %v", j, err)
	}
}

// TestOpeningEnds: a job that ends while its model is opened ends the opening, and not the worker.
func TestOpeningEnds(t *testing.T) {
	hub := NewInside()
	defer hub.Close()
	text, err := Setup{Config: "[run]", Train: []prompts.Prompt{{Text: "a"}}}.pack()
	if err != nil {
		t.Fatal(err)
	}
	setup, err := hub.Put(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	job, withdraw := context.WithCancel(t.Context())
	var ends error
	s := &Executor{Blobs: hub, Open: func(ctx context.Context, _ Setup) (model.Model, *experiment.Experiment, error) {
		withdraw()
		ends = ctx.Err()
		return nil, nil, fmt.Errorf("counting: %w", ends)
	}}
	var lost Unfit
	if _, err := s.Do(job, Job{Setup: setup}); !errors.Is(err, context.Canceled) || errors.As(err, &lost) || !errors.Is(ends, context.Canceled) {
		t.Errorf("%v, with %v in the opening", err, ends)
	}
	s.Open = func(ctx context.Context, _ Setup) (model.Model, *experiment.Experiment, error) {
		return nil, nil, ctx.Err()
	}
	if _, err := s.Do(t.Context(), Job{Setup: setup}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the next job: %v", err)
	}
}

// TestTold: a worker's description of itself is a bounded line, in the name of its key.
func TestTold(t *testing.T) {
	e := Event{Worker: "another", Why: "a\nb\x1b[2J", About: &About{Host: "host\nfleet: FORGED LINE", Device: strings.Repeat("x", 100000)}}.From("own")
	if e.Worker != "own" || e.Why != "a b [2J" || e.About.Host != "host fleet: FORGED LINE" || len(e.About.Device) > 2*mostNamed {
		t.Errorf("%q, %q, %q and %d letters", e.Worker, e.Why, e.About.Host, len(e.About.Device))
	}
}
