package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Card: ranks at work side by side, and the others' end when one fails.
//
//   - Work of its own (Each): the first rank that fails, in time, decides; the others are stopped,
//     and awaited no longer than the limit from then on. Without a failure work may take as long as it takes until a
//     rank is back: from then on the others have the limit, or mostLonger times as long as the slowest so far took,
//     whichever is longer. A rank without work (ErrIdle) says nothing about the others.
//   - Work that waits for the others (Together: a gathering): all have the limit from its beginning.
//   - A rank that has not come back by then is left behind: it may still use its device and its memory, so
//     nobody else may, not even to close them.
//
// A panic of a rank is its error, with the stack where it is a mistake in the program: ranks are
// goroutines, whose panics would end the program where a run's files are open.
//
// Invariants (tests): the first failure is the one that is said, with its rank and device; nothing
// waits longer than the limit for a rank that does not come.

// UsualLimit is how long ranks wait for one that does not come.
const UsualLimit = 10 * time.Minute

// mostLonger is how many times as long as another a rank may work: shares are alike, but for one thing of a few, and
// conversations of other lengths.
const mostLonger = 20

// ErrIdle is the error of a rank that had nothing to do. It does not stand for a failure.
var ErrIdle = errors.New("no share of the work")

// A Team is ranks at work side by side.
type Team struct {
	Devices []string      // the ranks' backends, for people, rank 0 first; "" or missing: not known
	Limit   time.Duration // how long ranks wait for one that does not come; 0: UsualLimit
	Stop    func()        // tells ranks at work that one has failed; may be nil
	turns   []*sync.Mutex // of ranks that share a backend: who holds it is at work
	late    chan end      // ranks that waited too long, before they have their turn again
}

// An end is a rank's.
type end struct {
	rank int
	err  error
}

// TeamOf names a team by its backends. Of ranks that share one, one at a time is at work.
func TeamOf(limit time.Duration, ranks ...kernels.Backend) Team {
	t := Team{Limit: limit, late: make(chan end, len(ranks))}
	turns := map[kernels.Backend]*sync.Mutex{}
	for _, be := range ranks {
		t.Devices = append(t.Devices, be.Name())
		if turns[be] == nil {
			turns[be] = new(sync.Mutex)
		}
		t.turns = append(t.turns, turns[be])
	}
	return t
}

// rests lets the others of a rank's backend work while it waits.
func (t Team) rests(rank int, wait func() error) error {
	if rank < len(t.turns) {
		t.turns[rank].Unlock()
		defer t.turns[rank].Lock()
	}
	return wait()
}

// waited reports at once that a rank waited too long: who hangs may have its turn for ever.
func (t Team) waited(rank int, err error) error {
	select {
	case t.late <- end{rank, err}:
	default: // others did
	}
	return err
}

// A Failure is the first rank's that failed. Where nothing can be returned it is panicked with.
type Failure struct {
	Rank   int
	Device string
	Err    error
	Left   []int // ranks that had not come back when waiting ended
}

func (f *Failure) Error() string {
	name := fmt.Sprintf("rank %d", f.Rank)
	if f.Device != "" {
		name += " (" + f.Device + ")"
	}
	s := fmt.Sprintf("%s: %v", name, f.Err)
	for _, r := range f.Left {
		if r != f.Rank {
			s += fmt.Sprintf("\nrank %d did not come back either, and was left behind", r)
		}
	}
	return s
}

func (f *Failure) Unwrap() error { return f.Err }

// OnDevice makes a failure a kernels.DeviceError.
func (f *Failure) OnDevice() string { return f.Device }

// LeftBehind reports whether an error left ranks behind, whose backends may not be touched any more.
func LeftBehind(err error) bool {
	f := new(Failure)
	return errors.As(err, &f) && len(f.Left) > 0
}

// A Mistake is a panic of a rank that no device caused.
type Mistake struct {
	Value any
	Stack []byte
}

func (m *Mistake) Error() string {
	return fmt.Sprintf("a mistake in the program: %v\n\n%s", m.Value, m.Stack)
}

