package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	process "github.com/darkroom-rl/darkroom/outside/spent"
)

// spent is the time and memory of a step.
type spent struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"` // of all threads
	PeakMiB    int     `json:"peak_mib"`    // of the whole process meanwhile; 0: the system does not say

	PredictedMiB int `json:"predicted_mib,omitempty"` // the network's, with its buffers

	// On a device.
	CardMiB int              `json:"card_mib,omitempty"` // memory taken so far, including buffers that wait for reuse
	Traffic *kernels.Traffic `json:"traffic,omitempty"`  // asked of it, once

	Tera  float64 `json:"tera_operations,omitempty"` // of products and attention, as counted
	Speed float64 `json:"tera_a_second,omitempty"`
}

// meter times work on a backend.
type meter struct {
	be     kernels.Backend
	repeat int
}

// onDevice is the interface of a device's backend.
type onDevice interface {
	Traffic() kernels.Traffic
	Held() int
}

// best is the least that f took, of several times after one that does not count; once is for work that cannot be
// repeated.
func (m meter) best(f func() error) (b spent, err error) {
	if m.repeat > 1 {
		if err := f(); err != nil {
			return b, err
		}
	}
	return m.times(max(1, m.repeat), f)
}

func (m meter) once(f func() error) (spent, error) { return m.times(1, f) }

func (m meter) times(n int, f func() error) (b spent, err error) {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak begins anew where the system can
	d, far := m.be.(onDevice)
	for i := range n {
		var before kernels.Traffic
		if far {
			before = d.Traffic()
		}
		m.be.Sync()
		began, used := time.Now(), process.CPU()
		if err := f(); err != nil {
			return b, err
		}
		m.be.Sync()
		seconds, cpu := time.Since(began).Seconds(), (process.CPU() - used).Seconds()
		if i == 0 || cpu < b.CPUSeconds {
			b.CPUSeconds = cpu
		}
		if i == 0 || seconds < b.Seconds {
			b.Seconds = seconds
		}
		if far {
			asked := d.Traffic().Since(before)
			b.Traffic, b.CardMiB = &asked, d.Held()>>20
		}
	}
	b.PeakMiB = peak()
	return b, nil
}

// did says how much was computed.
func (b spent) did(operations float64) spent {
	b.Tera = operations / 1e12
	b.Speed = b.Tera / b.Seconds
	return b
}

// peak is the most memory that was resident, in MiB.
func peak() (mib int) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if _, err := fmt.Sscanf(string(line), "VmHWM: %d kB", &mib); err == nil {
			return mib / 1024
		}
	}
	return 0
}

// newCounted is a backend that computes nothing and counts operations.
func newCounted() (*cpu.Dry, error) {
	path, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	return cpu.NewBare(cpu.Options{Path: path}), nil
}
