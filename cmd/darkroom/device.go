package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest/bench"
)

// deviceFlag is --device of a command that computes.
func deviceFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "device", "auto", device.Help)
}

type backend = device.Backend

// onCPU reports whether a device's name is the CPU's here.
func onCPU(name string) bool { return device.OnCPU(device.Settle(name)) }

// cpuFlag is deviceFlag of a command that computes on the CPU unless a device is named: a benchmark, and what makes
// small models, whose state says nothing of where it was begun.
func cpuFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "device", "cpu", device.Help)
}

// devicesFlag is deviceFlag of a command that trains.
func devicesFlag(cmd *cobra.Command, name *string) {
	deviceFlag(cmd, name)
	f := cmd.Flags().Lookup("device")
	f.Usage += "; several, as cuda:0,cuda:1 or cpu,cpu, train together"
}

// openDevice opens what "auto", "cpu" or "cuda:N" names; if it cannot, the usage is wrong.
func openDevice(name string) (backend, error) { return usable(device.Open(name)) }

// openCUDA opens what "cuda:N" names, as with DARKROOM_CUDA of that mode.
func openCUDA(name, mode string) (backend, error) { return usable(device.OpenCUDA(name, mode)) }

func usable(be backend, err error) (backend, error) {
	if err != nil {
		return nil, usageOf(err)
	}
	return be, nil
}

// tellChoices says what a device chose that its user did not expect.
func tellChoices(w io.Writer, be backend) error {
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
