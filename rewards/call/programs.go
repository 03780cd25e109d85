package call

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/outside/child"
)

// Programs are copies of a program: each is started when it is first needed, and kept. It reads a request a line and
// writes a reply a line; an error shows its standard error. A program that dies, hangs, answers too much or writes an
// invalid reply is stopped with all that it started, and a new one is started for the next request. Close ends them.
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

// scriptOf is the file that an interpreter is to run; "" where the program is not an interpreter, or has no file to
// run: an option comes first (-c, -m), or the program itself reads its standard input (-).
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

// Call sends a request, a JSON object, to an idle program. valid checks a reply that has no number.
func (e *Programs) Call(ctx context.Context, body []byte, valid func(reply []byte) error) ([]byte, error) {
	return e.CallCopy(ctx, body, valid, new(int))
}

// CallCopy is Call of one copy, for a program with a state: copy 0 is any, and becomes the number of the one that
// answered. A copy that was stopped is never asked again, and the error says why it was.
func (e *Programs) CallCopy(ctx context.Context, body []byte, valid func(reply []byte) error, copy *int) ([]byte, error) {
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

// Starts is the error of a copy that fails although it is asked nothing: its input has ended already. nil: it ends
// well, or goes on until ctx ends.
func (e *Programs) Starts(ctx context.Context) error {
	p, err := start(e.argv, e.env, e.most)
	if err != nil {
		return err
	}
	defer close(p.gone)
	defer context.AfterFunc(ctx, func() { _ = child.Kill(p.cmd) })() // it may be gone already
	_ = p.in.Close()                                                 // so may its input
	for err == nil {
		err = (<-p.lines).err
	}
	if err = p.cmd.Wait(); err == nil || ctx.Err() != nil {
		return nil
	}
	return p.said(err)
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
		_ = p.stop(nil) // they get a signal
	}
	e.idle = nil
	return nil
}

// A program is one that runs.
type program struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan line     // its output
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
	p.cmd.WaitDelay = time.Second // for processes that left the group and keep the pipes open
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

// listen hands over line after line, until the program's output or its use ends. A line that begins with neither { nor
// [ is not a reply: it belongs to the standard error, since libraries print while they load. So does a list that is not
// JSON ("[INFO] ..."). A reply behind the text of an unfinished line is handed over, and refused at once.
func (p *program) listen(out *bufio.Reader, most int64) {
	for {
		text, err := readLine(out, most)
		if err == nil && !isReply(text) {
			_, _ = p.stderr.Write(text) // it never fails
			continue
		}
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

// isReply reports whether a line is meant as a reply.
func isReply(line []byte) bool {
	line = bytes.TrimSpace(line)
	switch {
	case bytes.HasPrefix(line, []byte("{")):
		return true
	case bytes.HasPrefix(line, []byte("[")):
		return json.Valid(line) || bytes.Contains(line, []byte("NaN"))
	}
	return bytes.Contains(line, []byte(`{"scores"`)) || bytes.Contains(line, []byte(`{"n"`))
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

// stop kills the program and all that it started, and adds its last output to an error.
func (p *program) stop(why error) error {
	close(p.gone)
	_ = p.in.Close()      // it may be closed already
	_ = child.Kill(p.cmd) // it may be gone already
	_ = p.cmd.Wait()      // it was killed
	if why == nil {
		return nil
	}
	return p.said(why)
}

// said adds the program's last output to an error.
func (p *program) said(why error) error {
	if said := p.stderr.Lines(); said != "" {
		return wrote{why, said}
	}
	return why
}

// wrote is a failure with a program's last output.
type wrote struct {
	error
	said string
}

func (w wrote) Error() string { return w.error.Error() + "; it wrote:" + w.said }
func (w wrote) Unwrap() error { return w.error }

// Output is a program's last output, of an error that has it.
func Output(err error) string {
	var w wrote
	errors.As(err, &w)
	return w.said
}

// A Tail keeps the end of its input.
type Tail struct {
	mu   sync.Mutex
	last []byte
}

// Sizes of a Tail and of its texts.
const (
	tailBytes = 4096
	tailLines = 20
	tailShown = 100 // bytes on one line
)

// Write keeps the last bytes.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	t.last = t.last[max(0, len(t.last)-tailBytes):]
	return len(b), nil
}

// String returns the end of the last output, on one line.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(Shown(t.last[max(0, len(t.last)-tailShown):]))
}

// Lines are the last lines of output, each on a line of its own; a single line has a space before it.
func (t *Tail) Lines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := strings.Split(strings.TrimSpace(string(t.last)), "\n")
	if len(all) == 1 {
		if all[0] == "" {
			return ""
		}
		return " " + strings.TrimSpace(all[0])
	}
	return "\n  | " + strings.Join(all[max(0, len(all)-tailLines):], "\n  | ")
}

