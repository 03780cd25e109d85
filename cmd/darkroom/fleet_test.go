package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
)

// started starts the program.
func started(t *testing.T, dir string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	return startedAs(t, os.Args[0], dir, args...)
}

// startedAs starts a program that is this one, or a build of it.
func startedAs(t *testing.T, program, dir string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Args, cmd.Dir = append([]string{"darkroom"}, args...), dir // by this name the test binary is the program
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &log
}

// await waits for a file that a trainer is to write, for a minute, and reports whether it is there.
func await(file string) bool {
	for range 600 {
		if _, err := os.Stat(file); err == nil {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// TestFleetProcesses: workers that are processes of their own, one of which is killed under way, and one of which has
// two devices, roll a run whose bytes are those of one process; they end with it.
func TestFleetProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	dir := t.TempDir()
	prepare(t, dir, "pictures", 3)
	traced := collect(t)
	start := func(args ...string) (*exec.Cmd, *bytes.Buffer) { return started(t, dir, args...) }
	if cmd, log := start("train", "killed.toml", "--out", "alone"); cmd.Wait() != nil {
		t.Fatal(log)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", traced.URL)
	trainer, log := start("train", "killed.toml", "--out", "helped", "--listen", "127.0.0.1:0", "--leave-rolls", "--audit", "0.5")
	late := time.AfterFunc(3*time.Minute, func() { _ = trainer.Process.Kill() })
	join := filepath.Join(dir, "helped", "join")
	await(join)
	victim, _ := start("worker", "--join", join, "--name", "victim")
	steady, said := start("worker", "--join", join, "--name", "steady", "--device", "cpu,cpu")
	// Until a job of each kind is done: one of an unknown length is left to a worker that died until its lease ends.
	for range 600 {
		if text, err := os.ReadFile(filepath.Join(dir, "helped", "ledger.jsonl")); err == nil && len(text) > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	_ = victim.Process.Kill()
	_ = victim.Wait()
	if err := trainer.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	late.Stop()
	if err := steady.Wait(); err != nil {
		t.Errorf("the worker: %v\n%s", err, said)
	}
	for _, one := range []string{"steady-cpu0", "steady-cpu1"} {
		if !strings.Contains(said.String(), "worker "+one+" has joined") {
			t.Errorf("no worker %s:\n%s", one, said)
		}
	}
	for _, name := range []string{"ledger.jsonl", "samples.jsonl", "heldout.jsonl", "checkpoints/000003/state.safetensors", "checkpoints/000003/adapter_model.safetensors", "checkpoints/000003/state.json", "images/000003_best.png"} {
		a, err := os.ReadFile(filepath.Join(dir, "alone", name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "helped", name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	traced.holds(t, 3, "steady")
	table := exec.Command(os.Args[0])
	table.Args, table.Dir = []string{"darkroom", "fleet", "helped"}, dir
	if out, err := table.Output(); err != nil || !strings.Contains(string(out), "steady") || !strings.Contains(string(out), "SECONDS A JOB") {
		t.Errorf("%v\n%s", err, out)
	}
	if t.Failed() {
		t.Logf("the trainer:\n%s\nthe worker:\n%s", log, said)
	}
}

// sameRun holds a run that workers helped to one that was left alone, but for the files of the help itself.
func sameRun(t *testing.T, alone, helped string) {
	t.Helper()
	a, b := files(t, alone), files(t, helped)
	for _, own := range []string{"join", "broker.json", ledger.FleetFile} {
		delete(b, own)
	}
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs from that of the run which was left alone", name)
		}
	}
	if len(a) != len(b) {
		t.Errorf("%d files, and %d of the run which was left alone", len(b), len(a))
	}
}

// Networks that fail, and a server that loses all it holds, between whole processes: -long
// (make fleet).

// networks skips a test without its flag.
func networks(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("takes minutes; left out without -long (make fleet)")
	}
}

// abroad is a run alone, and one that a trainer does with workers that are somewhere else.
type abroad struct {
	*testing.T
	dir     string
	trainer *exec.Cmd
	log     *bytes.Buffer
	workers []*exec.Cmd
}

// away starts a trainer, with more arguments, of a run that was done alone before with the first of them.
func away(t *testing.T, iterations, common int, args ...string) *abroad {
	a := &abroad{T: t, dir: t.TempDir()}
	prepare(t, a.dir, "pictures", iterations)
	if cmd, log := started(t, a.dir, append([]string{"train", "killed.toml", "--out", "alone/run"}, args[:common]...)...); cmd.Wait() != nil {
		t.Fatal(log)
	}
	a.trainer, a.log = started(t, a.dir, append([]string{"train", "killed.toml", "--out", "helped/run", "--leave-rolls", "--audit", "0.1"}, args...)...)
	t.Cleanup(func() {
		for _, cmd := range append(a.workers, a.trainer) {
			_ = cmd.Process.Kill() // it may have ended
		}
	})
	for range 1200 {
		if _, err := os.Stat(a.join()); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return a
}

func (a *abroad) join() string { return filepath.Join(a.dir, "helped", "run", "join") }

// jobs is how many are done, by worker.
func (a *abroad) jobs() map[string]int {
	by := map[string]int{}
	shares, err := ledger.ReadShares(filepath.Join(a.dir, "helped", "run", ledger.FleetFile))
	for _, s := range shares {
		if err == nil {
			by[s.Worker] = s.Jobs
		}
	}
	return by
}

// ends waits for the run, and compares it.
func (a *abroad) ends() {
	a.Helper()
	if err := a.trainer.Wait(); err != nil {
		a.Fatalf("%v\n%s", err, a.log)
	}
	by := a.jobs()
	for _, w := range a.workers {
		_ = w.Process.Kill()
		_ = w.Wait()
	}
	sameRun(a.T, filepath.Join(a.dir, "alone", "run"), filepath.Join(a.dir, "helped", "run"))
	a.Logf("who did how many jobs: %v", by)
	for line := range strings.Lines(a.log.String()) {
		if strings.HasPrefix(line, "fleet: ") {
			a.Log(strings.TrimSpace(line))
		}
	}
}

// TestFleetStreams: all streams of the server are deleted every 5 s while two workers roll.
func TestFleetStreams(t *testing.T) {
	networks(t)
	a := away(t, 30, 0, "--listen", "127.0.0.1:0")
	for n := range 2 {
		w, _ := started(t, a.dir, "worker", "--join", a.join(), "--name", fmt.Sprint("w", n))
		a.workers = append(a.workers, w)
	}
	nc := a.asTrainer()
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	deleted := atomic.Int64{}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-ended:
				return
			case <-time.After(5 * time.Second):
			}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			for _, name := range []string{"WORK", "DONE", "IN", "OUT"} {
				if js.DeleteStream(ctx, name) == nil {
					deleted.Add(1)
				}
			}
			cancel()
		}
	}()
	a.ends()
	close(ended)
	<-gone
	t.Logf("%d streams were deleted", deleted.Load())
	if deleted.Load() < 8 {
		t.Error("too few to say anything")
	}
}

// asTrainer is a second connection by the trainer's key.
func (a *abroad) asTrainer() *nats.Conn {
	a.Helper()
	var id struct{ Certificate, Trainer string }
	var ticket struct{ Addresses []string }
	for path, into := range map[string]any{filepath.Join(filepath.Dir(a.join()), "broker.json"): &id, a.join(): &ticket} {
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			a.Fatal(err)
		}
	}
	pair, err := nkeys.FromSeed([]byte(id.Trainer))
	if err != nil {
		a.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		a.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(id.Certificate))
	nc, err := nats.Connect("tls://"+ticket.Addresses[0], nats.Nkey(public, pair.Sign), nats.MaxReconnects(-1),
		nats.Secure(&tls.Config{RootCAs: pool, ServerName: "darkroom-trainer", MinVersion: tls.VersionTLS13}))
	if err != nil {
		a.Fatal(err)
	}
	return nc
}

// A wire that delays, loses and breaks, and one that is cut.

// wire is a network between two ends: data comes later, sometimes much later, as where packets are lost and sent
// again, and now and then a connection breaks.
type wire struct {
	net.Listener
	to     string
	delay  time.Duration
	rate   float64 // bytes a second of a connection's direction; 0: any
	chunks atomic.Int64
	lost   atomic.Int64
	broken atomic.Int64
}

func (w *wire) serve() {
	for {
		in, err := w.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", w.to)
		if err != nil {
			in.Close()
			continue
		}
		go w.pass(in, out)
		go w.pass(out, in)
	}
}

// pass passes chunks on, in their order, a delay after they came.
func (w *wire) pass(from, to net.Conn) {
	type chunk struct {
		data []byte
		due  time.Time
	}
	way := make(chan chunk, 1<<10)
	go func() {
		defer from.Close()
		defer to.Close()
		for c := range way {
			time.Sleep(time.Until(c.due))
			if _, err := to.Write(c.data); err != nil {
				return
			}
		}
	}()
	defer close(way)
	buffer := make([]byte, 1460)
	free := time.Now() // when the wire takes the next chunk
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if w.rate > 0 {
			free = later(free, time.Now()).Add(time.Duration(float64(n) / w.rate * float64(time.Second)))
			time.Sleep(time.Until(free))
		}
		due := time.Now().Add(w.delay)
		w.chunks.Add(1)
		switch r := rand.Float64(); {
		case r < 0.0002:
			w.broken.Add(1)
			return
		case r < 0.01:
			w.lost.Add(1)
			due = due.Add(200 * time.Millisecond) // until it is sent again
		}
		way <- chunk{bytes.Clone(buffer[:n]), due}
	}
}

