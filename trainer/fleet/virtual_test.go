package fleet

import (
	"flag"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/exchange"
)

var long = flag.Bool("long", false, "schedule fleets of 64 workers and more")

// TestVirtual drives the scheduler through fleets of up to 1,000 workers and 100,000 jobs. The large ones need
// -long, which with -v prints the table that LOG.md has.
func TestVirtual(t *testing.T) {
	pictures := world{jobs: 2048, base: 20 * time.Second, sigma: 0.08, cap: 4, train: 10 * time.Second, batches: 24, warm: 6}
	episodes := world{jobs: 2048, base: 60 * time.Second, sigma: 0.8, cap: 5, train: 30 * time.Second, batches: 24, warm: 8}
	few := world{jobs: 256, base: 20 * time.Second, sigma: 0.08, cap: 4, train: 10 * time.Second, batches: 16, warm: 4}
	failing := func(every time.Duration) func(w *world) {
		return func(w *world) { w.jobs, w.between = 4*w.workers, every }
	}
	table := *long
	if !table {
		t.Log("skipped: fleets of 64 workers and more, without -long (make fleet)")
	}
	for _, c := range []struct {
		what         string
		of           world
		workers, lag int
		change       func(w *world)
		least        float64 // of the time is useful
		small        bool
	}{
		{"pictures", few, 32, 0, nil, 0.70, true},
		{"pictures", few, 32, 1, nil, 0.90, true},
		{"pictures, a failure every 15 min", few, 32, 1, failing(15 * time.Minute), 0.70, true},
		{"pictures, a fifth of all that is said is lost", few, 32, 1, func(w *world) { w.deaf = 0.2 }, 0.40, true},
		{"pictures", pictures, 64, 0, nil, 0.93, false},
		{"pictures", pictures, 256, 0, nil, 0.80, false},
		{"pictures", pictures, 1000, 0, nil, 0.50, false},
		{"pictures", pictures, 64, 1, nil, 0.97, false},
		{"pictures", pictures, 256, 1, nil, 0.96, false},
		{"pictures", pictures, 1000, 1, nil, 0.94, false},
		{"pictures", pictures, 1000, 2, nil, 0.95, false},
		{"episodes", episodes, 64, 0, nil, 0.80, false},
		{"episodes", episodes, 1000, 0, nil, 0.20, false},
		{"episodes", episodes, 1000, 1, nil, 0.45, false},
		{"episodes", episodes, 1000, 2, nil, 0.70, false},
		{"episodes", episodes, 1000, 4, nil, 0.95, false},
		{"pictures, a failure every 4 h", pictures, 1000, 0, failing(4 * time.Hour), 0.45, false},
		{"pictures, a failure every 4 h", pictures, 1000, 1, failing(4 * time.Hour), 0.92, false},
		{"pictures, a failure every hour", pictures, 1000, 0, failing(time.Hour), 0.40, false},
		{"pictures, a failure every hour", pictures, 1000, 1, failing(time.Hour), 0.90, false},
		{"pictures, a failure every hour", pictures, 1000, 2, failing(time.Hour), 0.90, false},
		{"pictures, a failure every 15 min", pictures, 1000, 1, failing(15 * time.Minute), 0.65, false},
		{"pictures, a failure every 15 min", pictures, 1000, 2, failing(15 * time.Minute), 0.75, false},
		{"pictures, 2 % five times slower", pictures, 256, 0, func(w *world) { w.slow = 0.02 }, 0.70, false},
		{"pictures, 2 % five times slower, no hedges", pictures, 256, 0, func(w *world) { w.slow, w.rules.Hedge = 0.02, 0 }, 0.50, false},
		{"pictures, 2 % five times slower", pictures, 256, 1, func(w *world) { w.slow = 0.02 }, 0.95, false},
	} {
		if !c.small && !table {
			continue
		}
		w := c.of
		w.workers, w.lag, w.rules, w.seed = c.workers, c.lag, Usual(), 1
		if c.change != nil {
			c.change(&w)
		}
		began := time.Now()
		useful := w.run(t)
		t.Logf("%-46s %4d workers  lag %d  %6d jobs  busy %5.1f %%  %+v  (%.1f s)", c.what, w.workers, w.lag, len(w.length), 100*useful, w.sched.Counts, time.Since(began).Seconds())
		if useful < c.least || w.sched.Differed > 0 {
			t.Errorf("%s: %.1f %% of the time is useful, want %.0f", c.what, 100*useful, 100*c.least)
		}
	}
}

// TestVirtualGradients drives the scheduler through updates whose gradients workers compute, the trainer among them,
// beside 1,000 workers that roll. Of each job the trainer receives a gradient, so its wire bounds the workers of use.
// -long -v prints the table.
func TestVirtualGradients(t *testing.T) {
	const shards, forwards = 512, 40 * time.Second // of a shard's passes on one worker
	for _, c := range []struct {
		workers  int
		gradient float64 // bytes
		gigabits float64
		least    float64 // of the time is useful
		small    bool
	}{
		{8, 179e6, 10, 0.8, true},
		{64, 179e6, 10, 0.65, false},
		{256, 19e6, 10, 0.65, false},
		{256, 179e6, 100, 0.65, false},
		{256, 179e6, 10, 0.6, false},
		{256, 717e6, 10, 0.2, false},
	} {
		if !c.small && !*long {
			continue
		}
		jobs := len(exchange.Owned(shards, min(shards, 2*c.workers)))
		w := world{workers: c.workers, jobs: jobs, base: forwards * shards / time.Duration(jobs), sigma: 0.02, cap: 2, train: time.Second, batches: 8, warm: 2, rules: Usual(), seed: 1}
		w.wire = time.Duration(c.gradient * 8 / (c.gigabits * 1e9) * float64(time.Second))
		useful := w.run(t)
		update := (w.ends[w.batches-1] - w.ends[w.warm]) / time.Duration(w.batches-1-w.warm)
		rolls := world{workers: 1000, jobs: 2048, base: 20 * time.Second, sigma: 0.08, cap: 4, train: update, lag: 1, batches: 12, warm: 4, rules: Usual(), seed: 1}
		busy := 0.0
		if *long {
			busy = rolls.run(t)
		}
		t.Logf("%4d workers of gradients, %3.0f MB at %3.0f Gb/s: %3d jobs, %6.1f GB at the trainer (%5.1f s), an update %6.1f s, busy %5.1f %%; 1000 that roll %5.1f %%  %+v",
			c.workers, c.gradient/1e6, c.gigabits, jobs, float64(jobs)*c.gradient/1e9, w.wire.Seconds()*float64(jobs), update.Seconds(), 100*useful, 100*busy, w.sched.Counts)
		if useful < c.least || w.sched.Differed > 0 {
			t.Errorf("%d workers of gradients: %.1f %% of the time is useful, want %.0f", c.workers, 100*useful, 100*c.least)
		}
	}
}
