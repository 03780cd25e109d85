package rewards

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/rewards/call"
)

// Exec is a reward program: started when it is first needed, and kept. It reads a request a line
// and writes a reply a line (protocol.go); what it writes to its standard error is shown where it
// fails. One that dies, hangs or answers too much is stopped, and a new one started for the next
// try. As many run at once as the policy allows calls. Close ends them.
type Exec struct {
	*Remote
	argv []string
	most int64

	mu     sync.Mutex
	idle   []*program
	closed bool
}

// NewExec names the program and its arguments.
func NewExec(argv []string, batch int, p call.Policy, cache *call.Cache) (*Exec, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("an exec reward needs the path of a program")
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, fmt.Errorf("the reward's program: %w", err)
	}
	c := call.NewCaller(p, cache)
	e := &Exec{argv: argv, most: c.Policy().Bytes}
	e.Remote = &Remote{name: "exec " + strings.Join(argv, " "), batch: max(1, batch), caller: c, send: e.send}
	return e, nil
}

var errClosed = errors.New("the reward was closed")

func (e *Exec) send(ctx context.Context, body []byte) ([]byte, error) {
	p, err := e.take()
	if err != nil {
		return nil, err
	}
	reply, err := p.ask(ctx, body, e.most)
	if err != nil {
		return nil, p.stop(err)
	}
	e.giveBack(p)
	return reply, nil
}

// take is an idle program, or a new one.
func (e *Exec) take() (*program, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	if n := len(e.idle); n > 0 {
		p := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return p, nil
	}
	return start(e.argv)
}

func (e *Exec) giveBack(p *program) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		_ = p.stop(nil) // nobody asks why
		return
	}
	e.idle = append(e.idle, p)
}

// Close stops all programs.
func (e *Exec) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, p := range e.idle {
		_ = p.stop(nil) // they are told to
	}
	e.idle = nil
	return nil
}

// A program is one that runs.
type program struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tail
}

func start(argv []string) (*program, error) {
	p := &program{cmd: exec.Command(argv[0], argv[1:]...), stderr: &tail{}}
	p.cmd.Stderr = p.stderr
	p.cmd.WaitDelay = time.Second // for children that keep the pipes open
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the reward's program: %w", err)
	}
	return p, nil
}

// ask writes a line and reads one, until ctx ends.
func (p *program) ask(ctx context.Context, body []byte, most int64) ([]byte, error) {
	type answer struct {
		line []byte
		err  error
	}
	got := make(chan answer, 1)
	line := append(bytes.Clone(body), '\n')
	go func() {
		_, err := p.in.Write(line)
		if err != nil {
			got <- answer{nil, call.Passing(fmt.Errorf("it does not read: %w", err))}
			return
		}
		line, err := readLine(p.out, most)
		got <- answer{line, err}
	}()
	select {
	case a := <-got:
		return a.line, a.err
	case <-ctx.Done():
		return nil, ctx.Err() // stop ends the goroutine's reading
	}
}

// readLine reads up to the end of a line.
func readLine(r *bufio.Reader, most int64) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case int64(len(line)) > most:
			return nil, fmt.Errorf("the reply is longer than %d bytes", most)
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, call.Passing(fmt.Errorf("it ended in the middle of a reply: %w", err))
		}
	}
}

// stop kills the program, and adds to an error what it had to say.
func (p *program) stop(why error) error {
	_ = p.in.Close()         // it may be closed already
	_ = p.cmd.Process.Kill() // it may be gone already
	_ = p.cmd.Wait()         // it was killed
	if said := p.stderr.String(); why != nil && said != "" {
		return fmt.Errorf("%w; it wrote: %s", why, said)
	}
	return why
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	last []byte
}

const tailBytes = 100

// Write keeps the last bytes.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	t.last = t.last[max(0, len(t.last)-tailBytes):]
	return len(b), nil
}

// String is what was written last, on one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(call.Shown(t.last))
}
