package train

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/outside/child"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// [track] starts 'darkroom export --follow' for each of its layouts, as a process of its own that ends with its
// standard input: so it ends with the run, however that ends. Nothing waits for it before the run has ended, and its
// failure is a warning.

// followers are those processes.
type followers struct {
	experiment.Track
	dir   string
	once  sync.Once
	ready chan struct{} // closed when all are started
	all   []*follower
}

// follower is one.
type follower struct {
	as    string
	cmd   *exec.Cmd
	input io.Closer
	said  bytes.Buffer
	err   error // why it did not start
}

// patience is how long a follower may go on when the run has ended.
const patience = 30 * time.Second

func newFollowers(t experiment.Track, dir string) *followers {
	return &followers{Track: t, dir: dir, ready: make(chan struct{})}
}

// begin starts them, once, and does not wait for that. The run's folder must be there.
func (f *followers) begin() {
	if len(f.As) == 0 {
		return
	}
	f.once.Do(func() {
		go func() {
			defer close(f.ready)
			for _, as := range f.As {
				f.all = append(f.all, f.start(as))
			}
		}()
	})
}

// start starts one.
func (f *followers) start(as string) *follower {
	one := &follower{as: as}
	program, err := os.Executable()
	if err != nil {
		one.err = err
		return one
	}
	args := []string{"export", f.dir, "--as", as, "--names", f.Names, "--follow", "--until-eof"}
	if f.Out != "" && !strings.Contains(as, "=") {
		args = append(args, "--out", filepath.Join(f.Out, as))
	}
	one.cmd = exec.Command(program, args...) //nolint:gosec // it is this program
	one.cmd.Args[0] = os.Args[0]
	one.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	one.cmd.Stderr = &one.said
	child.Apart(one.cmd)
	if one.input, one.err = one.cmd.StdinPipe(); one.err == nil {
		one.err = one.cmd.Start()
	}
	return one
}

// end ends them, and reports failures.
func (f *followers) end(log io.Writer) {
	started := true
	f.once.Do(func() { started = false })
	if !started || len(f.As) == 0 {
		return
	}
	<-f.ready
	for _, one := range f.all {
		if one.err == nil {
			one.input.Close() // this tells it of the end
		}
	}
	for _, one := range f.all {
		if err := one.wait(); err != nil {
			fmt.Fprintf(log, "warning: the run was not followed as %s to its end: %v\nhint: 'darkroom export %s --as %s' writes what is missing\n", one.as, err, f.dir, one.as)
		}
	}
}

// wait waits for a follower's end, and kills one that takes too long.
func (one *follower) wait() error {
	if one.err != nil {
		return one.err
	}
	late := time.AfterFunc(patience, func() { _ = child.Kill(one.cmd) }) // Wait says that it was killed
	err := one.cmd.Wait()
	if !late.Stop() {
		return fmt.Errorf("it was still at work after %v", patience)
	}
	if said := strings.TrimSpace(one.said.String()); err != nil && said != "" {
		return fmt.Errorf("%s", said)
	}
	return err
}
