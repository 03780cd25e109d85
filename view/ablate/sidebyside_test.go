package ablate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// own is a place with a backend of its own.
type own struct{ *cpu.Backend }

func (o own) Into(t run.Options) run.Options { t.Backend = o.Backend; return t }
func (o own) Close(error) error              { o.Backend.Close(); return nil }

// TestSideBySide: trials on devices of their own leave the bytes of trials one after another; a device that
// does not open is left out, and its trial goes to another; without any left, trials that did not begin are reported.
func TestSideBySide(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a tiny model: seconds, and minutes without assembly; left out by -short")
	}
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	text := written(t)
	run := func(dir string, devices ...string) (said string, begun []string, err error) {
		g, err := Plan("small.toml", text, vary(t, "optim.lr=1e-3,1e-2"), Options{Dir: dir, Seeds: 1, Budget: Budget{Iterations: 1}})
		if err != nil {
			t.Fatal(err)
		}
		last, all := 0, 0
		err = g.Run(t.Context(), Runner{Devices: devices,
			Open: func(e *experiment.Experiment, _ string) (Place, error) {
				if strings.HasPrefix(e.Run.Device, "broken") {
					return nil, errors.New(e.Run.Device + " does not open")
				}
				return own{cpu.NewWith(cpu.Options{Path: path, Threads: 1})}, nil
			},
			Logf: func(format string, args ...any) { said += fmt.Sprintf(format, args...) + "\n" },
			Report: func(_ *Cell, r *Trial, _, _ int, _ *ledger.Line, _ *ledger.TimingLine) {
				begun = append(begun, r.Device)
			},
			Progress: func(done, of int) { last, all = done, of }})
		if err == nil && (last != 2 || all != 2) {
			t.Errorf("%d of %d iterations are done at the end", last, all)
		}
		return said, begun, err
	}
	contents := func(dir string) map[string][]byte {
		all := map[string][]byte{}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			switch d.Name() {
			case "timing.jsonl", "lock", "config.toml", "manifest.json", "report.html": // where it ran, and how long
				return nil
			}
			name, _ := filepath.Rel(dir, path)
			all[name], err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	if said, begun, err := run(one); err != nil || strings.Contains(said, "cpu]") || begun[0] != "" {
		t.Fatalf("one after another: %v\n%s", err, said)
	}
	said, begun, err := run(two, "broken:0", "cpu", "cpu")
	if err != nil || len(begun) != 2 || begun[0] != "cpu" || !strings.Contains(said, "/2 cpu] ") {
		t.Fatalf("side by side, on %q: %v\n%s", begun, err, said)
	}
	a, b := contents(one), contents(two)
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs", name)
		}
	}
	if len(a) < 10 || len(a) != len(b) {
		t.Errorf("%d files, and %d side by side", len(a), len(b))
	}
	if said, _, err := run(filepath.Join(dir, "none"), "broken:0", "broken:1"); err == nil || !strings.Contains(err.Error(), "2 runs were not begun, since no device is left: broken:") || !strings.Contains(said, "broken:1 is left out") {
		t.Errorf("no device: %v\n%s", err, said)
	}
}