// later is the later one of two moments.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// TestFleetSlowWire: workers behind a network with a delay of 50 ms each way, which loses a packet of a hundred and
// breaks connections.
func TestFleetSlowWire(t *testing.T) {
	networks(t)
	slowWire(t, &wire{delay: 50 * time.Millisecond}, 30, 0, "roll")
}

// TestGradientsSlowWire is TestFleetSlowWire at 10 Mb/s, where workers compute gradients, too.
func TestGradientsSlowWire(t *testing.T) {
	networks(t)
	slowWire(t, &wire{delay: 20 * time.Millisecond, rate: 10e6 / 8}, 6, 2, "roll,gradient", "--set", "run.shards=4")
}

// slowWire has two workers help a trainer over a wire.
func slowWire(t *testing.T, w *wire, iterations, common int, roles string, args ...string) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.Listener, w.to = at, port.Addr().String()
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	go w.serve()
	a := away(t, iterations, common, append(args, "--listen", w.to, "--advertise", at.Addr().String())...)
	for n := range 2 {
		cmd, _ := started(t, a.dir, "worker", "--join", a.join(), "--name", fmt.Sprint("w", n), "--roles", roles)
		a.workers = append(a.workers, cmd)
	}
	a.ends()
	t.Logf("%d packets, %d lost, %d connections broken", w.chunks.Load(), w.lost.Load(), w.broken.Load())
	if w.lost.Load() == 0 || a.jobs()["w0"]+a.jobs()["w1"] == 0 {
		t.Error("nothing was lost, or workers did nothing")
	}
}

