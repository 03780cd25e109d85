package run

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/record/ledger"
)

// breaking is a rank that fails in an operation, once it is armed.
type breaking struct {
	kernels.Backend
	at    string
	armed atomic.Bool
	does  func()
}

func (b *breaking) step(op string) {
	if op == b.at && b.armed.Load() {
		b.does()
	}
}

func (b *breaking) Upload(dst kernels.Span, src []byte) { b.step("Upload"); b.Backend.Upload(dst, src) }
func (b *breaking) Download(dst []byte, src kernels.Span) {
	b.step("Download")
	b.Backend.Download(dst, src)
}
func (b *breaking) NormBackward(a *kernels.NormBackward) {
	b.step("NormBackward")
	b.Backend.NormBackward(a)
}
func (b *breaking) Conv(a *kernels.Conv) { b.step("Conv"); b.Backend.Conv(a) }

// noMemory is a device's panic.
type noMemory struct{}

func (noMemory) Error() string    { return "no memory left" }
func (noMemory) OnDevice() string { return "cuda:7" }

// arming is a wire that arms a rank when gathering begins.
type arming struct {
	exchange.Wire
	rank *breaking
}

func (a *arming) Gather(from, into []kernels.Span) error {
	a.rank.armed.Store(true)
	return a.Wire.Gather(from, into)
}

// rankFails: wherever a rank fails, the run ends soon with its name, and goes on afterwards as if nothing had been.
// One folder sees every failure, and holds at the end the files of a run without any.
func rankFails(t *testing.T, sets []string, whole map[string][]byte) {
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	armed := func(bad *breaking, _ *Options) { bad.armed.Store(true) }
	gone := func() { panic(noMemory{}) }
	forever := make(chan struct{})
	defer close(forever)
	for _, x := range []struct {
		name, at, says, hint string
		arm                  func(bad *breaking, o *Options)
		does                 func()
	}{
		{"opening the model", "Upload", "no memory left", "", armed, gone},
		{"the first roll", "Conv", "no memory left", "nothing was saved yet", armed, gone},
		{"backward, by a mistake", "NormBackward", "a mistake in the program: index out of range", "iteration 0 is saved", armed, func() { panic("index out of range") }},
		{"a gathering", "Download", "no memory left", "iteration 0 is saved", func(bad *breaking, o *Options) { o.Wire = &arming{o.Wire, bad} }, gone},
		{"a gathering that it never comes to", "Download", "gathering: it has not come within 1s", "iteration 0 is saved", func(bad *breaking, o *Options) { o.Wire = &arming{o.Wire, bad} }, func() { <-forever }},
		{"saving", "Download", "no memory left", "iteration 0 is saved", func(bad *breaking, o *Options) {
			o.Report = func(*ledger.Line, *ledger.TimingLine) { bad.armed.Store(true) }
		}, gone},
	} {
		good := cpu.NewWith(cpu.Options{Path: path, Threads: 1})
		bad := &breaking{Backend: cpu.NewWith(cpu.Options{Path: path, Threads: 1}), at: x.at, does: x.does}
		o := Options{Dir: broken, Resume: begun(broken), Say: t.Logf, Backend: good, Further: []kernels.Backend{bad}, Wire: &exchange.Host{Ranks: []kernels.Backend{good, bad}}}
		e := parse(t, sets...)
		if strings.Contains(x.name, "never") {
			e.Run.RankLimit = 1
			o.Wire = &exchange.Host{Ranks: []kernels.Backend{good, bad}, Limit: e.Run.Patience()}
		}
		x.arm(bad, &o)
		ended := make(chan error, 1)
		go func() {
			_, err := Run(context.Background(), e, o)
			ended <- err
		}()
		select {
		case err = <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: it hangs", x.name)
		}
		f := new(exchange.Failure)
		if !errors.As(err, &f) || f.Rank != 1 || !strings.Contains(err.Error(), "rank 1 (cpu/") || !strings.Contains(err.Error(), x.says) || !strings.Contains(err.Error(), x.hint) {
			t.Errorf("%s: %v", x.name, err)
		}
		if !exchange.LeftBehind(err) {
			good.Close()
			bad.Backend.(*cpu.Backend).Close()
		}
	}
	if _, err := trainOn(t, parse(t, sets...), broken, true, 2, -1); err != nil {
		t.Fatal(err)
	}
	same(t, "after every failure", whole, contents(t, broken))
}