// Each calls f for every rank at once, and returns when all are done. One rank alone is called as it
// is: its errors and panics are the caller's.
func (t Team) Each(ranks int, f func(rank int) error) error {
	if ranks == 1 {
		if err := f(0); !errors.Is(err, ErrIdle) {
			return err
		}
		return nil
	}
	return t.run(ranks, "", f)
}

// Together is Each of work in which ranks wait for one another.
func (t Team) Together(ranks int, what string, f func(rank int) error) error {
	return t.run(ranks, what, f)
}

// Alone is Each of one rank's work, with its name.
func (t Team) Alone(rank int, f func() error) error {
	if err := t.guarded(rank, func(int) error { return f() }); err != nil {
		return t.failure(rank, err)
	}
	return nil
}

// run is Each; with a name for the work, it may take no longer than the limit.
func (t Team) run(ranks int, what string, f func(rank int) error) error {
	for len(t.late) > 0 {
		<-t.late // of work that has ended
	}
	ends, back := make(chan end, ranks), make([]bool, ranks)
	for r := range ranks {
		go func() { ends <- end{r, t.guarded(r, f)} }()
	}
	limit := cmp.Or(t.Limit, UsualLimit)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	if what == "" {
		timer.Stop() // until one fails, or is back
	}
	var failed *Failure
	var first struct { // that is back
		rank int
		took time.Duration
	}
	fails := func(e end) {
		failed = t.failure(e.rank, e.err)
		if what == "" {
			timer.Reset(limit)
		}
		t.stop()
	}
	began, patience := time.Now(), limit
	for working := ranks; working > 0; {
		select {
		case e := <-t.late:
			if failed == nil {
				fails(e)
			}
		case e := <-ends:
			working--
			back[e.rank] = true
			if errors.Is(e.err, ErrIdle) || e.err != nil && failed != nil {
				continue
			}
			if e.err == nil {
				if took := time.Since(began); what == "" && failed == nil {
					if first.took == 0 {
						first.rank, first.took = e.rank, took
					}
					patience = max(limit, mostLonger*took)
					timer.Reset(patience)
				}
				continue
			}
			fails(e)
		case <-timer.C:
			var left []int
			for r, here := range back {
				if !here {
					left = append(left, r)
				}
			}
			if failed == nil {
				late := fmt.Errorf("%s: it has not come within %v, and the others wait for it", what, limit)
				if what == "" {
					late = fmt.Errorf("it is still at work, %v after the others; rank %d took %v\nhint: a device that hangs; or run.rank_limit is too short for shares that differ so much",
						patience, first.rank, first.took.Round(time.Millisecond))
				}
				failed = t.failure(left[0], late)
				t.stop()
			}
			failed.Left = left
			return failed
		}
	}
	if failed == nil {
		return nil
	}
	return failed
}

func (t Team) stop() {
	if t.Stop != nil {
		t.Stop()
	}
}

// failure names the rank. An error that says which device it is from belongs to that device's
// rank: one may have worked for another.
func (t Team) failure(rank int, err error) *Failure {
	if f := new(Failure); errors.As(err, &f) {
		return f
	}
	var d kernels.DeviceError
	if errors.As(err, &d) && !t.on(rank, d.OnDevice()) {
		for other := range t.Devices {
			if t.on(other, d.OnDevice()) {
				rank = other
				break
			}
		}
	}
	return &Failure{Rank: rank, Device: t.device(rank), Err: err}
}

func (t Team) device(rank int) string {
	if rank < len(t.Devices) {
		return t.Devices[rank]
	}
	return ""
}

// on reports whether a rank's backend, such as "cuda:0/exact", is on a device.
func (t Team) on(rank int, device string) bool {
	name, _, _ := strings.Cut(t.device(rank), "/")
	return name != "" && name == device
}

func (t Team) guarded(rank int, f func(rank int) error) (err error) {
	if rank < len(t.turns) {
		t.turns[rank].Lock()
		defer t.turns[rank].Unlock()
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case kernels.DeviceError:
			err = p
		default:
			err = &Mistake{p, debug.Stack()}
		}
	}()
	return f(rank)
}