// TestFleetPartition: a worker in a network namespace of its own is cut off for 20 s, twice. It needs root, and ip.
func TestFleetPartition(t *testing.T) {
	networks(t)
	space := fmt.Sprint("dr", os.Getpid())
	ip := func(args ...string) error {
		out, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	if err := ip("netns", "add", space); err != nil {
		t.Skipf("no network namespace can be made: %v", err)
	}
	defer func() { _ = ip("netns", "del", space) }() // its end of the pair goes with it
	near, far := space+"a", space+"b"
	for _, args := range [][]string{
		{"link", "add", near, "type", "veth", "peer", "name", far, "netns", space},
		{"addr", "add", "10.213.77.1/30", "dev", near}, {"link", "set", near, "up"},
		{"-n", space, "addr", "add", "10.213.77.2/30", "dev", far}, {"-n", space, "link", "set", far, "up"}, {"-n", space, "link", "set", "lo", "up"},
	} {
		if err := ip(args...); err != nil {
			t.Fatal(err)
		}
	}
	a := away(t, 200, 0, "--listen", "10.213.77.1:0", "--blobs", "peer")
	cmd := exec.Command("ip", "netns", "exec", space, "bash", "-c", `exec -a darkroom "$@"`, "-", os.Args[0], "worker", "--join", a.join(), "--name", "far")
	cmd.Dir = a.dir
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.workers = append(a.workers, cmd)
	until := func(n int) {
		for end := time.Now().Add(3 * time.Minute); a.jobs()["far"] < n; {
			if time.Now().After(end) {
				t.Fatalf("the worker did %v\n%s\n%s", a.jobs(), a.log, &said)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	for range 2 {
		until(a.jobs()["far"] + 5)
		if err := ip("link", "set", near, "down"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		before := a.jobs()["far"]
		if err := ip("link", "set", near, "up"); err != nil {
			t.Fatal(err)
		}
		until(before + 5)
	}
	a.ends()
	if !strings.Contains(said.String(), "out of reach") {
		t.Logf("the worker did not notice:\n%s", &said)
	}
}
