//go:build !nocuda && linux && (amd64 || arm64)

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// TestAuto: "auto" is a device of the kind that kernels have been verified on, and otherwise the CPU.
func TestAuto(t *testing.T) {
	c := double.New(t)
	for capability, want := range map[int]string{80: "cpu", 90: "cuda:0", 120: "cpu"} {
		c.Set(13000, 1, capability, 1<<30)
		if got := device.Settle("auto"); got != want {
			t.Errorf("compute capability %d: auto is %s, want %s", capability, got, want)
		}
	}
	if got := device.Settle("cuda:1"); got != "cuda:1" {
		t.Errorf("cuda:1 became %s", got)
	}
	t.Setenv(driver.LibraryVariable, noDriver)
	if got := device.Settle("auto"); got != "cpu" {
		t.Errorf("without a driver auto is %s", got)
	}
}

// TestAutoTrialGoesOn: so does a trial of an ablation.
func TestAutoTrialGoesOn(t *testing.T) {
	double.New(t).Set(13000, 1, 90, 1<<30)
	dir, e := t.TempDir(), &experiment.Experiment{Run: experiment.Run{Device: "auto"}}
	if err := os.WriteFile(filepath.Join(dir, folder.Config), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, named := range [][]string{nil, {"auto"}} {
		place, err := (&ablateOptions{devices: named}).open(e, dir)
		if err != nil {
			t.Fatal(err)
		}
		if r := place.(*devices.Ranks); !isCPU(r.All[0]) {
			t.Errorf("--device %v: a trial of the CPU goes on on %v", named, r.All[0])
		}
		if err := place.Close(nil); err != nil {
			t.Error(err)
		}
	}
}

func isCPU(be devices.Backend) bool {
	_, ok := be.(*cpu.Backend)
	return ok
}

// TestAutoGoesOn: a run that was begun on the CPU goes on there, whatever the machine has by then.
func TestAutoGoesOn(t *testing.T) {
	dir, e := t.TempDir(), &experiment.Experiment{Run: experiment.Run{Device: "auto"}}
	want := func(what string, anew bool, device string) {
		t.Helper()
		if got := devices.Of(e, dir, anew); len(got) != 1 || got[0] != device {
			t.Errorf("%s: %v, want %s", what, got, device)
		}
	}
	write := func(file string) {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want("an empty folder", false, "auto")
	write(folder.Config)
	want("a run of the CPU", false, "cpu")
	want("a run that begins anew", true, "auto")
	write(run.ProductsFile)
	want("a run of a device", false, "auto")
	e.Run.Device = "cuda:0"
	want("a device with a name", false, "cuda:0")
}
