package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A campaign kills the processes of a run at random moments, and starts them anew.
type campaign struct {
	kind  string   // of prepare
	sets  []string // of the run, helped or not
	more  []string // of the run that is helped
	roles string   // of the workers
	// broker starts a server of its own at an address, with a folder; nil: the trainer has one.
	broker func(at, dir string) *exec.Cmd
}

// TestFleetKilled: trainer and workers are killed at random moments, the trainer is resumed and workers begin anew,
// and the run leaves the bytes of one process, with samples of earlier weights as without. -kills says how often
// (make fleet).
func TestFleetKilled(t *testing.T) {
	if *kills == 0 {
		t.Skip("takes minutes; left out without -kills (make fleet)")
	}
	for _, lag := range []string{"0", "2"} {
		c := campaign{kind: "pictures", sets: []string{"--set", "run.lag=" + lag}, roles: "roll"}
		t.Run("lag "+lag, func(t *testing.T) { c.run(t, *kills, 12+*kills/2) })
	}
}

// parted are experiments whose gradients workers compute: the kind of prepare, and keys that are set.
var parted = map[string][]string{
	"pictures": {"pictures"},
	"updates":  {"pictures", "optim.updates=2", "loss.kl.weight=0.01"},
	"nft":      {"pictures", "loss.objective=nft", "loss.times=2", "loss.kl.weight=1e-3", "loss.kl.estimator=velocity"},
	"episodes": {"episodes"},
	"clips":    {"clips"},
}

// TestGradientsKilled is TestFleetKilled where workers compute gradients, too: four kills an experiment without -kills
// (make gradients).
func TestGradientsKilled(t *testing.T) {
	if *kills == 0 && !*long {
		t.Skip("kills processes for many seconds: -long, .ci/run slow")
	}
	for name, of := range parted {
		t.Run(name, func(t *testing.T) { computes(of).often(t) })
	}
}

// computes is a campaign against workers that compute gradients.
func computes(of []string) campaign {
	c := campaign{kind: of[0], sets: []string{"--set", "run.shards=4"}, more: []string{"--audit", "0.2"}, roles: "roll,gradient"}
	for _, set := range of[1:] {
		c.sets = append(c.sets, "--set", set)
	}
	return c
}

// often runs it with -kills, or four.
func (c campaign) often(t *testing.T) {
	if *kills == 0 {
		c.run(t, 4, 8)
	} else {
		c.run(t, *kills, 12+*kills/2)
	}
}

// run kills this often, over this number of iterations.
func (c campaign) run(t *testing.T, kills, iterations int) {
	dir := t.TempDir()
	prepare(t, dir, c.kind, iterations)
	began := time.Now()
	if cmd, log := started(t, dir, append([]string{"train", "killed.toml", "--out", "whole/run"}, c.sets...)...); cmd.Wait() != nil {
		t.Fatal(log)
	}
	whole := time.Since(began)
	at := freePort(t)
	args := append([]string{"train", "killed.toml", "--out", "parts/run", "--listen", at, "--leave-rolls"}, slices.Concat(c.sets, c.more)...)
	victims := map[string]*exec.Cmd{}
	if c.broker != nil {
		args[slices.Index(args, "--listen")], args[slices.Index(args, at)] = "--workers", "nats://"+at
		victims["broker"] = c.broker(at, filepath.Join(dir, "broker"))
	}
	join := filepath.Join(dir, "parts", "run", "join")
	train := func() (*exec.Cmd, *bytes.Buffer) {
		// A worker that is starting reads the file meanwhile.
		old, err := os.Stat(join)
		cmd, log := started(t, dir, append(slices.Clone(args), goingOn(filepath.Dir(join))...)...)
		if !await(join) {
			t.Errorf("no worker can join:\n%s", log)
		}
		for range 600 { // it is written when the trainer has reached a server, which must be there until then
			now, gone := os.Stat(join)
			if c.broker == nil || err != nil || gone != nil || !now.ModTime().Equal(old.ModTime()) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		return cmd, log
	}
	logs := map[*exec.Cmd]*bytes.Buffer{}
	worker := func(n int) *exec.Cmd {
		cmd, log := started(t, dir, "worker", "--join", join, "--name", fmt.Sprint("w", n), "--roles", c.roles)
		logs[cmd] = log
		return cmd
	}
	kill := func(name string) {
		v := victims[name]
		_ = v.Process.Kill()
		_ = v.Wait()
		if log := logs[v]; log != nil && v.ProcessState.ExitCode() > 0 { // a worker ends with its run, and not before
			t.Errorf("%s had failed: %v\n%s", name, v.ProcessState, log)
		}
	}
	trainer, log := train()
	victims["worker 0"], victims["worker 1"] = worker(0), worker(1)
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	names := append([]string{"worker 0", "worker 1", "trainer"}, []string{"broker"}[:len(victims)-2]...)
	ran, count, turns := 0, map[string]int{}, []int(nil)
	for k := range kills {
		time.Sleep(time.Duration(r.Float64() * 4 * float64(whole) / float64(iterations)))
		if len(turns) == 0 {
			turns = r.Perm(len(names)) // each is killed about as often
		}
		name := names[turns[0]]
		turns = turns[1:]
		if name != "trainer" {
			kill(name)
			if name == "broker" {
				victims[name] = c.broker(at, filepath.Join(dir, "broker"))
			} else {
				victims[name] = worker(2 + k)
			}
			count[name], ran = count[name]+1, ran+1
			continue
		}
		_ = trainer.Process.Kill()
		err := trainer.Wait()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != -1) {
			t.Fatalf("kill %d: %v\n%s", k, err, log)
		}
		if err == nil {
			trainer = nil // it had ended by itself
			break
		}
		count[name], ran = count[name]+1, ran+1
		trainer, log = train()
	}
	if trainer != nil {
		if err := trainer.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
	}
	for name := range victims {
		kill(name)
	}
	sameRun(t, filepath.Join(dir, "whole", "run"), filepath.Join(dir, "parts", "run"))
	t.Logf("%d of %d kills before the run's end: %v; alone it takes %v", ran, kills, count, whole)
}

// freePort is an address of this machine that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	return free.Addr().String()
}
