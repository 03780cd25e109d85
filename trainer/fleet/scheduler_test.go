package fleet

import (
	"slices"
	"testing"
	"time"
)

// quick is rules of seconds.
var quick = Rules{Lease: 10 * time.Second, Hedge: 1.5, Silence: 4 * time.Second, Tries: 3}

const second = time.Second

// begun is Begun, which must be of use.
func begun(t *testing.T, s *Scheduler, now time.Duration, job int, by string) {
	t.Helper()
	if useful, again := s.Begun(now, jobName(job), by); !useful || len(again) > 0 {
		t.Fatalf("job %d: of use %v, %d offered again", job, useful, len(again))
	}
}

// due is the jobs that Due offers and those that it leaves to the trainer.
func due(s *Scheduler, now time.Duration) (offer, here []int) {
	a, b := s.Due(now)
	for _, h := range a {
		offer = append(offer, jobOf(h))
	}
	for _, h := range b {
		here = append(here, jobOf(h))
	}
	return offer, here
}

// TestUndisturbed: a job is offered once, its first result counts, and later ones are compared with it.
func TestUndisturbed(t *testing.T) {
	s := NewScheduler(quick)
	if !s.Add(0, jobName(0), "") || s.Add(0, jobName(0), "") {
		t.Fatal("a job is taken on once")
	}
	begun(t, s, 0, 0, "a")
	for now := range 9 {
		s.Beat(time.Duration(now)*second, jobName(0), "a")
		if offer, here := due(s, time.Duration(now)*second); len(offer)+len(here) > 0 {
			t.Fatalf("after %d s: offered again %v, left %v", now, offer, here)
		}
	}
	x, y := HashOf([]byte("x")), HashOf([]byte("y"))
	for _, want := range []struct {
		by      string
		digest  Hash
		verdict ResultStatus
	}{{"a", x, First}, {"a", x, Repeated}, {"b", x, Repeated}, {"b", y, Differs}} {
		if v := s.Result(9*second, jobName(0), want.by, want.digest); v != want.verdict {
			t.Errorf("a result of %s is %v, want %v", want.by, v, want.verdict)
		}
	}
	if v := s.Result(9*second, jobName(1), "a", x); v != Unwanted {
		t.Errorf("a result that nobody asked for is %v", v)
	}
	if s.Left() != 0 || s.Waiting() != 0 || s.Of(jobName(0)) != "a" || s.Done != 1 || s.Again != 2 || s.Differed != 1 {
		t.Errorf("%+v, %d left, %d wait", s.Counts, s.Left(), s.Waiting())
	}
}

// TestLease: a job is offered again when its worker is silent, leaves or fails, and then left to the trainer.
func TestLease(t *testing.T) {
	s := NewScheduler(quick)
	s.Add(0, jobName(0), "")
	begun(t, s, 0, 0, "a")
	if offer, _ := due(s, 9*second); len(offer) > 0 {
		t.Fatal("the lease had not ended")
	}
	if at, ok := s.Next(); !ok || at != 10*second {
		t.Errorf("the lease ends at %v, %v", at, ok)
	}
	if offer, _ := due(s, 10*second); !slices.Equal(offer, []int{0}) || s.Expired != 1 || s.Knows("a") {
		t.Fatalf("offered %v, %+v", offer, s.Counts)
	}
	begun(t, s, 11*second, 0, "b")
	if again := s.Bye(12*second, "b"); len(again) != 1 {
		t.Fatal("b has left, and its job is not offered")
	}
	s.Hello(12*second, "c")
	begun(t, s, 13*second, 0, "d")
	if again := s.Failed(14*second, jobName(0), "d"); len(again) != 0 {
		t.Error("it was begun three times, and offered again")
	}
	if offer, here := due(s, 14*second); len(offer) > 0 || !slices.Equal(here, []int{0}) {
		t.Errorf("offered %v, left to the trainer %v", offer, here)
	}
	if v := s.Result(15*second, jobName(0), Here, Hash{}); v != First || s.Left() != 0 {
		t.Errorf("the trainer's own result is %v", v)
	}
}

// TestBeatAfterLease: a worker that was thought lost is at its job all the same.
func TestBeatAfterLease(t *testing.T) {
	s := NewScheduler(quick)
	s.Add(0, jobName(0), "")
	begun(t, s, 0, 0, "a")
	due(s, 10*second)
	s.Beat(11*second, jobName(0), "a")
	if s.idle() != 0 || s.Result(12*second, jobName(0), "a", Hash{}) != First {
		t.Error("its result does not count")
	}
}

