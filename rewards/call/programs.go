package call

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
)

// Programs are copies of a program: each is started when it is first needed, and kept. It reads a request a line and
// writes a reply a line (numbered.go); what it writes to its standard error is shown where it fails. One that dies,
// hangs, answers too much or writes what is no reply is stopped with all that it started, and a new one is started for
// the next request. Close ends them.
type Programs struct {
	argv []string
	env  []string
	most int64 // bytes of a reply

	mu     sync.Mutex
	idle   []*program
	closed bool
}

// NewPrograms names the program and its arguments.
func NewPrograms(argv []string, most int64) (*Programs, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("the path of a program is needed")
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, fmt.Errorf("the program: %w", err)
	}
	return &Programs{argv: argv, env: environment(), most: most}, nil
}

// ErrClosed is the error of a request to programs that were closed.
var ErrClosed = errors.New("the programs were closed")

// Ask is a request, a JSON object, to one that is idle. valid says of a reply without a number whether it is one.
func (e *Programs) Ask(ctx context.Context, body []byte, valid func(reply []byte) error) ([]byte, error) {
	p, err := e.take()
	if err != nil {
		return nil, err
	}
	reply, err := p.ask(ctx, body, valid)
	if err != nil {
		return nil, p.stop(err)
	}
	e.giveBack(p)
	return reply, nil
}

// take is an idle program, or a new one.
func (e *Programs) take() (*program, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	if n := len(e.idle); n > 0 {
		p := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return p, nil
	}
	return start(e.argv, e.env, e.most)
}

func (e *Programs) giveBack(p *program) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		_ = p.stop(nil) // nobody asks why
		return
	}
	e.idle = append(e.idle, p)
}

// Close stops all programs.
func (e *Programs) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, p := range e.idle {
		_ = p.stop(nil) // they are told to
	}
	e.idle = nil
	return nil
}
