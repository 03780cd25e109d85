package natsio

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// What lies where:
//
//	stream WORK     dr.work.urgent.JOB, dr.work.plain.JOB    rolls; whoever takes one acknowledges it at once
//	                dr.work.score.JOB                        what rewards outside are asked about
//	                dr.work.judge.JOB                        what rewards with networks judge
//	stream DONE     dr.done.JOB                              the first result's event; a second is refused
//	store  in       what the trainer publishes: setups, weights
//	store  out      what workers publish: results
//	dr.say.WORKER   what workers say, for whoever listens
//	dr.withdraw     a job that is not needed any more
//	dr.dismiss.WORKER   dr.over
//	dr.where        who has a blob, where the server has none (peers.go)
//
// The trainer's own server serves one run, and names are as above. On a server of somebody else's they have the run's:
// stream WORK_RUN, dr.RUN.work.urgent.JOB.
const (
	work     = "WORK"
	done     = "DONE"
	in       = "in"
	out      = "out"
	urgent   = "urgent"
	plain    = "plain"
	score    = "score"
	judge    = "judge"
	saySub   = "say."
	withdraw = "withdraw"
	dismiss  = "dismiss."
	over     = "over"
	where    = "where"
)

// priorities are the queues of all roles.
func priorities() []string { return []string{urgent, plain, score, judge} }

// A space has the names of a run; "": those of a server that serves no other.
type space string

// of is the name of a stream or a store.
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
func (s space) doneSubject(name fleet.Hash) string { return s.subject("done." + name.String()) }

// workStream holds jobs until somebody takes them.
func (s space) workStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: s.of(work), Subjects: []string{s.subject("work.>")}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage}
}

// keeps is how long a result is kept that nobody takes.
const keeps = 12 * time.Hour

// doneStream holds the first result of a job.
func (s space) doneStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: s.of(done), Subjects: []string{s.subject("done.>")}, Storage: jetstream.MemoryStorage, MaxAge: keeps,
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, AllowDirect: true}
}

// consumer is the queue of a priority.
func (s space) consumer(priority string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{Durable: priority, FilterSubject: s.subject("work." + priority + ".>"), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: 10 * time.Second, MaxAckPending: 1 << 16}
}

// store is one of blobs.
func (s space) store(name string) jetstream.ObjectStoreConfig {
	c := jetstream.ObjectStoreConfig{Bucket: s.of(name), Storage: jetstream.MemoryStorage}
	if name == out {
		c.TTL = keeps
	}
	return c
}

// workerMay are the subjects that a worker may publish to, and those that it may listen to: it takes jobs, says
// things, keeps a first result and results' blobs, and reads what the trainer published. It makes no stream, and
// publishes neither work nor weights, nor says a word in another's name. This is of the trainer's own server.
func workerMay(name string) (publish, subscribe []string) {
	publish = []string{"dr." + saySub + name, "dr." + where, "dr.done.>",
		"$JS.API.INFO", "$JS.API.CONSUMER.INFO." + work + ".*", "$JS.API.CONSUMER.MSG.NEXT." + work + ".*", "$JS.ACK." + work + ".>"}
	for _, bucket := range []string{in, out} {
		stream := "OBJ_" + bucket
		publish = append(publish, "$JS.API.STREAM.INFO."+stream, "$JS.API.STREAM.MSG.GET."+stream, "$JS.API.DIRECT.GET."+stream, "$JS.API.DIRECT.GET."+stream+".>",
			"$JS.API.CONSUMER.CREATE."+stream, "$JS.API.CONSUMER.CREATE."+stream+".>", "$JS.API.CONSUMER.DELETE."+stream+".>", "$JS.FC."+stream+".>")
	}
	publish = append(publish, "$O."+out+".>", "$JS.API.STREAM.PURGE.OBJ_"+out)
	return publish, []string{inboxOf(name) + ".>", "dr." + withdraw, "dr." + over, "dr." + dismiss + name}
}

// inboxOf is where answers to somebody come.
func inboxOf(name string) string { return "_INBOX_" + name }
