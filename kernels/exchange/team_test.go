package exchange

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// soon fails a test that hangs: nothing here takes longer.
func soon(t *testing.T, f func() error) (err error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err = <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it hangs")
	}
	return err
}

// TestTeam: the first rank that fails is the one that is said, whatever it fails with; the others are stopped and
// waited for; one that does not come back is left behind, and said.
func TestTeam(t *testing.T) {
	plain := errors.New("out of memory")
	devices := []string{"cuda:0/exact", "cuda:1/exact", "cuda:2/exact"}
	for name, x := range map[string]struct {
		fails func() error // of rank 1
		says  string
		rank  int
	}{
		"an error":           {func() error { return plain }, "rank 1 (cuda:1/exact): out of memory", 1},
		"a device":           {func() error { panic(lost("cuda:1")) }, "rank 1 (cuda:1/exact): cuda:1 is lost", 1},
		"another's device":   {func() error { panic(lost("cuda:2")) }, "rank 2 (cuda:2/exact): cuda:2 is lost", 2},
		"a mistake":          {func() error { panic("index out of range") }, "rank 1 (cuda:1/exact): a mistake in the program: index out of range", 1},
		"a failure of a sum": {func() error { return fmt.Errorf("adding up: %w", &Failure{Rank: 0, Err: plain}) }, "rank 0: out of memory", 0},
	} {
		t.Run(name, func(t *testing.T) {
			stop, returned := make(chan struct{}), atomic.Int32{}
			team := Team{Devices: devices, Stop: func() { close(stop) }}
			err := soon(t, func() error {
				return team.Each(3, func(r int) error {
					defer returned.Add(1)
					if r == 1 {
						return x.fails()
					}
					<-stop
					return fmt.Errorf("rank %d was told to stop", r)
				})
			})
			f := new(Failure)
			if !errors.As(err, &f) || f.Rank != x.rank || !strings.HasPrefix(err.Error(), x.says) || returned.Load() != 3 || LeftBehind(err) {
				t.Errorf("%v, %d have returned", err, returned.Load())
			}
		})
	}
	forever := make(chan struct{})
	defer close(forever)
	waits := func(r int) error {
		if r == 2 {
			<-forever
		}
		return nil
	}
	team := Team{Devices: devices, Limit: 200 * time.Millisecond}
	err := soon(t, func() error { return team.Together(3, "gathering", waits) })
	if !LeftBehind(err) || err.Error() != "rank 2 (cuda:2/exact): gathering: it has not come within 200ms, and the others wait for it" {
		t.Errorf("a rank that does not come: %v", err)
	}
	err = soon(t, func() error {
		return team.Each(3, func(r int) error {
			if r == 0 {
				return plain
			}
			return waits(r)
		})
	})
	if !LeftBehind(err) || !errors.Is(err, plain) || !strings.HasPrefix(err.Error(), "rank 0 (cuda:0/exact): out of memory\nrank 2 did not come back") {
		t.Errorf("a rank that does not come back: %v", err)
	}
	slow := func(int) error { time.Sleep(250 * time.Millisecond); return nil }
	if err := team.Each(2, slow); err != nil {
		t.Errorf("work that takes longer than the limit, and does not fail: %v", err)
	}
	if err := team.Each(2, func(r int) error { time.Sleep(time.Duration(1+10*r) * 40 * time.Millisecond); return nil }); err != nil {
		t.Errorf("one rank that takes 11 times as long as the other: %v", err)
	}
	if err := team.Each(3, func(r int) error {
		if r > 0 {
			return ErrIdle
		}
		return slow(r)
	}); err != nil {
		t.Errorf("ranks without work: %v", err)
	}
	quick := Team{Devices: devices, Limit: 100 * time.Millisecond}
	err = soon(t, func() error { return quick.Each(3, waits) })
	if !LeftBehind(err) || !strings.HasPrefix(err.Error(), "rank 2 (cuda:2/exact): it is still at work, ") {
		t.Errorf("a rank that hangs while it computes: %v", err)
	}
	if err := team.Each(1, func(int) error { return plain }); err != plain {
		t.Errorf("one rank: %v", err)
	}
}

// lost is a device's panic.
type lost string

func (l lost) Error() string    { return string(l) + " is lost" }
func (l lost) OnDevice() string { return string(l) }

// failing is a rank that breaks in one of its operations, or hangs there.
type failing struct {
	kernels.Backend
	at    string
	after int
	does  func()
}

func (f *failing) step(op string) {
	if op == f.at {
		if f.after--; f.after < 0 {
			f.does()
		}
	}
}
func (f *failing) Alloc(n int) *kernels.Buffer { f.step("Alloc"); return f.Backend.Alloc(n) }
func (f *failing) Download(dst []byte, src kernels.Span) {
	f.step("Download")
	f.Backend.Download(dst, src)
}
func (f *failing) Upload(dst kernels.Span, src []byte) { f.step("Upload"); f.Backend.Upload(dst, src) }
func (f *failing) Binary(a *kernels.Binary)            { f.step("Binary"); f.Backend.Binary(a) }

// TestSumFails: wherever a rank fails in a sum - before a gathering, in it, in a later one, after it - the
// sum ends with that rank's name, and nothing is gathered afterwards.
func TestSumFails(t *testing.T) {
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	for op, times := range map[string]int{"Alloc": 1, "Download": 4, "Upload": 4, "Binary": 4} {
		for after := range times {
			for name, does := range map[string]func(){"lost": func() { panic(lost("ref")) }, "hangs": func() { <-forever }} {
				if name == "hangs" && after != times/2 {
					continue // each takes the whole limit
				}
				t.Run(fmt.Sprintf("%s %d %s", op, after, name), func(t *testing.T) {
					t.Parallel() // the limits pass side by side
					bad := &failing{Backend: ref.Backend{}, at: op, after: after, does: does}
					backends := []kernels.Backend{ref.Backend{}, ref.Backend{}, bad}
					wire := &Host{Ranks: backends, Limit: 300 * time.Millisecond}
					s := Sum{Ranks: backends, Wire: wire, Piece: 4, Limit: 300 * time.Millisecond}
					if name == "lost" {
						s.Limit, wire.Limit = 0, 0
					}
					var spans [][]kernels.Span
					for range backends {
						spans = append(spans, []kernels.Span{span([]float32{1, 2, 3, 4, 5, 6}), span([]float32{7, 8, 9, 10, 11, 12})})
					}
					err := soon(t, func() error { return s.Add(spans) })
					f := new(Failure)
					if !errors.As(err, &f) || f.Rank != 2 || LeftBehind(err) != (name == "hangs") {
						t.Fatalf("%v", err)
					}
					if err := wire.Gather(nil, nil); err == nil || !strings.Contains(err.Error(), "nothing is gathered any more") {
						t.Errorf("once more: %v", err)
					}
				})
			}
		}
	}
}
