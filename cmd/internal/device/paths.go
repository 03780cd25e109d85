package device

import (
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/choice"
	"github.com/darkroom-rl/darkroom/outside/machine"
)

// OpenCPU opens the CPU: on the path that DARKROOM_CPU names, or on the fastest path of each family of operations, as
// it was measured. threads are all that the process may use where they are 0.
func OpenCPU(threads int) (*cpu.Backend, error) {
	return choice.Backend(threads, func() choice.Table { return FastestPaths().Table })
}

// FastestPaths are the times of this CPU's paths by this program: kept ones, or measured now.
func FastestPaths() choice.Kept {
	if k, ok := KeptPaths(); ok {
		return k
	}
	return MeasurePaths()
}

// KeptPaths are times that were measured before.
func KeptPaths() (choice.Kept, bool) {
	here, file := pathsHere()
	return file.Find(here)
}

// MeasurePaths measures, and keeps the times for other starts. They are of use where they cannot be kept, too.
func MeasurePaths() choice.Kept {
	here, file := pathsHere()
	k := here.Take()
	if len(k.Table) > 0 {
		_ = file.Keep(k) // the next start measures again
	}
	return k
}

// pathsHere is this machine with this program, and the file of their times; no file's name, where the
// machine names no place for caches.
func pathsHere() (choice.Kept, choice.File) {
	here := choice.Kept{CPU: machine.CPUModel(), Microcode: machine.Microcode()}
	program, err := choice.Program()
	root, err2 := os.UserCacheDir()
	if err != nil || err2 != nil {
		return here, ""
	}
	here.Program = program
	return here, choice.File(filepath.Join(root, "darkroom", "paths.jsonl"))
}
