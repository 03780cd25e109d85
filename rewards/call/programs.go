package call

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
	copies int   // that were started
	why    error // the last one was stopped; nil: none was
}

// NewPrograms names the program and its arguments.
func NewPrograms(argv []string, most int64) (*Programs, error) {
	if err := LookUp(argv); err != nil {
		return nil, err
	}
	return &Programs{argv: argv, env: environment(), most: most}, nil
}

// LookUp is the error that the start of a program would meet for want of it, or of its script.
func LookUp(argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return errors.New("the path of a program is needed")
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return fmt.Errorf("the program: %w", err)
	}
	if script := scriptOf(argv); script != "" {
		if _, err := os.Stat(script); err != nil {
			return fmt.Errorf("the program: %s has no script %s\nhint: names begin in the folder that darkroom is started in", argv[0], script)
		}
	}
	return nil
}

// interpreters run the file that their first argument names.
var interpreters = regexp.MustCompile(`^(python[0-9.]*|pypy[0-9]*|(ba|da|z)?sh|node|deno|ruby|perl|Rscript|julia|lua|php)(\.exe)?$`)

// scriptOf is the file that an interpreter is to run; "" where the program is none, or has no file to run: an option
// comes first (-c, -m), or the program itself reads its standard input (-).
func scriptOf(argv []string) string {
	if len(argv) < 2 || !interpreters.MatchString(filepath.Base(argv[0])) {
		return ""
	}
	for _, arg := range argv[1:] {
		switch {
		case arg == "-u" || arg == "-O" || arg == "-B" || arg == "-E" || arg == "-s": // of python, without a value
		case strings.HasPrefix(arg, "-"), !strings.Contains(filepath.Base(arg), "."):
			return ""
		default:
			return arg
		}
	}
	return ""
}

// ErrClosed is the error of a request to programs that were closed.
var ErrClosed = errors.New("the programs were closed")

// Ask is a request, a JSON object, to one that is idle. valid says of a reply without a number whether it is one.
func (e *Programs) Ask(ctx context.Context, body []byte, valid func(reply []byte) error) ([]byte, error) {
	return e.AskCopy(ctx, body, valid, new(int))
}

// AskCopy is Ask of one copy, for a program with a state: copy 0 is any, and becomes the number of the one that
// answered. A copy that was stopped is never asked again, and the error says why it was.
func (e *Programs) AskCopy(ctx context.Context, body []byte, valid func(reply []byte) error, copy *int) ([]byte, error) {
	p, err := e.take(*copy)
	if err != nil {
		return nil, err
	}
	reply, err := p.ask(ctx, body, valid)
	if err != nil {
		err = p.stop(err)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.why = err
		return nil, err
	}
	*copy = p.number
	e.giveBack(p)
	return reply, nil
}

// take is an idle program, or a new one; copy is as AskCopy has it.
func (e *Programs) take(copy int) (*program, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	for i := len(e.idle) - 1; i >= 0; i-- {
		if p := e.idle[i]; copy == 0 || p.number == copy {
			e.idle = slices.Delete(e.idle, i, i+1)
			return p, nil
		}
	}
	if copy != 0 {
		return nil, fmt.Errorf("the program that had the state was stopped: %v", e.why) // another try would not help
	}
	p, err := start(e.argv, e.env, e.most)
	if err != nil {
		return nil, err
	}
	e.copies++
	p.number = e.copies
	return p, nil
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
