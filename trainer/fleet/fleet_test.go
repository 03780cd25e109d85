package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestWorkers: any number of workers, and the trainer beside them or not, leave the same results in their order.
func TestWorkers(t *testing.T) {
	for _, workers := range []int{0, 1, 2, 5} {
		for _, local := range []bool{true, false} {
			if workers == 0 && !local {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				c := newCrew(t, Options{Local: local})
				var stops []func()
				for i := range workers {
					stop, _ := c.join(workerName(i), takes)
					stops = append(stops, stop)
				}
				synctest.Wait()
				began := time.Now()
				c.do(20)
				all := workers
				if local {
					all++
				}
				if took := time.Since(began); took > 26*time.Second/time.Duration(all)+3*time.Second {
					t.Errorf("%d workers, the trainer too: %v: took %v", workers, local, took)
				}
				if (c.by(Here) > 0) != local {
					t.Errorf("the trainer did %d", c.by(Here))
				}
				if n := c.f.Counts(); n.Jobs != 20 || n.Done != 20 || n.Differed+n.Expired+n.Lost > 0 {
					t.Errorf("%+v", n)
				}
				c.end(stops...)
			})
		}
	}
}

// TestKills: workers are killed, leave, and come at random moments.
func TestKills(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			c := newCrew(t, Options{Local: seed%2 == 0})
			stop, _ := c.join("steady", takes)
			over := make(chan struct{})
			c.work.Go(func() {
				for i := 0; ; i++ {
					bye, kill := c.join(fmt.Sprintf("brief%d", i), takes)
					select {
					case <-over:
						bye()
						return
					case <-time.After(time.Duration(r.IntN(4000)) * time.Millisecond):
					}
					if r.IntN(3) == 0 {
						bye()
					} else {
						kill()
					}
				}
			})
			c.do(30)
			close(over)
			c.end(stop)
		})
	}
}

// TestLoses: messages are lost now and then, and all that waits is wiped every 5 s.
func TestLoses(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			c := newCrew(t, Options{Local: seed%2 == 0})
			c.hub.Loses = func(string) bool { return r.IntN(10) == 0 }
			var stops []func()
			for i := range 3 {
				stop, _ := c.join(workerName(i), takes)
				stops = append(stops, stop)
			}
			over := make(chan struct{})
			c.work.Go(func() {
				for {
					select {
					case <-over:
						return
					case <-time.After(5 * time.Second):
						c.hub.Wipe()
					}
				}
			})
			c.do(40)
			close(over)
			c.end(stops...)
		})
	}
}

// TestPoison: a job that kills its worker is done by the trainer, whose error is the run's.
func TestPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		var stops []func()
		for i := range 3 {
			stop, _ := c.join(workerName(i), func(ctx context.Context, j Job) ([]byte, error) {
				if j.Keys[0].Prompt == 2 {
					return nil, errors.New("out of memory")
				}
				return takes(ctx, j)
			})
			stops = append(stops, stop)
		}
		c.do(6)
		c.says("could not do job")
		c.says("is done here")
		if c.by(Here) != 1 {
			t.Errorf("the trainer did %d", c.by(Here))
		}
		poison := errors.New("sample 0 of prompt 2 is not finite")
		if _, err := c.f.Do(context.Background(), Work{Jobs: jobsOf(3)[2:], Here: func(context.Context, Job) ([]byte, error) { return nil, poison }, Check: anything}); !errors.Is(err, poison) {
			t.Errorf("%v", err)
		}
		c.end(stops...)
	})
}

// TestKept: results of a trainer that was killed are taken by the next one, and unreadable ones are done again.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		stop, _ := c.join("a", takes)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, err := c.f.Do(ctx, Work{Jobs: jobsOf(20), Here: takes, Check: anything}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		c.log = nil
		kept := 0
		for i, j := range jobsOf(20) {
			e, err := c.hub.Kept(context.Background(), j.Name())
			if err != nil {
				t.Fatal(err)
			}
			if e == nil {
				continue
			}
			if kept++; i == 1 {
				c.hub.mu.Lock()
				c.hub.blobs[e.Payload] = []byte("spoilt")
				c.hub.mu.Unlock()
			}
		}
		if kept < 3 {
			t.Fatalf("%d results were kept", kept)
		}
		c.do(20)
		c.says("there is no such blob")
		n := 0
		for _, e := range c.log {
			if e.Kept {
				n++
			}
		}
		if n != kept-1 {
			t.Errorf("%d of %d kept results were taken", n, kept)
		}
		c.end(stop)
	})
}

