package call

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// A program may be a stranger's, so it is not shown the keys and tokens of the one who trains.

// kept are the variables that a program needs to start and to find its libraries and devices.
var kept = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX",
	"HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_CACHE", "TORCH_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
	"SYSTEMROOT", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "PROGRAMDATA", // Windows
}

// keptBeginnings are those of variables that say how to compute.
var keptBeginnings = []string{"LC_", "CUDA", "NVIDIA_", "NCCL_", "ROCR_", "HIP_", "PYTHON", "OMP_", "MKL_", "OPENBLAS_"}

// environment is what a program is given of this process's environment.
func environment() []string {
	env := []string{} // not nil, which would mean all
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		name = strings.ToUpper(name)
		if slices.Contains(kept, name) || slices.ContainsFunc(keptBeginnings, func(b string) bool { return strings.HasPrefix(name, b) }) {
			env = append(env, v)
		}
	}
	return env
}

// Pass also gives the programs these variables, which must be set. Call it before the first request.
func (e *Programs) Pass(names ...string) error {
	for _, name := range names {
		v, ok := os.LookupEnv(name)
		if !ok || name == "" {
			return fmt.Errorf("the program is given the environment variable %q (env), which is not set", name)
		}
		e.env = append(e.env, name+"="+v)
	}
	return nil
}