// TestSilence: jobs that wait beside idle workers are offered again, and not while jobs come through.
func TestSilence(t *testing.T) {
	s := NewScheduler(quick)
	s.Hello(0, "idle")
	for i := range 3 {
		s.Add(0, jobName(i), "")
	}
	for _, c := range []struct {
		at   time.Duration
		want []int
	}{{0, nil}, {3 * second, nil}, {4 * second, []int{0, 1, 2}}, {5 * second, nil}, {8 * second, []int{0, 1, 2}}} {
		if offer, _ := due(s, c.at); !slices.Equal(offer, c.want) {
			t.Errorf("after %v %v are offered, want %v", c.at, offer, c.want)
		}
	}
	s.Hello(9*second, "idle")
	begun(t, s, 11*second, 1, "b")
	if offer, _ := due(s, 13*second); len(offer) > 0 || s.Waiting() != 2 {
		t.Errorf("%v are offered though jobs come through; %d wait", offer, s.Waiting())
	}
}

// TestHedge: a job that takes long goes to an idle worker, too, once, and only where nothing waits.
func TestHedge(t *testing.T) {
	s := NewScheduler(Rules{Lease: time.Hour, Hedge: 1.5, Silence: time.Hour, Tries: 5})
	for i := range 4 {
		s.Add(0, jobName(i), "")
	}
	for i := range 3 {
		begun(t, s, 0, i, workerName(i))
	}
	s.Result(10*second, jobName(0), workerName(0), Hash{})
	if offer, _ := due(s, 20*second); len(offer) > 0 {
		t.Errorf("%v are hedged while a job waits", offer)
	}
	begun(t, s, 20*second, 3, workerName(0))
	s.Result(21*second, jobName(1), workerName(1), Hash{})
	if offer, _ := due(s, 21*second); len(offer) > 0 {
		t.Errorf("%v are hedged before their time", offer)
	}
	if at, ok := s.Next(); !ok || at != 21*second*3/2 {
		t.Errorf("the next hedge is at %v", at)
	}
	if offer, _ := due(s, 40*second); !slices.Equal(offer, []int{2}) {
		t.Errorf("hedged: %v", offer)
	}
	begun(t, s, 41*second, 2, workerName(1))
	if offer, _ := due(s, time.Hour/2); len(offer) > 0 || s.Hedged != 1 {
		t.Errorf("%v are hedged twice", offer)
	}
	s.Result(42*second, jobName(2), workerName(1), Hash{})
	if s.idle() != 2 {
		t.Errorf("%d workers are idle, want 2: the first copy is not needed any more", s.idle())
	}
}

// TestRefuse: nothing of a worker counts, and its jobs are open again.
func TestRefuse(t *testing.T) {
	s := NewScheduler(quick)
	var order []Hash
	for i := range 3 {
		s.Add(0, jobName(i), "")
		order = append(order, jobName(i))
	}
	begun(t, s, 0, 0, "liar")
	begun(t, s, 0, 1, "b")
	s.Result(second, jobName(0), "liar", Hash{1})
	s.Result(second, jobName(1), "b", Hash{})
	begun(t, s, second, 2, "liar")
	again := s.Refuse(2*second, "liar", order)
	if n := s.Workers(); n != 1 {
		t.Errorf("%d workers are there after one was refused, whose results do not count", n)
	}
	if len(again) != 2 || s.Left() != 2 || s.Waiting() != 2 {
		t.Fatalf("%d are offered again, %d left, %d wait", len(again), s.Left(), s.Waiting())
	}
	if useful, again := s.Begun(3*second, jobName(0), "liar"); useful || len(again) != 1 {
		t.Error("it may go on, or what it took is lost")
	}
	if v := s.Result(4*second, jobName(2), "liar", Hash{}); v != Unwanted {
		t.Errorf("its result is %v", v)
	}
	if s.Bye(5*second, "liar"); !s.Knows("liar") {
		t.Error("it comes back as if it were new")
	}
	if s.idle() != 1 {
		t.Errorf("%d workers are idle, and b is", s.idle())
	}
}

// TestRefuseComing: a job whose result was on its way from a worker that is refused, or suspected, is offered again.
func TestRefuseComing(t *testing.T) {
	for what, drop := range map[string]func(s *Scheduler) []Hash{
		"refused":   func(s *Scheduler) []Hash { return s.Refuse(2*second, "a", nil) },
		"suspected": func(s *Scheduler) []Hash { return s.Suspect(2*second, "a") },
	} {
		s := NewScheduler(quick)
		s.Add(0, jobName(0), "")
		begun(t, s, 0, 0, "a")
		s.Coming(second, jobName(0), "a")
		if again := drop(s); len(again) != 1 || s.Result(3*second, jobName(0), "a", Hash{}) != Unwanted || s.Waiting() != 1 {
			t.Errorf("%s: %d offered again, %d wait", what, len(again), s.Waiting())
		}
	}
}
