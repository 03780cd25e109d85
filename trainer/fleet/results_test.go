package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// results holds results to their jobs, as runs do.
func results(j Job, payload []byte) error {
	if !bytes.HasPrefix(payload, []byte("the result")) {
		return errors.New("it is none")
	}
	return nil
}

// TestSilentBlob: a worker whose results do not come is as one that fell silent: the others' events are taken
// meanwhile, its jobs are done by them, and an interrupt is obeyed at once.
func TestSilentBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{Rules: Rules{Lease: 5 * time.Second, Silence: 4 * time.Second, Tries: 5}})
		mute := false // requests to the hub
		c.hub.Loses = func(what string) bool { return what == "blob" && mute }
		silent := c.hub.Link("silent")
		says := func(e Event) {
			if err := silent.Send(context.Background(), e); err != nil {
				t.Error(err)
			}
		}
		says(Event{Kind: Hello, About: &About{}})
		ctx, interrupt := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := c.f.Do(ctx, Work{Jobs: jobsOf(4), Here: takes, Check: results, Most: func(Job) int64 { return 1 << 20 }})
			done <- err
		}()
		synctest.Wait()
		j, err := silent.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mute = true
		says(Event{Kind: Begun, Job: j.Name()})
		says(Event{Kind: Done, Job: j.Name(), Payload: Hash{1}, Bytes: 1 << 20})
		synctest.Wait()
		mute = false
		stop, _ := c.join("honest", takes)
		time.Sleep(20 * time.Second)
		if n := c.f.Counts(); n.Done != 3 {
			t.Errorf("beside a result that does not come %d of 3 others are done", n.Done)
		}
		time.Sleep(Blob{Size: 1 << 20}.Limit())
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.says("from worker silent is of no use, and it is done again: it did not come within 34 s")
		if len(c.f.Refused()) > 0 {
			t.Errorf("a wire that is slow is no reason to dismiss: %v", c.f.Refused())
		}

		mute = true
		go func() {
			_, err := c.f.Do(ctx, Work{Jobs: jobsOf(5)[4:], Here: takes, Check: results})
			done <- err
		}()
		time.Sleep(5 * time.Second) // the honest one says that it has done it
		interrupt()
		began := time.Now()
		if err := <-done; !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		c.end(stop)
	})
}

// TestUseless: results that cannot be their jobs' dismiss their workers as soon as the trainer has compared one; a
// worker that was right is not dismissed; and of results that nobody can compare the third one dismisses.
func TestUseless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		stop, _ := c.join("honest", takes)
		bad, _ := c.join("liar", func(ctx context.Context, j Job) ([]byte, error) {
			_, err := takes(ctx, j)
			return []byte("nonsense"), err
		})
		c.do(20)
		if why := c.f.Refused(); len(why) != 1 || !strings.Contains(why["liar"], "other bits") || c.by("liar") > 0 || c.by(Here) > 3 {
			t.Errorf("dismissed: %v; the trainer did %d:\n%s", why, c.by(Here), strings.Join(c.said, "\n"))
		}
		c.end(stop, bad)
	})
	synctest.Test(t, func(t *testing.T) { // Check is wrong
		c := newCrew(t, Options{})
		stop, _ := c.join("honest", takes)
		fails := true
		work := Work{Jobs: jobsOf(20), Here: takes, Check: func(Job, []byte) error {
			if fails {
				fails = false
				return errors.New("too large")
			}
			return nil
		}}
		got, err := c.f.Do(t.Context(), work)
		for i, j := range work.Jobs {
			if err != nil || !bytes.Equal(got[i], answer(j)) {
				t.Fatal(i, err)
			}
		}
		c.says("worker honest was right about job")
		if len(c.f.Refused()) > 0 || c.by("honest") < 15 {
			t.Errorf("dismissed: %v; it did %d", c.f.Refused(), c.by("honest"))
		}
		c.end(stop)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		stop, _ := c.join("honest", takes)
		n := 0
		bad, _ := c.join("liar", func(ctx context.Context, j Job) ([]byte, error) {
			n++
			_, err := takes(ctx, j)
			return fmt.Append(nil, "nonsense", n), err
		})
		if _, err := c.f.Do(t.Context(), Work{Jobs: jobsOf(20), Here: takes, Check: results, Impure: true}); err != nil {
			t.Fatal(err)
		}
		if why := c.f.Refused()["liar"]; !strings.Contains(why, "3 results of it were of no use") || c.f.Counts().Failed != 3 {
			t.Errorf("%q, %+v", why, c.f.Counts())
		}
		c.end(stop, bad)
	})
}

