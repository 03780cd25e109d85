package rewards

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/rewards/call"
)

// Exec is a reward program: started when it is first needed, and kept. It reads a request a line
// and writes a reply a line (protocol.go, numbered.go); what it writes to its standard error is shown
// where it fails. One that dies, hangs, answers too much or writes what is no reply is stopped with all
// that it started, and a new one is started for the next try. As many run at once as the policy allows
// calls. Close ends them.
type Exec struct {
	*Remote
	argv []string
	env  []string
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
	e := &Exec{argv: argv, env: environment(), most: c.Policy().Bytes}
	e.Remote = &Remote{name: "exec " + strings.Join(argv, " "), batch: max(1, batch), caller: c, send: e.send}
	return e, nil
}

var errClosed = errors.New("the reward was closed")

func (e *Exec) send(ctx context.Context, body []byte, items int) ([]byte, error) {
	p, err := e.take()
	if err != nil {
		return nil, err
	}
	reply, err := p.ask(ctx, body, items)
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
	return start(e.argv, e.env, e.most)
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
