package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/nccl"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// ranks are the backends that train together, and what lies between them.
type ranks struct {
	all  []backend
	wire exchange.Wire // nil: host memory
	note string        // why it is, where there might be something faster
}

// devicesOf are the devices of a run in a folder. "auto" of a run that goes on is the kind of device that it was begun
// on, since bits of the CPU and of tensor cores differ: only the latter leave a record of what computed products.
func devicesOf(e *experiment.Experiment, dir string, anew bool) []string {
	names := e.Run.Devices()
	if names[0] != "auto" || anew {
		return names
	}
	has := func(file string) bool {
		_, err := os.Stat(filepath.Join(dir, file))
		return err == nil
	}
	if has(folder.Config) && !has(run.ProductsFile) {
		return []string{"cpu"}
	}
	return names
}

// openRanks opens the devices of an experiment, which wait for one another no longer than the limit. Ranks
// on the CPU share its cores.
func openRanks(names []string, limit time.Duration) (_ *ranks, err error) {
	r := &ranks{}
	defer func() {
		if err != nil {
			_ = r.Close(err)
		}
	}()
	var devices []*cuda.Backend
	for _, name := range names {
		be, err := openRank(name, len(names))
		if err != nil {
			return nil, err
		}
		r.all = append(r.all, be)
		if d, ok := be.(device.CUDA); ok {
			devices = append(devices, d.Backend)
		}
	}
	if len(names) == 1 || len(devices) == 0 {
		return r, nil
	}
	if err := cuda.Alike(devices...); err != nil {
		return nil, usagef("--device: %v", err)
	}
	over, err := nccl.Join(limit, devices...)
	if err != nil {
		r.note = fmt.Sprintf("gradients go through host memory: %v", err)
		return r, nil
	}
	r.wire = over
	return r, nil
}

func openRank(name string, ranks int) (backend, error) {
	if name != "cpu" || ranks == 1 {
		return openDevice(name)
	}
	path, err := isa.Choose()
	if err != nil {
		return nil, usageOf(err)
	}
	return cpu.NewWith(cpu.Options{Path: path, Threads: max(1, cpu.Threads()/ranks)}), nil
}

// Into sets what a run is told of them.
func (r *ranks) Into(o run.Options) run.Options {
	o.Backend, o.Wire, o.Class, o.Cache = r.all[0], r.wire, arithmetic(r.all[0]), textCache()
	o.Free = r.free
	for _, be := range r.all[1:] {
		o.Further = append(o.Further, be)
	}
	return o
}

// free is how much memory a run may take: the machine's, which ranks on the CPU share, or of devices the one's that has
// least, less what kernels take beside a model (gathered operands, cuBLASLt's scratch)
// and pieces of memory are rounded by.
func (r *ranks) free() int64 {
	if _, ok := r.all[0].(*cpu.Backend); ok {
		return int64(memory().Available)
	}
	least := int64(math.MaxInt64)
	for _, be := range r.all {
		d, ok := be.(device.CUDA)
		if !ok {
			return 0
		}
		left := int64(d.Left())
		least = min(least, left-left/8)
	}
	return least
}

// textCache is where runs keep what is computed of prompts, beside what else programs may compute again; "" where
// the machine names no such place.
func textCache() string {
	root, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(root, "darkroom", "texts")
}

// mostClosing is how long a device may take to give back what it has.
const mostClosing = 30 * time.Second

// Close ends all, after what failed before, which is then the news. What a rank that was left behind may
// still use is left to the end of the program.
func (r *ranks) Close(after error) error {
	if exchange.LeftBehind(after) {
		return nil
	}
	err := exchange.Team{Limit: mostClosing}.Together(1, "closing devices", func(int) error {
		var errs []error
		if r.wire != nil {
			errs = append(errs, r.wire.Close())
		}
		for _, be := range r.all {
			be.Close()
		}
		return errors.Join(errs...)
	})
	if after != nil {
		return nil
	}
	return err
}
