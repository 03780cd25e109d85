// Package devices opens the device of --device for Darkroom's commands: one backend, the ranks of a run, and backends
// that only count.
package devices

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/spf13/cobra"
)

// Flag is --device of a command that computes.
func Flag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "device", "auto", device.Help)
}

// A Backend can be closed.
type Backend = device.Backend

// OnCPU reports whether a device's name is the CPU's here.
func OnCPU(name string) bool { return device.OnCPU(device.Settle(name)) }

// CPUFlag is Flag of a command that computes on the CPU unless a device is named: a benchmark, and the maker of small
// models, whose state does not depend on the first device.
func CPUFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "device", "cpu", device.Help)
}

// RanksFlag is Flag of a command that trains.
func RanksFlag(cmd *cobra.Command, name *string) {
	Flag(cmd, name)
	f := cmd.Flags().Lookup("device")
	f.Usage += "; several, as cuda:0,cuda:1 or cpu,cpu, train together"
}

// Open opens "auto", "cpu" or "cuda:N"; if it cannot, the usage is wrong.
func Open(name string) (Backend, error) { return usable(device.Open(name)) }

// Where names the devices, for the first line of a command.
func Where(all []Backend) string {
	switch be := all[0].(type) {
	case *cpu.Backend:
		threads := be.Threads() * len(all)
		if len(all) > 1 {
			return fmt.Sprintf("on the CPU as %d devices (%d threads, %v)", len(all), threads, be.Path())
		}
		return fmt.Sprintf("on the CPU (%s, %v)", console.Plural(int64(threads), "thread"), be.Path())
	case device.CUDA:
		names := make([]string, len(all))
		for i, one := range all {
			names[i] = one.Name()
		}
		return fmt.Sprintf("on %s (%s)", strings.Join(names, ", "), be.Device().Name)
	}
	return "on " + all[0].Name()
}

// Unused says that there is a GPU and "auto" did not take it, and why; "" otherwise.
func Unused(asked string) string {
	if asked != "" && asked != "auto" {
		return ""
	}
	return device.Unused()
}

// OpenCPU opens the CPU with some threads, 0 for all; if it cannot, the usage is wrong.
func OpenCPU(threads int) (*cpu.Backend, error) {
	be, err := device.OpenCPU(threads)
	if err != nil {
		return nil, exits.Usage(err)
	}
	return be, nil
}

// OpenCUDA opens "cuda:N", as with DARKROOM_CUDA of that mode.
func OpenCUDA(name, mode string) (Backend, error) { return usable(device.OpenCUDA(name, mode)) }

func usable(be Backend, err error) (Backend, error) {
	if err != nil {
		return nil, exits.Usage(err)
	}
	return be, nil
}

// TellChoices prints a device's choices that its user did not expect.
func TellChoices(w io.Writer, be Backend) error {
	d, ok := be.(device.CUDA)
	if !ok {
		return nil
	}
	_, news, err := d.Choices()
	for _, s := range news {
		fmt.Fprintln(w, "note: "+s)
	}
	return err
}

// Counting computes nothing and counts until the context ends. For a model's folder that has settings and no weights
// it is one that does without them, and a note says so.
func Counting(ctx context.Context, e *experiment.Experiment) (dry func() model.Dry, note string, err error) {
	path, err := isa.Choose()
	if err != nil {
		return nil, "", err
	}
	o := cpu.Options{Path: path}
	if dir, err := assets.Resolve(e.Model.Path); err == nil {
		if parts, err := pipeline.Absent(dir); err == nil && len(parts) > 0 {
			note = fmt.Sprintf("%s has no weights of %s: what config.json says was checked and counted, as if weights were bf16; 'train' needs them", e.Model.Path, strings.Join(parts, ", "))
			return until(ctx, cpu.NewBare, o), note, nil
		}
	}
	return until(ctx, cpu.NewDry, o), "", nil
}

// until makes backends whose counting ends with the context: of a large model it takes seconds.
func until(ctx context.Context, fresh func(cpu.Options) *cpu.Dry, o cpu.Options) func() model.Dry {
	return func() model.Dry {
		d := fresh(o)
		d.Until(ctx)
		return d
	}
}

// Dry computes nothing.
func Dry() (kernels.Backend, error) {
	path, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	return cpu.NewDry(cpu.Options{Path: path}), nil
}
