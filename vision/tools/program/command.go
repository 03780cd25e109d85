package program

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed worker.py
var worker string

// command is what is run for an episode.
func (o *Options) command(folder string) *exec.Cmd {
	var argv []string
	for i, a := range o.Command {
		if a == "-" && i > 0 && i == len(o.Command)-1 {
			argv = append(argv, "-c", worker)
			break
		}
		argv = append(argv, strings.ReplaceAll(a, "{folder}", folder))
	}
	if path, err := exec.LookPath(argv[0]); err == nil { // else Start says so
		if whole, err := filepath.Abs(path); err == nil { // it is started in another folder
			argv[0] = whole
		}
	}
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir, c.Env = folder, environment(folder)
	return c
}

// environment is all that a program hears of the machine: where programs are, its own folder, and
// constants by which the same code prints the same.
func environment(folder string) []string {
	env := []string{
		"HOME=" + folder, "TMPDIR=" + folder, "TMP=" + folder, "TEMP=" + folder,
		"LANG=C.UTF-8", "TZ=UTC", "PYTHONHASHSEED=0", "PYTHONIOENCODING=utf-8", "MPLBACKEND=Agg",
		"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", // sums in one order, and the machine is the trainer's
	}
	for _, name := range []string{"PATH", "SYSTEMROOT"} { // the latter is Windows', where nothing starts without it
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
