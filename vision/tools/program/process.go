package program

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/outside/child"
)

// A process is a running interpreter. It answers a line to a line.
type process struct {
	end     func() error // kills it and all that it started, waits for it, and says how it ended
	in      io.WriteCloser
	replies *bufio.Scanner
	stderr  *os.File
	asked   int
}

// A request is begin or run.
type request struct {
	N     int    `json:"n"`
	Begin *begin `json:"begin,omitempty"`
	Run   *run   `json:"run,omitempty"`
}

type begin struct {
	Pictures [][]byte `json:"pictures"`
	Seed     uint32   `json:"seed"`
	Modules  []string `json:"modules"`
}

type run struct {
	Code     string  `json:"code"`
	Seconds  float64 `json:"seconds"`
	Output   int     `json:"output"`
	Pictures int     `json:"pictures"`
}

// A reply is the answer to either.
type reply struct {
	N       int      `json:"n"`
	Ready   string   `json:"ready"`
	Missing []string `json:"missing"`

	Error   *string  `json:"error"`
	Text    string   `json:"text"`
	Cut     bool     `json:"cut"`
	Images  [][]byte `json:"images"` // nil: no picture
	Dropped int      `json:"dropped"`
	Figures int      `json:"figures"`
}

var errTime = errors.New("its time is up")

// largest is bytes of a picture, as worker.py has it.
const largest = 16 << 20

// longest is bytes of a reply: text with every character escaped, and pictures in base64.
func (o *Options) longest() int { return 1<<16 + 12*o.Output + o.Pictures*(largest/3*4+8) }

// start starts one that works in a folder; its standard error goes to a file.
func (o *Options) start(folder, errorsTo string) (*process, error) {
	c := o.command(folder)
	child.Apart(c)
	p := &process{}
	var err error
	// A file, not a pipe: nobody has to read along, and nothing waits for who keeps it open.
	if p.stderr, err = os.Create(errorsTo); err != nil {
		return nil, err
	}
	c.Stderr = p.stderr
	if p.in, err = c.StdinPipe(); err != nil {
		return nil, errors.Join(err, p.stderr.Close())
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, p.in.Close(), p.stderr.Close())
	}
	p.replies = bufio.NewScanner(out)
	p.replies.Buffer(nil, o.longest())
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, p.stderr.Close())
	}
	p.end = func() error {
		_ = p.in.Close()  // it may be closed already
		_ = child.Kill(c) // it may be gone already
		err := c.Wait()   // closes the pipe that a reader may wait at
		_ = p.stderr.Close()
		if err == nil {
			err = errors.New("exit status 0")
		}
		return err
	}
	return p, nil
}

// ask writes a request and reads its reply. A process that answered with an error is of no more
// use, and has to be ended.
func (p *process) ask(ctx context.Context, limit time.Duration, q request) (reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTime)
	defer cancel()
	type answer struct {
		reply reply
		err   error
	}
	p.asked++
	q.N = p.asked
	got := make(chan answer, 1)
	go func() { // ends when the process does, at the latest
		r, err := p.exchange(q)
		got <- answer{r, err}
	}()
	select {
	case a := <-got:
		return a.reply, a.err
	case <-ctx.Done():
		return reply{}, context.Cause(ctx)
	}
}

var errEnded = errors.New("it ended")

func (p *process) exchange(q request) (r reply, err error) {
	line, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return r, fmt.Errorf("%w, and reads nothing", errEnded)
	}
	if !p.replies.Scan() {
		if errors.Is(p.replies.Err(), bufio.ErrTooLong) {
			return r, errors.New("its reply is too long")
		}
		return r, errEnded
	}
	if err := json.Unmarshal(p.replies.Bytes(), &r); err != nil {
		return reply{}, fmt.Errorf("it wrote what is no reply: %q", short(p.replies.Text()))
	}
	if r.N != q.N {
		return reply{}, fmt.Errorf("it answered request %d with a reply to %d", q.N, r.N)
	}
	return r, nil
}

// wrote is the end of its standard error.
func (p *process) wrote() string {
	info, err := p.stderr.Stat()
	if err != nil {
		return ""
	}
	text := make([]byte, min(info.Size(), 2000))
	n, _ := p.stderr.ReadAt(text, info.Size()-int64(len(text))) // as much as there is
	return strings.TrimSpace(string(text[:n]))
}

// short is the beginning of a text.
func short(s string) string { return s[:min(len(s), 80)] }

//go:embed worker.py
var worker string

// command is the process of an episode.
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

// environment is the whole environment of a program: where programs are, its own folder, and constants by which the
// same code prints the same.
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
