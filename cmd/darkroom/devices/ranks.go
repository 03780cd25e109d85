package devices

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"

	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/nccl"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/outside/machine"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// Ranks are the backends that train together, and their exchange.
type Ranks struct {
	All  []Backend
	wire exchange.Wire // nil: host memory
	Note string        // why it is, where there might be something faster
}

// Of are the devices of a run in a folder. "auto" of a run that goes on is the kind of device that it was begun on,
// since bits of the CPU and of tensor cores differ: only the latter leave a record of the products' kernels.
func Of(e *experiment.Experiment, dir string, anew bool) []string {
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

// OpenRanks opens the devices of an experiment, which wait for one another no longer than the limit. Ranks
// on the CPU share its cores.
func OpenRanks(names []string, limit time.Duration) (_ *Ranks, err error) {
	r := &Ranks{}
	defer func() {
		if err != nil {
			_ = r.Close(err)
		}
	}()
	var devices []*cuda.Backend
	for _, name := range names {
		be, err := OpenRank(name, len(names))
		if err != nil {
			return nil, err
		}
		r.All = append(r.All, be)
		if d, ok := be.(device.CUDA); ok {
			devices = append(devices, d.Backend)
		}
	}
	if len(names) == 1 || len(devices) == 0 {
		return r, nil
	}
	if err := cuda.Alike(devices...); err != nil {
		return nil, exits.Usagef("--device: %v", err)
	}
	over, err := nccl.Join(limit, devices...)
	if err == nil {
		if err = tried(over, r.All); err == nil {
			r.wire = over
		}
	}
	if err != nil {
		r.Note = fmt.Sprintf("gradients go through host memory: %v", err)
	}
	return r, nil
}

// tried is why a wire cannot carry.
func tried(w exchange.Wire, all []Backend) error {
	var ranks []kernels.Backend
	for _, be := range all {
		ranks = append(ranks, be)
	}
	if err := exchange.Try(w, ranks); err != nil {
		err = fmt.Errorf("a trial over %s failed: %w", w, err)
		return errors.Join(err, w.Abort(err), w.Close())
	}
	return nil
}

// OpenRank opens one of several devices. On the CPU each has its share of the cores.
func OpenRank(name string, ranks int) (Backend, error) {
	if name != "cpu" || ranks == 1 {
		return Open(name)
	}
	be, err := OpenCPU(max(1, cpu.Threads()/ranks))
	if err != nil {
		return nil, err
	}
	return be, nil
}

// Into sets a run's options for them.
func (r *Ranks) Into(o run.Options) run.Options {
	o.Backend, o.Wire, o.Class, o.Cache = r.All[0], r.wire, Arithmetic(r.All[0]), TextCache()
	o.Free = r.Free
	for _, be := range r.All[1:] {
		o.Further = append(o.Further, be)
	}
	return o
}

// Free is how much memory a run may take: the machine's, which ranks on the CPU share, or of devices the least, less
// kernels' memory beside a model (gathered operands, cuBLASLt's scratch) and the rounding of pieces of memory.
func (r *Ranks) Free() int64 {
	if _, ok := r.All[0].(*cpu.Backend); ok {
		return int64(machine.Memory().Available)
	}
	least := int64(math.MaxInt64)
	for _, be := range r.All {
		d, ok := be.(device.CUDA)
		if !ok {
			return 0
		}
		left := int64(d.Left())
		least = min(least, left-left/8)
	}
	return least
}

// TextCache is the folder of runs for encoded prompts, beside other data that programs may compute again; "" where
// the machine names no such place.
func TextCache() string {
	root, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(root, "darkroom", "texts")
}

// mostClosing is the time in which a device gives back its memory.
const mostClosing = 30 * time.Second

// Close ends all, after an earlier failure, which is then the error. Memory that a rank left behind may still use
// stays until the end of the program.
func (r *Ranks) Close(after error) error {
	if exchange.LeftBehind(after) {
		return nil
	}
	err := exchange.Team{Limit: mostClosing}.Together(1, "closing devices", func(int) error {
		var errs []error
		if r.wire != nil {
			errs = append(errs, r.wire.Close())
		}
		for _, be := range r.All {
			be.Close()
		}
		return errors.Join(errs...)
	})
	if after != nil {
		return nil
	}
	return err
}

// Arithmetic names the class of a device's arithmetic: two of one class compute the same bits.
func Arithmetic(be Backend) string {
	if d, ok := be.(device.CUDA); ok {
		return d.Arithmetic()
	}
	return cuda.CPUArithmetic
}
