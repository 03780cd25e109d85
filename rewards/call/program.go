package call

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/outside/child"
)

// A program is one that runs.
type program struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan line     // what it wrote
	gone   chan struct{} // closed when nobody reads lines any more
	stderr *Tail
	asked  int
	number int // of the copy, from 1
}

// A line is one that a program wrote, or why there are no more.
type line struct {
	text []byte
	err  error
}

func start(argv, env []string, most int64) (*program, error) {
	p := &program{cmd: exec.Command(argv[0], argv[1:]...), lines: make(chan line, 1), gone: make(chan struct{}), stderr: &Tail{}}
	p.cmd.Stderr, p.cmd.Env = p.stderr, env
	p.cmd.WaitDelay = time.Second // for what left the group and keeps the pipes open
	child.Apart(p.cmd)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the program: %w", err)
	}
	p.in = in
	go p.listen(bufio.NewReader(out), most)
	return p, nil
}

// listen hands over line after line, until the program's output or its use ends.
func (p *program) listen(out *bufio.Reader, most int64) {
	for {
		text, err := readLine(out, most)
		select {
		case p.lines <- line{text, err}:
		case <-p.gone:
			return
		}
		if err != nil {
			return
		}
	}
}

// ask writes a numbered request and reads its reply, until ctx ends. A program that answered with an
// error is of no more use, and has to be stopped. valid says of a reply without a number whether it is one.
func (p *program) ask(ctx context.Context, body []byte, valid func(reply []byte) error) ([]byte, error) {
	if err := p.surplus(0); err != nil {
		return nil, err
	}
	p.asked++
	written := make(chan error, 1)
	go func() { // ends when the program does, at the latest
		_, err := p.in.Write(numbered(body, p.asked))
		written <- err
	}()
	var reply []byte
	for written != nil || reply == nil {
		select {
		case err := <-written:
			if written = nil; err != nil {
				return nil, Passing(fmt.Errorf("it does not read: %w", err))
			}
		case l := <-p.lines:
			if reply = l.text; l.err != nil {
				return nil, l.err
			}
			if err := p.fits(reply, valid); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return reply, nil
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
			return nil, Passing(fmt.Errorf("it ended in the middle of a reply: %w", err))
		}
	}
}

// stop kills the program and all that it started, and adds to an error what it had to say.
func (p *program) stop(why error) error {
	close(p.gone)
	_ = p.in.Close()      // it may be closed already
	_ = child.Kill(p.cmd) // it may be gone already
	_ = p.cmd.Wait()      // it was killed
	if said := p.stderr.String(); why != nil && said != "" {
		return fmt.Errorf("%w; it wrote: %s", why, said)
	}
	return why
}

// A Tail keeps the end of what is written.
type Tail struct {
	mu   sync.Mutex
	last []byte
}

const tailBytes = 100

// Write keeps the last bytes.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	t.last = t.last[max(0, len(t.last)-tailBytes):]
	return len(b), nil
}

// String is what was written last, on one line.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(Shown(t.last))
}
