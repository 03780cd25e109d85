package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Workers for tests of runs that others help.

// soon are rules of a fleet of goroutines.
var soon = fleet.Rules{Lease: 5 * time.Second, Hedge: 1.5, Silence: 2 * time.Second, Tries: 5}

// crew are workers inside this process, each with a model and a thread of its own.
type crew struct {
	*testing.T
	hub    *fleet.Inside
	scores *fleet.Inside // for workers that ask rewards; nil without them
	judges *fleet.Inside // for workers that compute them; nil without them
	paths  []isa.Path    // of workers who roll, in turn; nil: this machine's best
	joined int
	work   sync.WaitGroup
	end    context.CancelFunc
	ctx    context.Context

	networks *fleet.Fleet // of judges, once a run is trained
}

func newCrew(t *testing.T) *crew {
	c := &crew{T: t, hub: fleet.NewInside()}
	c.ctx, c.end = context.WithCancel(context.Background())
	return c
}

// close ends all workers.
func (c *crew) close() {
	c.end()
	c.work.Wait()
	if err := c.hub.Close(); err != nil {
		c.Error(err)
	}
}

// join lets a worker work until it is killed, or the crew ends. spoil changes its results.
func (c *crew) join(name string, spoil func(j fleet.Job, payload []byte) []byte) (kill func()) {
	path, err := isa.Choose()
	if err != nil {
		c.Fatal(err)
	}
	if len(c.paths) > 0 {
		path = c.paths[c.joined%len(c.paths)]
	}
	c.joined++
	ctx, cancel := context.WithCancel(c.ctx)
	link := c.hub.Link(name)
	c.work.Go(func() {
		be := cpu.NewWith(cpu.Options{Path: path, Threads: 1})
		defer be.Close()
		about := fleet.About{Class: "test"}
		s := &fleet.Executor{Blobs: link, About: about, Open: func(ctx context.Context, s fleet.Setup) (model.Model, *experiment.Experiment, error) {
			return OpenWorker(s, Worker{Memory: "1GiB", Say: c.Logf, Allowed: Allowed{Programs: true}}, model.Options{Backend: be, Context: ctx})
		}}
		defer s.Close()
		do := s.Do
		if spoil != nil {
			do = func(ctx context.Context, j fleet.Job) ([]byte, error) {
				payload, err := s.Do(ctx, j)
				return spoil(j, payload), err
			}
		}
		w := fleet.Worker{Name: name, Link: silent{link, ctx}, About: about, Beat: time.Second, Do: do, Say: c.Logf}
		if err := w.Run(ctx); err != nil && !errors.Is(err, fleet.ErrDismissed) {
			c.Errorf("worker %s: %v", name, err)
		}
	})
	return cancel
}

// judge lets a worker ask rewards until it is killed.
func (c *crew) judge(name string) (kill func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	link := c.scores.Link(name)
	c.work.Go(func() {
		p := &fleet.Panel{Blobs: link, Open: func(s fleet.Setup) (map[string]rewards.Judge, func() error, error) {
			return OpenRewards(s, nil, Allowed{Programs: true})
		}}
		defer p.Close()
		w := fleet.Worker{Name: name, Link: silent{link, ctx}, Beat: time.Second, Do: p.Do, Say: c.Logf}
		if err := w.Run(ctx); err != nil {
			c.Errorf("worker %s: %v", name, err)
		}
	})
	return cancel
}

// compute lets a worker compute rewards that are networks until it is killed. spoil changes its results.
func (c *crew) compute(name string, spoil func(payload []byte) []byte) (kill func()) {
	path, err := isa.Choose()
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	link := c.judges.Link(name)
	c.work.Go(func() {
		be := cpu.NewWith(cpu.Options{Path: path, Threads: 1})
		defer be.Close()
		p := &fleet.Panel{Blobs: link, Open: func(s fleet.Setup) (map[string]rewards.Judge, func() error, error) {
			return OpenRewards(s, be, Allowed{})
		}}
		defer p.Close()
		do := func(ctx context.Context, j fleet.Job) ([]byte, error) {
			payload, err := p.Do(ctx, j)
			if spoil != nil && err == nil {
				payload = spoil(payload)
			}
			return payload, err
		}
		w := fleet.Worker{Name: name, Link: silent{link, ctx}, Beat: time.Second, Do: do, Say: c.Logf}
		if err := w.Run(ctx); err != nil && !errors.Is(err, fleet.ErrDismissed) {
			c.Errorf("worker %s: %v", name, err)
		}
	})
	return cancel
}

// silent is a link of a worker that says nothing once it is killed.
type silent struct {
	fleet.Link
	alive context.Context
}

func (s silent) Say(ctx context.Context, e fleet.Event) error {
	if s.alive.Err() != nil {
		return nil
	}
	return s.Link.Say(ctx, e)
}

// train runs an experiment with the crew.
func (c *crew) train(e *experiment.Experiment, o Options, f fleet.Options) (*ledger.Result, *fleet.Fleet) {
	c.Helper()
	return c.trainUntil(context.Background(), e, o, f)
}

// trainUntil is train until ctx ends.
func (c *crew) trainUntil(ctx context.Context, e *experiment.Experiment, o Options, f fleet.Options) (*ledger.Result, *fleet.Fleet) {
	c.Helper()
	if f.Say = o.Say; f.Say == nil {
		f.Say = c.Logf
	}
	f.Hub, f.Rules = c.hub, soon
	own := fleet.New(f)
	by, patient := Fleets{Rolls: own}, fleet.Rules{Lease: 5 * time.Second, Silence: 2 * time.Second, Tries: 2}
	if c.scores != nil {
		by.Scores = fleet.New(fleet.Options{Hub: c.scores, Rules: patient, Say: own.Tell})
	}
	if c.judges != nil {
		by.Networks = fleet.New(fleet.Options{Hub: c.judges, Rules: patient, Say: own.Tell, Audit: f.Audit})
		c.networks = by.Networks
	}
	o.Fleet, o.Class = func() (Fleets, error) { return by, nil }, "test"
	r, err := trainUntil(ctx, c.T, e, o)
	if err != nil {
		c.Fatal(err)
	}
	return r, own
}

// workOf is the number of jobs of each worker in fleet.jsonl, which it deletes.
func workOf(t *testing.T, dir string) map[string]int {
	t.Helper()
	path := filepath.Join(dir, ledger.FleetFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	by := map[string]int{}
	for line := range bytes.Lines(text) {
		var e fleet.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Dismissed == "" {
			by[e.Worker]++
		}
	}
	return by
}
