package natsio

import (
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// Streams and subjects:
//
//	stream WORK     dr.work.urgent.JOB, dr.work.plain.JOB    rolls; the worker that takes one acknowledges it at once
//	                dr.work.score.JOB                        questions to rewards outside
//	                dr.work.judge.JOB                        items for rewards with networks
//	stream DONE     dr.done.WORKER.JOB                       a worker's result; of several the first is the job's
//	stream IN       dr.in.HASH.N                             blobs of the trainer, in pieces: setups, weights
//	stream OUT      dr.out.WORKER.HASH.N                     blobs of workers, in pieces: results
//	dr.say.WORKER   events of workers, for all listeners
//	dr.hail         which session the trainer is in, for workers
//	dr.where        who has a blob, where the server has none (peers.go)
//	dr.revoke       a worker whose key is to be taken back, from who has the trainer's key
//	dr.begin        a session has begun
//	dr.withdraw     a job that is not needed any more
//	dr.dismiss.WORKER   dr.over
//
// The trainer's own server serves one run, and names are as above. On a server of somebody else's they have the
// run's: stream WORK_RUN, dr.RUN.work.urgent.JOB. The trainer's messages are sealed (seal.go).
const (
	work     = "WORK"
	done     = "DONE"
	in       = "IN"
	out      = "OUT"
	saySub   = "say."
	hail     = "hail"
	begin    = "begin"
	withdraw = "withdraw"
	dismiss  = "dismiss."
	over     = "over"
	where    = "where"
	revoke   = "revoke"
)

// priorities are the queues of all roles.
func priorities() (all []string) {
	for _, d := range fleet.Duties() {
		all = append(all, d.Queues...)
	}
	return all
}

// A space has the names of a run; "": those of a server that serves no other.
type space string

// of is the name of a stream.
func (s space) of(name string) string {
	if s == "" {
		return name
	}
	return name + "_" + string(s)
}

// subject is where something is said.
func (s space) subject(what string) string {
	if s == "" {
		return "dr." + what
	}
	return "dr." + string(s) + "." + what
}

func (s space) workSubject(priority string, name fleet.Hash) string {
	return s.subject("work." + priority + "." + name.String())
}

// doneSubject is where a worker's result of a job is; "*": any worker's.
func (s space) doneSubject(worker string, name fleet.Hash) string {
	return s.subject("done." + worker + "." + name.String())
}

// speakerOf is the worker in the name of whose results or words a subject is.
func (s space) speakerOf(kind, subject string) string {
	rest, _ := strings.CutPrefix(subject, s.subject(kind))
	name, _, _ := strings.Cut(rest, ".")
	return name
}

// inSubject and outSubject have the pieces of a blob.
func (s space) inSubject(name fleet.Hash) string { return s.subject("in." + name.String()) }
func (s space) outSubject(worker string, name fleet.Hash) string {
	return s.subject("out." + worker + "." + name.String())
}

// keeps is how long a result is kept that nobody takes.
const keeps = 12 * time.Hour

// Bounds of memory that workers could fill: a word, a message of a result that is kept, all of these, and the
// server's streams of jobs. Results' blobs have as much room as the trainer gives them; there the oldest go first,
// which are fetched already, or done again.
const (
	mostWord = 64 << 10
	mostKept = 8 << 10
	mostDone = 128 << 20
	mostWork = 256 << 20
)

// streams are those of a run: jobs until somebody takes them, the results' words, and blobs. room bounds results; 0:
// as much as the server gives.
func (s space) streams(room int64) []jetstream.StreamConfig {
	if room <= 0 {
		room = -1
	}
	return []jetstream.StreamConfig{
		{Name: s.of(work), Subjects: []string{s.subject("work.>")}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage,
			MaxBytes: mostWork, Discard: jetstream.DiscardNew},
		{Name: s.of(done), Subjects: []string{s.subject("done.>")}, Storage: jetstream.MemoryStorage, MaxAge: keeps, MaxMsgSize: mostKept, MaxBytes: mostDone,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, AllowDirect: true},
		{Name: s.of(in), Subjects: []string{s.subject("in.>")}, Storage: jetstream.MemoryStorage, MaxMsgsPerSubject: 1, AllowDirect: true},
		{Name: s.of(out), Subjects: []string{s.subject("out.>")}, Storage: jetstream.MemoryStorage, MaxAge: keeps, MaxMsgSize: pieceBytes + mostKept, MaxBytes: room,
			MaxMsgsPerSubject: 1, AllowDirect: true},
	}
}

// consumer is the queue of a priority.
func (s space) consumer(priority string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{Durable: priority, FilterSubject: s.subject("work." + priority + ".>"), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: 10 * time.Second, MaxAckPending: 1 << 16}
}

// nextSubject is where somebody asks for a job of a queue.
func (s space) nextSubject(priority string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + s.of(work) + "." + priority
}

// directSubject is the subject of requests for a stream's messages.
func (s space) directSubject(stream string) string { return "$JS.API.DIRECT.GET." + s.of(stream) }

// ask is a worker's permitted request to the trainer's account.
type ask struct {
	subject string
	many    bool // it has several answers
}

// workerAsks are the subjects that a worker may publish to: it takes jobs, sends messages in its own name, keeps
// results and their blobs, and reads the trainer's blobs. This is of the trainer's own server; "*": of all workers.
func workerAsks(name string) []ask {
	all := []ask{{subject: "$JS.ACK." + work + ".>"}, {space("").directSubject(in), true}}
	for _, p := range priorities() {
		all = append(all, ask{subject: space("").nextSubject(p)})
	}
	for _, what := range []string{saySub + name, hail, where, "done." + name + ".*", "out." + name + ".*.*"} {
		all = append(all, ask{subject: space("").subject(what)})
	}
	return all
}

// workerHears are the subjects that a worker may listen to.
func workerHears(name string) (all []string) {
	for _, what := range []string{begin, withdraw, over, dismiss + name} {
		all = append(all, space("").subject(what))
	}
	return all
}

// inboxOf is where answers to somebody come.
func inboxOf(name string) string { return inboxes + "_" + name }

// Answers come under these names alone: a client's own, and those by which NATS has them pass between accounts.
const (
	inboxes       = "_INBOX"
	serverReplies = "_R_."
)
