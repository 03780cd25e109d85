// Package device opens the device of --device, for every program of this repository.
package device

import (
	"fmt"
	"os"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// A Backend can be closed.
type Backend interface {
	kernels.Backend
	Close()
}

// A CUDA backend's Close returns nothing: there is nothing left that could fail. Where times were taken, it tells them.
type CUDA struct{ *cuda.Backend }

func (d CUDA) Close() {
	d.WriteKernelTimes(os.Stderr)
	_ = d.Backend.Close()
}

// Open opens "auto", "cpu" or "cuda:N". Every error is about the name or the machine: wrong usage.
func Open(name string) (Backend, error) {
	name = Settle(name)
	if !OnCPU(name) {
		return OpenCUDA(name, os.Getenv(cuda.ModeVariable))
	}
	be, err := OpenCPU(0)
	if err != nil {
		return nil, err
	}
	return be, nil
}

// OpenCUDA opens "cuda:N", as with DARKROOM_CUDA of that mode.
func OpenCUDA(name, mode string) (Backend, error) {
	n, err := driver.ParseDevice(name)
	if err != nil {
		return nil, fmt.Errorf("--device %s: write auto, cpu, or cuda:0", name)
	}
	be, err := cuda.OpenAs(n, mode)
	if err != nil {
		return nil, fmt.Errorf("--device %s: %v\nhint: --device cpu computes without one", name, err)
	}
	return CUDA{be}, nil
}

// Settle is the meaning of "auto" on this machine: the first CUDA device if kernels have been verified on it or on
// its kind, and the CPU elsewhere. Other names stay. A benchmark of the CPU, beside a device that is busy, therefore
// names cpu.
func Settle(name string) string {
	if name != "" && name != "auto" {
		return name
	}
	r := cuda.Probe()
	if len(r.Devices) == 0 {
		return "cpu"
	}
	if taken, _ := trusted(r); taken {
		return "cuda:0"
	}
	return "cpu"
}

// trusted reports whether "auto" takes the first device, and whether the conformance suite has run on it.
func trusted(r cuda.Report) (taken, ran bool) {
	d := r.Devices[0]
	v, ran := Verified(d, r.Driver)
	return ran && v.Passed() || !ran && d.Verified(), ran
}

// Unused says that a GPU is there and "auto" is the CPU, and why; "" where none is there, or auto is the GPU.
func Unused() string {
	r := cuda.Probe()
	if len(r.Devices) == 0 {
		return ""
	}
	switch taken, ran := trusted(r); {
	case taken:
		return ""
	case ran:
		return fmt.Sprintf("%s is not used: 'darkroom doctor --verify' failed on it; --device cuda:0 takes it nevertheless", r.Devices[0].Name)
	}
	return fmt.Sprintf("%s is not used, since no kernel was verified on its kind: 'darkroom doctor --verify' does it in a minute, --device cuda:0 takes it at once", r.Devices[0].Name)
}

// OnCPU reports whether a name that was settled is the CPU's.
func OnCPU(name string) bool { return name == "cpu" }

// Known reports whether a name could be a device's, here or elsewhere.
func Known(name string) bool {
	_, err := driver.ParseDevice(name)
	return name == "" || name == "auto" || name == "cpu" || err == nil
}

// Help describes --device.
const Help = "compute on `DEVICE`: cpu, cuda:0, ... (auto is cuda:0 on an H100, an H200 or a card that passed 'doctor --verify', and cpu elsewhere)"