// TestHedged: a worker that hangs does not hold a roll, and its job is withdrawn.
func TestHedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		stopped := false
		stopA, _ := c.join("a", takes)
		stopB, _ := c.join("slow", func(ctx context.Context, j Job) ([]byte, error) {
			stopped = !sleep(ctx, time.Hour)
			return answer(j), ctx.Err()
		})
		began := time.Now()
		c.do(10)
		synctest.Wait()
		if took := time.Since(began); took > time.Minute || !stopped || c.f.Counts().Hedged != 1 {
			t.Errorf("it took %v; withdrawn: %v; %+v", took, stopped, c.f.Counts())
		}
		c.end(stopA, stopB)
	})
}

// TestLateWorker: a trainer that leaves rolls to workers does them until one comes, and says so.
func TestLateWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		joined := make(chan func(), 1)
		c.work.Go(func() {
			time.Sleep(20 * time.Second)
			stop, _ := c.join("late", takes)
			joined <- stop
		})
		c.do(40)
		c.says("no worker is there, and 40 jobs wait")
		if here, late := c.by(Here), c.by("late"); here < 5 || here > 15 || here+late != 40 {
			t.Errorf("the trainer did %d, and the late worker %d", here, late)
		}
		c.end(<-joined)
	})
}

// TestForsaken: a trainer that leaves jobs to others waits for a first worker for the time of a lease, and no further
// time at each batch; a worker that came between two batches does the jobs of the second.
func TestForsaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		took := func() time.Duration {
			began := time.Now()
			c.do(1)
			return time.Since(began)
		}
		if first, second := took(), took(); first < 5*time.Second || second > 2*time.Second || c.by(Here) != 2 {
			t.Errorf("without workers %v and %v; %d jobs of 2 were done here", first, second, c.by(Here))
		}
		stop, _ := c.join("late", takes)
		synctest.Wait()
		c.do(20)
		if here := c.by(Here); here != 2 {
			t.Errorf("%d jobs were done here beside a worker", here-2)
		}
		c.end(stop)
	})
}

// TestOutOfReach: a result that cannot be brought is brought when the trainer is there again.
func TestOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{Rules: Rules{Lease: time.Minute, Silence: time.Minute, Tries: 2}})
		did := 0
		ctx, cancel := context.WithCancel(context.Background())
		w := Worker{Name: "a", Link: &far{Link: c.hub.Link("a"), until: time.Now().Add(20 * time.Second)}, Beat: time.Second, Logf: t.Logf,
			Do: func(ctx context.Context, j Job) ([]byte, error) { did++; return takes(ctx, j) }}
		c.work.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		c.do(2)
		if did != 2 || c.f.Counts().Failed != 0 {
			t.Errorf("%d jobs were done, and 2 asked for: %+v", did, c.f.Counts())
		}
		c.end(cancel)
	})
}

// far is a link that blobs do not pass for a while.
type far struct {
	Link
	until time.Time
}

func (f *far) Put(ctx context.Context, data []byte) (Blob, error) {
	if time.Now().Before(f.until) {
		return Blob{}, errors.New("out of reach")
	}
	return f.Link.Put(ctx, data)
}

// TestEach: results are passed on as they come, all of them, and once more where a worker was dismissed and its job
// done again; never while the trainer does something itself.
func TestEach(t *testing.T) {
	for _, local := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrew(t, Options{Local: local, Audit: 1})
			stop, _ := c.join("honest", takes)
			bad, _ := c.join("liar", func(ctx context.Context, j Job) ([]byte, error) {
				payload, err := takes(ctx, j)
				return append(payload, "!"...), err
			})
			work, passed, here, early := Work{Jobs: jobsOf(20), Check: results}, map[int]string{}, false, 0
			work.Here = func(ctx context.Context, j Job) ([]byte, error) {
				here = true
				defer func() { here = false }()
				return takes(ctx, j)
			}
			work.Each = func(i int, payload []byte) error {
				if here {
					t.Error("the trainer is at something")
				}
				if passed[i] = string(payload); len(passed) < 20 {
					early++
				}
				return nil
			}
			if _, err := c.f.Do(t.Context(), work); err != nil {
				t.Fatal(err)
			}
			for i, j := range work.Jobs {
				if passed[i] != string(answer(j)) {
					t.Errorf("job %d: passed on last: %q", i, passed[i])
				}
			}
			if early < 10 || c.f.Refused()["liar"] == "" {
				t.Errorf("%d were passed on before all were there; dismissed %v", early, c.f.Refused())
			}
			broken := errors.New("it cannot be used")
			work.Each = func(int, []byte) error { return broken }
			if _, err := c.f.Do(t.Context(), work); !errors.Is(err, broken) {
				t.Error(err)
			}
			c.end(stop, bad)
		})
	}
}

// TestIdleWorkers: a worker is named if the run has no job for it, with the reason.
func TestIdleWorkers(t *testing.T) {
	c := newCrew(t, Options{Local: true})
	c.f.idle = "the run has no such jobs"
	c.f.met(Event{Worker: "w", About: &About{}})
	c.f.Flush()
	c.says("worker w waits for nothing: the run has no such jobs")
}