// TestClaims: a size that no result of the job has is not waited for.
func TestClaims(t *testing.T) {
	for _, claimed := range []int{0, -1, 1<<20 + 1, 1 << 44} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrew(t, Options{})
			c.hub.Loses = func(what string) bool { return what == "blob" }
			l := c.hub.Link("liar")
			ctx, end := context.WithCancel(t.Context())
			c.work.Go(func() {
				for ctx.Err() == nil {
					if j, err := l.Next(ctx); err == nil {
						_ = l.Send(ctx, Event{Kind: Begun, Job: j.Name()})
						_ = l.Send(ctx, Event{Kind: Done, Job: j.Name(), Bytes: claimed})
						time.Sleep(time.Millisecond)
					} else if errors.Is(err, ErrDismissed) {
						return
					}
				}
			})
			began := time.Now()
			if _, err := c.f.Do(t.Context(), Work{Jobs: jobsOf(3), Here: takes, Check: results, Most: func(Job) int64 { return 1 << 20 }}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 40*time.Second || c.f.Refused()["liar"] == "" { // the trainer comes after the lease of nobody
				t.Errorf("%d bytes: it took %v; dismissed: %v\n%s", claimed, took, c.f.Refused(), strings.Join(c.said, "\n"))
			}
			c.end(end)
		})
	}
}

// TestHangs: a worker whose device hangs says again and again that it is at its job, and alone or beside the trainer
// it does not hold up a run.
func TestHangs(t *testing.T) {
	for _, local := range []bool{true, false} {
		for _, first := range []bool{true, false} { // whether a job of the kind was finished before
			synctest.Test(t, func(t *testing.T) {
				c := newCrew(t, Options{Local: local, Rules: Usual()})
				did := 0
				stop, _ := c.join("hangs", func(ctx context.Context, j Job) ([]byte, error) {
					if did++; did > 4 || first {
						sleep(ctx, time.Hour*100)
						return nil, ctx.Err()
					}
					return takes(ctx, j)
				})
				synctest.Wait()
				began := time.Now()
				c.do(10)
				most := time.Minute
				if first {
					most = 10 * time.Minute
				}
				if !local { // the trainer does all of them, one after the other
					most = 11 * most
				}
				if time.Since(began) > 2*mute {
					c.says(" of 10 jobs are done; the first of the others is")
				}
				if took := time.Since(began); took > most+time.Minute {
					t.Errorf("the trainer too: %v, from the first job on: %v: it took %v", local, first, took)
				}
				c.end(stop)
			})
		}
	}
}

// TestFallsSilent: a worker whose job does not go on for some minutes says nothing more, and says so here; once it goes
// on the worker is there again.
func TestFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		var lock sync.Mutex // of both
		moved, told := time.Now(), ""
		said := func() string {
			lock.Lock()
			defer lock.Unlock()
			return told
		}
		ctx, stop := context.WithCancel(t.Context())
		w := Worker{Name: "hangs", Link: c.hub.Link("hangs"), Beat: time.Second, Hang: 2 * time.Minute,
			Moved: func() time.Time {
				lock.Lock()
				defer lock.Unlock()
				return moved
			},
			Logf: func(f string, args ...any) {
				lock.Lock()
				defer lock.Unlock()
				told += fmt.Sprintf(f, args...)
			},
			Do: func(ctx context.Context, j Job) ([]byte, error) {
				for range 3 { // passes, and then none for an hour
					sleep(ctx, time.Minute)
					lock.Lock()
					moved = time.Now()
					lock.Unlock()
				}
				sleep(ctx, time.Hour)
				return answer(j), nil
			}}
		c.work.Go(func() { _ = w.Run(ctx) })
		done := make(chan error)
		go func() {
			_, err := c.f.Do(ctx, Work{Jobs: jobsOf(1), Here: func(ctx context.Context, j Job) ([]byte, error) {
				sleep(ctx, 2*time.Hour)
				return answer(j), nil
			}, Check: results})
			done <- err
		}()
		time.Sleep(4 * time.Minute)
		if c.f.Workers() != 1 || said() != "" {
			t.Errorf("%d workers, though one passes: %s", c.f.Workers(), said())
		}
		time.Sleep(2 * time.Minute)
		if n := c.f.Counts(); working(c.f) != 0 || n.Expired != 1 || !strings.Contains(said(), "nothing of the job under way has moved for 2m0s") {
			t.Errorf("%d workers are there: %+v: %s", c.f.sched.Workers(), n, said())
		}
		time.Sleep(time.Hour)
		if working(c.f) != 1 {
			t.Error("it is not there again")
		}
		stop()
		<-done
		c.end()
	})
}

