//go:build !nobroker

package natsio

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// forging is an attacker who has the join file, and two honest workers.
type forging struct {
	*testing.T
	b        *Broker
	ticket   Ticket
	attacker *nats.Conn
	victims  map[string]*Link
	mu       sync.Mutex
	fell     []string          // changes since the last look
	streams  map[string]string // when each was made, and its content
	wait     sync.WaitGroup
}

// forge starts them.
func forge(t *testing.T, b *Broker) *forging {
	ticket, err := b.Ticket.WithKey()
	if err != nil {
		t.Fatal(err)
	}
	f := &forging{T: t, b: b, ticket: ticket, victims: map[string]*Link{}}
	if f.attacker, err = ticket.connect("attacker", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		f.attacker.Close()
		f.wait.Wait()
	})
	f.wait.Go(func() {
		for {
			select {
			case e := <-b.Hub.Events():
				if e.Worker != "attacker" { // whose name it has
					f.falls("the trainer hears %s of %s", e.Kind, e.Worker)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	for name, role := range map[string]fleet.Role{"victim": fleet.Rolls, "victim-score": fleet.Scorers} {
		f.wait.Go(func() { f.works(ctx, name, role) })
	}
	for f.victim("victim") == nil || f.victim("victim-score") == nil {
		time.Sleep(10 * time.Millisecond)
	}
	f.streams = f.state()
	return f
}

// works waits for jobs as a worker, which begins anew when it is let go.
func (f *forging) works(ctx context.Context, name string, role fleet.Role) {
	for ctx.Err() == nil {
		l, err := Join(ctx, f.b.Ticket, name, role, func(string, ...any) {})
		if err != nil {
			time.Sleep(20 * time.Millisecond) // the name is not free yet
			continue
		}
		f.mu.Lock()
		f.victims[name] = l
		f.mu.Unlock()
		for err == nil {
			var j fleet.Job
			if j, err = l.Next(ctx); err == nil {
				f.falls("%s takes job %s", name, j)
			}
		}
		if ctx.Err() == nil {
			f.falls("%s ends: %v", name, err)
		}
		l.Close()
	}
}

func (f *forging) victim(name string) *Link {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.victims[name]
}

func (f *forging) falls(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fell = append(f.fell, fmt.Sprintf(format, args...))
}

// state is the part of the streams that nobody but the trainer may change.
func (f *forging) state() map[string]string {
	all := map[string]string{}
	for info := range f.b.Hub.js.ListStreams(f.Context()).Info() {
		what := fmt.Sprint(info.Created.UnixNano())
		if !strings.Contains(strings.ToLower(info.Config.Name), "out") && !strings.HasPrefix(info.Config.Name, "DONE") {
			what += fmt.Sprint(", ", info.State.LastSeq, " messages")
		}
		all[info.Config.Name] = what
	}
	return all
}

// look checks that an attack changed nothing. guards: the server itself is to keep its streams.
func (f *forging) look(what string, guards bool) (fell int) {
	f.Helper()
	_ = f.attacker.Flush()
	time.Sleep(4 * time.Millisecond)
	if guards {
		if now := f.state(); fmt.Sprint(now) != fmt.Sprint(f.streams) {
			f.falls("the streams are %v, and were %v", now, f.streams)
			f.streams = now
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.fell) > 0 {
		fell = 1
		f.Errorf("%s: %s", what, strings.Join(f.fell, "; "))
	}
	f.fell = nil
	return fell
}

// job is the attacker's.
func attackersJob() fleet.Job { return fleet.Job{Keys: []fleet.Keys{{Prompt: 666, Samples: 1}}} }

// subjects are the trainer's own, and other workers'.
func (f *forging) subjects() (all []string) {
	name := attackersJob().Name()
	for _, what := range []string{"over", "begin", "withdraw", "dismiss.victim", "say.ghost", "say.victim", "work.plain." + name.String(), "work.urgent." + name.String(),
		"work.score." + name.String(), "in." + name.String() + ".0", "done.victim." + name.String(), "out.victim." + name.String() + ".0"} {
		all = append(all, f.ticket.Space.subject(what))
	}
	return all
}

// texts are the attacker's messages.
func (f *forging) texts() map[string][]byte {
	job, err := json.Marshal(attackersJob())
	if err != nil {
		f.Fatal(err)
	}
	ghost, err := json.Marshal(fleet.Event{Kind: fleet.Hello, Worker: "ghost", About: &fleet.About{Version: "1"}})
	if err != nil {
		f.Fatal(err)
	}
	all := map[string][]byte{"nothing": nil, "a job": job, "a hello": ghost}
	f.seals(all, job, ghost)
	return all
}

// asks are requests of a worker, permitted and others.
func (f *forging) asks(text []byte) map[string]string {
	of := f.ticket.Space
	all := map[string]string{
		"$JS.API.INFO": "",
		"$JS.API.CONSUMER.INFO." + of.of("WORK") + ".plain": "",
		"$JS.ACK." + of.of("WORK") + ".plain.1.1.1.1.0":     "+NXT",
		of.subject("hail"):         "0123456789abcdef",
		of.subject("where"):        `{"what":"where","name":"` + attackersJob().Name().String() + `"}`,
		of.subject("say.attacker"): string(text),
		of.subject("done.attacker." + attackersJob().Name().String()):       string(text),
		of.subject("out.attacker." + attackersJob().Name().String() + ".0"): string(text),
	}
	for _, queue := range priorities() {
		all["$JS.API.CONSUMER.MSG.NEXT."+of.of("WORK")+"."+queue] = `{"batch":1,"no_wait":true}`
	}
	for stream, own := range map[string]string{"OBJ_out": "$O.out.C.x", "OUT": of.subject("out.attacker." + attackersJob().Name().String() + ".0"), "IN": of.subject("in.>"), "OBJ_in": "$O.in.>"} {
		stream = of.of(stream)
		all["$JS.API.STREAM.INFO."+stream] = ""
		all["$JS.API.STREAM.MSG.GET."+stream] = `{"last_by_subj":"` + own + `"}`
		all["$JS.API.DIRECT.GET."+stream] = `{"last_by_subj":"` + own + `"}`
		all["$JS.API.DIRECT.GET."+stream+"."+own] = ""
	}
	return all
}

// attack tries each text under each subject, and each request with each of them as the subject of its answer.
func (f *forging) attack(guards bool) {
	tried, fell := 0, 0
	once := func(what string, do func() error) {
		if do() == nil {
			tried++
			fell += f.look(what, guards)
		}
	}
	subjects := f.subjects()
	if guards {
		for _, stream := range []string{"WORK", "DONE", "IN", "OUT", "OBJ_in"} {
			subjects = append(subjects, "$JS.API.STREAM.DELETE."+stream)
		}
	}
	for as, text := range f.texts() {
		for _, to := range subjects {
			once(as+" is said under "+to, func() error { return f.attacker.Publish(to, text) })
		}
	}
	job := f.texts()["a job"]
	_ = f.attacker.Publish("$O.out.C.x", job) // to be answered with
	for subject, text := range f.asks(job) {
		for _, to := range subjects {
			once(subject+" is answered under "+to, func() error { return f.attacker.PublishRequest(subject, to, []byte(text)) })
		}
	}
	time.Sleep(300 * time.Millisecond)
	once("a consumer delivers under the trainer's name", func() error {
		return f.attacker.PublishRequest("$JS.API.CONSUMER.CREATE.OBJ_out", "_INBOX_attacker.x", []byte(`{"stream_name":"OBJ_out","config":{"deliver_subject":"dr.over","ack_policy":"none"}}`))
	})
	f.Logf("%d tries, %d obeyed or heard", tried, fell)
}

// TestForged: no worker obeys a message in the trainer's name or another worker's, from the server's answers, from
// somebody who has the join file, or repeated from earlier or elsewhere, and the trainer takes none. On the trainer's
// own server the streams are as they were; on servers of somebody else's they are that one's business.
func TestForged(t *testing.T) {
	t.Parallel()
	t.Run("the trainer's server", func(t *testing.T) {
		f := forge(t, listen(t, t.TempDir()))
		f.attack(true)
		f.obeyed()
	})
	t.Run("two servers of somebody else's", func(t *testing.T) {
		_, at, ca := aCluster(t, 2)
		b, err := Attach(Remote{URLs: at, Authority: ca, Dir: t.TempDir(), Run: "r"})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		f := forge(t, b)
		f.attack(false)
		f.obeyed()
	})
}

// seals are the trainer's signed messages of another session, and those of others.
func (f *forging) seals(all map[string][]byte, job, ghost []byte) {
	seed, err := newSeed()
	if err != nil {
		f.Fatal(err)
	}
	for who, seed := range map[string]string{"another session": f.b.Hub.roster.id.Trainer, "another run": seed, "the join file": f.ticket.Seed, "a worker": f.ticket.own} {
		s, err := sealerOf(seed)
		if err != nil {
			f.Fatal(err)
		}
		for kind, text := range map[string][]byte{ofJob: job, ofOver: nil, ofDismiss: []byte(f.victim("victim").name()), ofBegin: nil} {
			all[kind+" of "+who] = s.seal(kind, text)
		}
		all["a hello of "+who] = append(make([]byte, wordHead), s.seal(ofWord, ghost)...)
	}
	for _, kind := range []string{ofHail, ofWithdraw, ofPlace} { // it was taken, in this session
		all[kind+" of the trainer"] = f.b.Hub.seal(kind, job)
	}
	all["a dismissal of another worker"] = f.b.Hub.seal(ofDismiss, []byte("another key"))
}

// obeyed sees that the workers are still at work, and obey the trainer: also a withdrawal, unless it is of an earlier
// offer.
func (f *forging) obeyed() {
	f.Helper()
	h, j := f.b.Hub, fleet.Job{Keys: []fleet.Keys{{Prompt: 1, Samples: 1}}}
	old := h.seal(ofWithdraw, hashBytes(j))
	l := f.victim("victim")
	var stop <-chan struct{}
	var failed error
	offered := time.Time{}
	for end := time.Now().Add(time.Minute); stop == nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if time.Since(offered) > 5*time.Second { // as a scheduler does: a stream that falls late takes the offer with it
			failed = h.Offer(f.Context(), j.Name(), j, false)
			offered = time.Now()
		}
		stop = l.Withdrawn(j.Name())
	}
	if stop == nil {
		f.Fatal("the trainer's job is not taken", failed)
	}
	for i, text := range [][]byte{old, h.seal(ofWithdraw, hashBytes(j))} {
		if err := h.nc.Publish(h.subject(withdraw), text); err != nil {
			f.Fatal(err)
		}
		select {
		case <-stop:
			if i == 0 {
				f.Error("a job is stopped by a word that is older than its offer")
			}
		case <-time.After(200*time.Millisecond + time.Duration(i)*10*time.Second):
			if i == 1 {
				f.Error("a job that is withdrawn goes on")
			}
		}
	}
}

func hashBytes(j fleet.Job) []byte {
	name := j.Name()
	return name[:]
}
