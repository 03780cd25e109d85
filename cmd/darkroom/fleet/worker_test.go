package fleet

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/fleet/natsio"
)

// nothing is a link that has no blobs.
type nothing struct{ fleet.Link }

func (nothing) Get(context.Context, fleet.Blob) ([]byte, error) { return nil, errors.New("no blob") }

// TestTrades: a worker has a part of its own for each role.
func TestTrades(t *testing.T) {
	be, err := devices.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	c := &crew{workerOptions: &workerOptions{name: "w"}, cpus: 1, bench: func() (devices.Backend, error) { return be, nil }}
	c.opens = sync.OnceValues(c.openModel)
	names := map[string]bool{}
	for _, d := range fleet.Duties() {
		got, err := c.trade(d.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got.role != d.Role || names[got.name] {
			t.Errorf("%s works in role %q as %s", d.Name, got.role, got.name)
		}
		names[got.name] = true
		if err := got.close(); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	if _, err := c.trade("cook"); err == nil {
		t.Error("a role that no duty has was taken")
	}
}

// TestWorkerHome: a home that a worker cannot have is wrong usage, and names the possible ones.
func TestWorkerHome(t *testing.T) {
	for _, home := range []string{"ranks", "nf4", "Disk"} {
		cmd := WorkerCommand()
		cmd.SetArgs([]string{"--join", "none", "--home", home})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.Execute()
		var wrong exits.UsageError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "--home "+home+": device, host, disk are possible") || !strings.Contains(err.Error(), "hint:") {
			t.Errorf("--home %s: %v", home, err)
		}
	}
	cmd := WorkerCommand()
	cmd.SetArgs([]string{"--join", "none", "--home", "disk"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.Execute(); err == nil || strings.Contains(err.Error(), "--home") {
		t.Errorf("--home disk: %v", err)
	}
}

// TestOneAtATime: the roles of one worker that compute take turns at its device, for jobs and for freeing memory.
func TestOneAtATime(t *testing.T) {
	be, err := devices.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	c := &crew{workerOptions: &workerOptions{}, cpus: 1, bench: func() (devices.Backend, error) { return be, nil }}
	c.opens = sync.OnceValues(c.openModel)
	for name, open := range map[string]func() (*trade, error){
		"roll":     func() (*trade, error) { return c.computes(fleet.Rolls) },
		"gradient": func() (*trade, error) { return c.computes(fleet.Gradients) },
		"judge":    func() (*trade, error) { return c.judges(fleet.About{}) },
	} {
		trade, err := open()
		if err != nil {
			t.Fatal(err)
		}
		j := fleet.Job{}
		if name == "judge" {
			j.Score = &fleet.Scoring{Reward: "clip", Network: true}
		}
		for what, act := range map[string]func() error{
			"does a job": func() error { _, err := trade.do(t.Context(), nothing{}, j); return err },
			"ends":       trade.close,
		} {
			ended := make(chan error, 1)
			c.device.Lock() // as the other role does
			go func() { ended <- act() }()
			select {
			case err := <-ended:
				t.Errorf("%s %s while the other role computes: %v", name, what, err)
				ended <- err
			case <-time.After(20 * time.Millisecond):
			}
			c.device.Unlock()
			if err := <-ended; (err == nil) != (what == "ends") {
				t.Errorf("%s %s: %v", name, what, err)
			}
		}
	}
}

// TestFailures: an error of several crews is said once, with their devices.
func TestFailures(t *testing.T) {
	var crews []*crew
	for _, on := range []string{"cuda:0", "cuda:1", "cuda:2", ""} {
		crews = append(crews, &crew{workerOptions: &workerOptions{device: on, roles: []string{"score"}}})
	}
	lost, gone := errors.New("no run"), errors.New("no key")
	for what, c := range map[string]struct {
		of   int
		errs []error
		want string
	}{
		"alone":  {1, []error{lost}, "no run"},
		"none":   {4, make([]error, 4), "<nil>"},
		"one":    {2, []error{nil, lost}, "device cuda:1: no run"},
		"shared": {4, []error{lost, nil, errors.New("no run"), gone}, "device cuda:0, device cuda:2: no run\nrole score: no key"},
	} {
		if got := failures(crews[:c.of], c.errs); fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", what, got, c.want)
		}
	}
}

// TestCrews: a command has a worker on each device, with a name and a key of its own, and one without a device that
// asks servers. Those on the CPU share its memory.
func TestCrews(t *testing.T) {
	for _, c := range []struct {
		device, roles string
		want          []string
	}{
		{"auto", "roll,score", []string{"w auto 1 roll,score"}},
		{"cuda", "roll", []string{"w cuda:0 1 roll"}},
		{"cuda:0, cuda:1", "roll,score", []string{"w-cuda0 cuda:0 1 roll", "w-cuda1 cuda:1 1 roll", "w  1 score"}},
		{"cpu,cpu", "gradient", []string{"w-cpu0 cpu 2 gradient", "w-cpu1 cpu 2 gradient"}},
		{"cpu,cpu", "score", []string{"w  1 score"}},
		{"cuda:1,cuda:1", "roll", nil},
		{"cuda:1,auto", "roll", nil},
	} {
		o := &workerOptions{name: "w", device: c.device, roles: strings.Split(c.roles, ",")}
		names, err := o.devices()
		if c.want == nil {
			if !errors.As(err, new(exits.UsageError)) || !strings.Contains(err.Error(), "hint:") {
				t.Errorf("%s: %v", c.device, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		crews, err := o.crewsOn(names, natsio.Ticket{Blobs: "peer:4223"}, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, one := range crews {
			got = append(got, fmt.Sprintf("%s %s %d %s", one.name, one.workerOptions.device, one.cpus, strings.Join(one.roles, ",")))
			if i > 0 && (reflect.DeepEqual(one.ticket, crews[0].ticket) || one.ticket.Blobs != "peer") {
				t.Errorf("%s: the key of the first worker, or its port", one.name)
			}
			if (one.free != nil) != (one.cpus > 1) {
				t.Errorf("%s: %d crews share memory: %v", one.name, one.cpus, one.free != nil)
			}
		}
		if !slices.Equal(got, c.want) || !slices.Equal(o.roles, strings.Split(c.roles, ",")) {
			t.Errorf("%s %s: %q, want %q", c.device, c.roles, got, c.want)
		}
	}
}