// working counts the workers that may have jobs.
func working(f *Fleet) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sched.Workers()
}

// TestMailbox: one worker's words do not push others' out, however many they are, nor take memory without end; and a
// worker's description of itself is one line.
func TestMailbox(t *testing.T) {
	b := NewMailbox()
	defer b.Close()
	for range 400000 {
		b.Put(Event{Kind: Beat, Worker: "loud"})
	}
	b.Put(Event{Kind: Hello, Worker: "quiet"})
	if len(b.said) > mostUnheard+1 {
		t.Errorf("%d events wait", len(b.said))
	}
	for n := 0; ; n++ {
		if e := <-b.Out(); e.Worker == "quiet" {
			break
		}
		if n > mostUnheard+1 {
			t.Fatal("the quiet one is not heard")
		}
	}
	b.Put(Event{Kind: Beat, Worker: "loud"})
	if e := <-b.Out(); e.Worker != "loud" {
		t.Errorf("then %+v", e)
	}
	if text := shown("host\nfleet: FORGED \x1b[2J"+strings.Repeat("x", 100000), 80); strings.ContainsAny(text, "\n\x1b") || len(text) > 90 {
		t.Errorf("%q", text)
	}
}

// TestLiar: a worker that returns other bits is named and dismissed, and none of its results stays.
func TestLiar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{Audit: 1})
		lies := func(ctx context.Context, j Job) ([]byte, error) {
			payload, err := takes(ctx, j)
			if j.Keys[0].Prompt%4 == 3 {
				payload = []byte("the result of a broken machine")
			}
			return payload, err
		}
		stopA, _ := c.join("honest", takes)
		stopB, _ := c.join("liar", lies)
		c.do(16)
		c.says("worker liar is dismissed")
		if why := c.f.Refused(); len(why) != 1 || why["liar"] == "" || c.by("liar") != 0 {
			t.Errorf("refused: %v, and %d of its results stand", why, c.by("liar"))
		}
		c.do(16)
		if c.by("liar") != 0 {
			t.Error("it works again")
		}
		c.end(stopA, stopB)
	})
}

// TestDismissedElsewhere: of a worker that is dismissed in another role nothing stays of open jobs, nor is taken later.
func TestDismissedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		lies := func(ctx context.Context, j Job) ([]byte, error) {
			if _, err := takes(ctx, j); err != nil {
				return nil, err
			}
			return []byte("the result of a broken machine"), nil
		}
		stopA, _ := c.join("honest", takes)
		stopB, _ := c.join("liar", lies)
		c.work.Go(func() {
			time.Sleep(5 * time.Second)
			for range 2 { // said twice, it is dismissed once
				c.hub.box.Put(Event{Kind: Dismissed, Worker: "liar", Why: "it is worker bad in another role"})
			}
		})
		c.do(16)
		c.says("worker liar is dismissed: it is worker bad in another role")
		if why := c.f.Refused(); len(why) != 1 || c.by("liar") != 0 || c.by("honest") != 16 || len(c.log) != 17 {
			t.Errorf("refused: %v; %d of its results stand; %d lines", why, c.by("liar"), len(c.log))
		}
		c.end(stopA, stopB)
	})
}

// TestDoubts: a doubtful result is compared with the trainer's before it counts; Work.Doubts may ask the fleet.
func TestDoubts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		stopA, _ := c.join("honest", takes)
		stopB, _ := c.join("liar", func(ctx context.Context, j Job) ([]byte, error) {
			payload, err := takes(ctx, j)
			return append(payload, '!'), err
		})
		jobs := jobsOf(16)
		got, err := c.f.Do(context.Background(), Work{Jobs: jobs, Here: takes, Check: anything, Doubts: func(_ Job, payload []byte) bool {
			return c.f.Workers() > 0 && bytes.HasSuffix(payload, []byte("!"))
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i, j := range jobs {
			if !bytes.Equal(got[i], answer(j)) {
				t.Errorf("job %d: %q", i, got[i])
			}
		}
		if c.f.Refused()["liar"] == "" || c.by("liar") != 0 || c.by("honest") == 0 {
			t.Errorf("refused: %v; %d results of the liar stand, and %d of the other", c.f.Refused(), c.by("liar"), c.by("honest"))
		}
		c.end(stopA, stopB)
	})
}
