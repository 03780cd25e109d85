package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest/bench"
)

// deviceFlag is --device of a command that computes.
func deviceFlag(cmd *cobra.Command, device *string) {
	cmd.Flags().StringVar(device, "device", "auto", "compute on `DEVICE`: cpu, cuda:0, ... (auto is the CPU until CUDA has been verified on hardware)")
}

// A backend can be ended.
type backend interface {
	kernels.Backend
	Close()
}

// onCPU reports whether a name of a device is the CPU's.
func onCPU(name string) bool { return name == "" || name == "auto" || name == "cpu" }

// isDevice reports whether a name could be a device's, here or elsewhere.
func isDevice(name string) bool {
	_, err := cuda.ParseDevice(name)
	return onCPU(name) || err == nil
}

// devicesFlag is deviceFlag of a command that trains.
func devicesFlag(cmd *cobra.Command, device *string) {
	deviceFlag(cmd, device)
	f := cmd.Flags().Lookup("device")
	f.Usage += "; several, as cuda:0,cuda:1 or cpu,cpu, train together"
}

// openDevice opens what "auto", "cpu" or "cuda:N" names.
func openDevice(name string) (backend, error) {
	if onCPU(name) {
		be, err := cpu.New()
		if err != nil {
			return nil, usageError{err}
		}
		return be, nil
	}
	return openCUDA(name, os.Getenv(cuda.ModeVariable))
}

// openCUDA opens what "cuda:N" names, as with DARKROOM_CUDA of that mode.
func openCUDA(name, mode string) (backend, error) {
	n, err := cuda.ParseDevice(name)
	if err != nil {
		return nil, usagef("--device %s: write auto, cpu, or cuda:0", name)
	}
	be, err := cuda.OpenAs(n, mode)
	if err != nil {
		return nil, usagef("--device %s: %v\nhint: --device cpu computes without one", name, err)
	}
	return device{be}, nil
}

// device is a CUDA backend whose end has nothing left to fail for.
type device struct{ *cuda.Backend }

func (d device) Close() { _ = d.Backend.Close() }

// tellChoices says what a device chose that its user did not expect.
func tellChoices(w io.Writer, be backend) error {
	d, ok := be.(device)
	if !ok {
		return nil
	}
	_, news, err := d.Choices()
	for _, s := range news {
		fmt.Fprintln(w, "note: "+s)
	}
	return err
}

// onDevice lets a benchmark run on a device: once, since threads are the device's business; at sizes that
// fill it, too; results of bf16 near ref; and against no peak, since none is probed.
func onDevice(o *bench.Options, be kernels.Backend, heading func()) {
	o.Threads, o.Near, o.Queue, o.Large = []int{1}, 2e-2, 20*time.Millisecond, true
	o.Backend = func(int) kernels.Backend { return be }
	o.Peaks = func(int) bench.Peaks {
		heading()
		return bench.Peaks{F32: math.Inf(1), BF16: math.Inf(1), Memory: math.Inf(1)}
	}
}