// Card: a program's answers are the JSON objects of one stream, so a line too many would shift every later answer to
// another request. Requests to programs are therefore numbered, {"n": 7, "protocol": 1, ...}, and a
// reply that carries "n" must carry the request's. A reply without it, of a program that does not know
// of numbers, counts as long as the program wrote nothing else: no line before the request, and none in
// the moment after the reply. Whatever breaks this is a failure of the request with its name, and the
// program is started anew, so that its next reply belongs to its next request.
//
// Invariant (tests): no answer is ever that to another request.

// numbered is a request as a line, with its number.
func numbered(body []byte, n int) []byte {
	line := append([]byte(`{"n":`), strconv.Itoa(n)...)
	if len(body) > 2 { // not {} alone
		line = append(line, ',')
	}
	return append(append(line, body[1:]...), '\n')
}

// moment is how long a program without numbers is listened to after its reply.
const moment = 10 * time.Millisecond

// fits returns an error if a reply does not belong to the last request.
func (p *program) fits(reply []byte, valid func(reply []byte) error) error {
	var r struct {
		N *int `json:"n"`
	}
	if err := Alone(reply, &r); err != nil || r.N == nil {
		if err := valid(reply); err != nil {
			return err // perhaps this was other output, and the reply still comes
		}
		return p.surplus(moment)
	}
	if *r.N != p.asked {
		return fmt.Errorf("the reply to request %d carries n = %d: %s", p.asked, *r.N, manners)
	}
	return nil
}

// manners is the rule that authors of programs have to follow.
const manners = "a program answers each request with one line that is a JSON object; other text goes on lines of its own, or to the standard error"

// surplus reports a line that nobody asked for, and which came within this time. The program's end does not count as
// a surplus line: the next request meets it.
func (p *program) surplus(within time.Duration) error {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case l := <-p.lines:
		return p.unasked(l)
	case <-late.C:
	}
	select { // both may have been ready
	case l := <-p.lines:
		return p.unasked(l)
	default:
		return nil
	}
}

func (p *program) unasked(l line) error {
	if l.err != nil {
		p.lines <- l // its last: there is room
		return nil
	}
	return fmt.Errorf("it wrote a line that nobody asked for, so its answers may be those to other requests: %s; %s", Shown(l.text), manners)
}

// Alone decodes JSON that nothing follows.
func Alone(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON")
	}
	return nil
}

// A program may be a stranger's, so it is not shown the keys and tokens of the one who trains.

// kept are the variables that a program needs to start and to find its libraries and devices.
var kept = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX",
	"HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_CACHE", "TORCH_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
	"SYSTEMROOT", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "PROGRAMDATA", // Windows
}

// keptBeginnings are those of variables that say how to compute.
var keptBeginnings = []string{"LC_", "CUDA", "NVIDIA_", "NCCL_", "ROCR_", "HIP_", "PYTHON", "OMP_", "MKL_", "OPENBLAS_"}

// environment is the part of this process's environment that a program gets.
func environment() []string {
	env := []string{"PYTHONUNBUFFERED=1"} // or a reply waits in Python's buffer; a later value of the same name counts
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
