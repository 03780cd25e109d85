package train

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/run"
	"github.com/darkroom-rl/darkroom/view/otlp"
)

// Traces of a run, where OpenTelemetry's variables ask for them: a trace an iteration, with a span for each of its
// parts and for each job that was gathered in it. A job has spans for its way to the workers, for how long it waited
// there, and for each worker that had it. The trainer's clock times all of them.
//
//	iteration ── roll, score, train, evaluate
//	          └─ job ── publish, wait, lease (worker), lease (another)

// traces are a run's.
type traces struct {
	to    *otlp.Exporter // nil: nobody asks
	run   string
	salt  [16]byte // so that two runs have other identifiers
	say   func(format string, args ...any)
	mu    sync.Mutex
	spans int
	parts []run.Part
	jobs  []fleet.Entry
}

// newTraces reads the variables. Traces that cannot be sent do not keep a run from being trained.
func newTraces(get func(string) string, name string, say func(format string, args ...any)) *traces {
	t := &traces{run: name, say: say}
	o, on, err := otlp.FromEnvironment(get)
	if err != nil {
		say("warning: no traces are sent: %v", err)
	}
	if !on {
		return t
	}
	if _, err := rand.Read(t.salt[:]); err != nil {
		say("warning: no traces are sent: %v", err)
		return t
	}
	o.Version = version.Read().String()
	t.to = otlp.New(o)
	return t
}

// part and job keep events until the iteration ends.
func (t *traces) part(p run.Part) { keep(t, &t.parts, p) }

func (t *traces) job(e fleet.Entry) { keep(t, &t.jobs, e) }

func keep[T any](t *traces, all *[]T, one T) {
	if t.to == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	*all = append(*all, one)
}

// iteration sends the trace of one that has just ended.
func (t *traces) iteration(l *ledger.Line, timing *ledger.TimingLine) {
	if t.to == nil {
		return
	}
	t.mu.Lock()
	parts, jobs := t.parts, t.jobs
	t.parts, t.jobs = nil, nil
	t.mu.Unlock()
	ended := time.Now()
	root := t.span(l, "iteration", otlp.ID{}, ended.Add(-seconds(timing.Seconds["all"])), ended)
	root.About = map[string]any{"darkroom.run": t.run, "darkroom.iteration": l.Iteration, "darkroom.attempt": l.Attempt}
	all := []otlp.Span{root}
	for _, p := range parts {
		all = append(all, t.span(l, p.Name, root.ID, p.Began, p.Ended))
	}
	for _, e := range jobs {
		all = append(all, t.ofJob(l, root.ID, e)...)
	}
	t.to.Send(all...)
}

// ofJob are the spans of a job.
func (t *traces) ofJob(l *ledger.Line, parent otlp.ID, e fleet.Entry) []otlp.Span {
	if e.Dismissed != "" {
		now := time.Now()
		s := t.span(l, "dismissed", parent, now, now)
		s.About, s.Failed = map[string]any{"darkroom.worker": e.Worker}, e.Dismissed
		return []otlp.Span{s}
	}
	c := e.Course
	began := c.Offered
	if began.IsZero() { // its result was kept, or it was taken before it was offered
		began = c.Done
	}
	job := t.span(l, "job", parent, began, c.Done)
	job.About = map[string]any{"darkroom.job": e.Job.String(), "darkroom.of": e.Of, "darkroom.worker": e.Worker, "darkroom.seconds": e.Seconds,
		"darkroom.bytes": e.Bytes, "darkroom.tries": e.Tries, "darkroom.audited": e.Audited, "darkroom.kept": e.Kept, "darkroom.job.iteration": e.Iteration + 1}
	all := []otlp.Span{job}
	if !c.Offered.IsZero() {
		all = append(all, t.span(l, "publish", job.ID, c.Offered, c.Published))
		if len(c.Leases) > 0 && c.Leases[0].Begun.After(c.Published) {
			all = append(all, t.span(l, "wait", job.ID, c.Published, c.Leases[0].Begun))
		}
	}
	for _, lease := range c.Leases {
		s := t.span(l, "lease", job.ID, lease.Begun, lease.Ended)
		s.About, s.Failed = map[string]any{"darkroom.worker": lease.Worker}, lease.Failed
		all = append(all, s)
	}
	return all
}

// span is the next one of an iteration's trace.
func (t *traces) span(l *ledger.Line, name string, parent otlp.ID, began, ended time.Time) otlp.Span {
	t.spans++
	s := otlp.Span{Parent: parent, Name: name, Began: began, Ended: ended}
	trace := sha256.Sum256(fmt.Appendf(nil, "%x trace %d of attempt %d", t.salt, l.Iteration, l.Attempt))
	id := sha256.Sum256(fmt.Appendf(nil, "%x span %d", t.salt, t.spans))
	copy(s.Trace[:], trace[:])
	copy(s.ID[:], id[:])
	return s
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// close waits a little for spans that are not sent yet.
func (t *traces) close() {
	if t.to == nil {
		return
	}
	if err := t.to.Close(); err != nil {
		t.say("warning: traces: %v", err)
	}
}
