package fleet

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
)

// A Hub carries jobs to workers, and their events back: the trainer's end. Nothing that it loses is lost for good:
// the scheduler offers jobs without an answer again.
type Hub interface {
	// Offer puts one more copy of a job behind those that wait, or, where it is urgent, before those that are not.
	// One worker takes it.
	Offer(ctx context.Context, name Hash, j Job, urgent bool) error
	// Take takes the first copy that waits, for the trainer itself; nil: none waits.
	Take(ctx context.Context) (*Job, error)
	// Withdraw takes back the copies of a job that still wait, and tells workers that are at it to stop.
	Withdraw(ctx context.Context, name Hash) error
	// Dismiss keeps a worker from taking any more, in any of its roles: the fleets of the others get the event
	// Dismissed.
	Dismiss(ctx context.Context, worker string) error
	// Events are the events of workers, in the order of each.
	Events() <-chan Event
	// Kept is the first result of a job that was done before, perhaps for a trainer that has ended; nil: none is kept.
	Kept(ctx context.Context, name Hash) (*Event, error)
	// Forget lets go of the result that is kept of a job.
	Forget(ctx context.Context, name Hash) error
	Blobs
	Close() error
}

// A Link is a worker's end.
type Link interface {
	// Next waits for a job.
	Next(ctx context.Context) (Job, error)
	// Withdrawn is closed when a job that this worker is at is not needed any more.
	Withdrawn(name Hash) <-chan struct{}
	// Say tells the trainer something.
	Send(ctx context.Context, e Event) error
	Blobs
	Close() error
}

// Blobs are bytes by the hash of their content.
type Blobs interface {
	Put(ctx context.Context, data []byte) (Blob, error)
	// Get fails with ErrNoBlob for a missing name, another content under it, or a blob that takes longer than its
	// limit.
	Get(ctx context.Context, b Blob) ([]byte, error)
	Drop(ctx context.Context, name Hash) error
}

// ErrNoBlob reports a missing blob, or one whose content is not that of its name.
var ErrNoBlob = errors.New("there is no such blob")

// ErrDismissed says that the trainer wants nothing more of a worker.
var ErrDismissed = errors.New("the trainer has dismissed this worker")

// ErrOver says that the run is over.
var ErrOver = errors.New("the run is over")

// A Role is a kind of worker: each has a queue and a fleet of its own.
type Role string

const (
	Rolls     Role = ""         // it rolls samples
	Scorers   Role = "score"    // it asks rewards that are servers and programs
	Judges    Role = "judge"    // it computes rewards that are networks
	Gradients Role = "gradient" // it computes gradients
)

// A Duty is the work of a role. Duties lists all.
type Duty struct {
	Role   Role
	Name   string // as commands and metrics call it
	Card   string
	Queues []string         // of the hub, that its workers take from: the first without waiting
	Has    func(j Job) bool // the job is of this duty
}

// Duties are those of all roles.
func Duties() []Duty {
	return []Duty{
		{Rolls, "roll", "Samples are rolled.", []string{"urgent", "plain"}, func(j Job) bool { return j.Score == nil && j.Gradient == nil }},
		{Scorers, "score", "Rewards that are servers and programs are asked.", []string{"score"}, func(j Job) bool { return j.Score != nil && !j.Score.Network }},
		{Judges, "judge", "Rewards that are networks are computed.", []string{"judge"}, func(j Job) bool { return j.Score != nil && j.Score.Network }},
		{Gradients, "gradient", "Gradients of a network's weights are computed, of the parts that run.shards names.", []string{"gradient"}, func(j Job) bool { return j.Gradient != nil }},
	}
}

// A Kind is the kind of an event.
type Kind string

const (
	Hello  Kind = "hello"  // a worker is there; it says so again and again
	Bye    Kind = "bye"    // it leaves; its job is free
	Begun  Kind = "begun"  // it has begun a job
	Beat   Kind = "beat"   // it is still at it
	Done   Kind = "done"   // it has done it: Payload is the result
	Failed Kind = "failed" // it could not
	// Dismissed does not come from the worker: the hub says that the worker was dismissed in another role.
	Dismissed Kind = "dismissed"
)

// An Event is a worker's message.
type Event struct {
	Kind    Kind    `json:"kind"`
	Worker  string  `json:"worker"`
	Job     Hash    `json:"job,omitzero"`
	Payload Hash    `json:"payload,omitzero"`
	Bytes   int     `json:"bytes,omitempty"` // of the payload
	Seconds float64 `json:"seconds,omitempty"`
	Why     string  `json:"why,omitempty"`
	About   *About  `json:"about,omitempty"` // with Hello
	Role    Role    `json:"role,omitempty"`  // of the worker
}

// mostTold bounds a worker's description of itself and of failures, in characters.
const (
	mostNamed = 64
	mostTold  = 1024
)

// From is the event as a worker has said it, whatever name it gives: its text for people is one line, of bounded
// length.
func (e Event) From(worker string) Event {
	e.Worker, e.Why = worker, line(e.Why, mostTold)
	if e.About != nil {
		a := *e.About
		a.Host, a.Version, a.Class, a.Device = line(a.Host, mostNamed), line(a.Version, mostNamed), line(a.Class, mostNamed), line(a.Device, mostNamed)
		e.About = &a
	}
	return e
}

// line is a text without control characters, cut where it is long.
func line(text string, most int) string {
	clean := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text[:min(len(text), 4*most)])
	if all := []rune(clean); len(all) > most {
		return string(all[:most]) + "…"
	}
	return clean
}

// About is a worker's description of itself.
type About struct {
	Host    string `json:"host,omitempty"`
	Version string `json:"version"`
	Class   string `json:"class"`
	Device  string `json:"device,omitempty"`
}

// A Clock says how much time has passed since some moment.
type Clock func() time.Duration

// Real is the machine's, which does not jump.
func Real() Clock {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}
