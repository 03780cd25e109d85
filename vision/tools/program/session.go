package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Options are [episode.exec].
type Options struct {
	Command  []string `toml:"command" doc:"what runs the model's code: an interpreter in a sandbox of your choice, with its arguments; {folder} is the episode's folder; - at the end is where the interpreter is given its program"`
	Timeout  float64  `toml:"timeout" range:"(0,86400]" doc:"seconds for one block of code"`
	Output   int      `toml:"output" range:"[1,1e7]" doc:"bytes of what a block prints that the model reads"`
	Pictures int      `toml:"pictures" range:"[0,64]" doc:"of one block that the model sees"`
	Errors   string   `toml:"errors" enum:"tell,end" doc:"what becomes of code that raised, or cannot be read: the model sees the error and continues, or the episode ends, as published"`
	Modules  []string `toml:"modules" doc:"what the interpreter must be able to import: looked for before the run"`
}

// SetDefaults is PyVision-RL's: thirty seconds, and the modules that its prompt promises. Printed text and pictures
// are limited by the whole episode alone; its training ends an episode at the first error, and here the model reads
// it.
func (o *Options) SetDefaults() {
	*o = Options{Timeout: 30, Output: 16384, Pictures: 8, Errors: "tell", Modules: []string{"matplotlib", "PIL", "numpy"}}
}

// Check reports settings that cannot run.
func (o *Options) Check(report func(key, problem, hint string)) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		report("command", "there is nothing to run the model's code with", Example)
	}
}

// Example is a command that works where bubblewrap and a Python with the modules are installed: no network, no files
// but the system's to read and the episode's folder to write. Debian's numpy and matplotlib do not start without the
// two of /etc.
const Example = `write command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr", ` +
	`"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", ` +
	`"--ro-bind-try", "/etc/alternatives", "/etc/alternatives", "--ro-bind-try", "/etc/matplotlibrc", "/etc/matplotlibrc", ` +
	`"--bind", "{folder}", "{folder}", "--chdir", "{folder}", "python3", "-"] (Debian: bubblewrap, python3-matplotlib, python3-pil)`

// Bare reports whether the command is an interpreter with nothing around it.
func (o *Options) Bare() bool {
	return len(o.Command) > 0 && strings.HasPrefix(filepath.Base(o.Command[0]), "python")
}

// Words are the command as people read it.
func (o *Options) Words() string { return strings.Join(o.Command, " ") }

// Card: an episode's interpreter (PyVision-RL, safe_persis_python_exe_tool_w_image_hint.py: PersistentWorker). Blocks
// of code run one after another in one process, which keeps their variables, as upstream's does. The other way, to
// run all blocks so far again for each new one, would need no process to live on; but its work grows with the square
// of the turns, and an earlier block's reading of a clock or a file would be another the second time.
//
//	printed, shown            a text and pictures
//	raised                    its message, "Execution error: ..." to the model: a call that failed
//	its time is up            the same: upstream's "Execution timeout"
//	ended, or wrote garbage   the same: the code did it
//	spoilt a picture          upstream's words, and nothing is earned
//	does not start            an error of the run: no fault of the code, and nothing to learn from
//
// Differences: after its time is up, or when it ended, the process is killed, and the next block begins a new one
// with the prompt's pictures, and the model reads so. Upstream goes on waiting for the old one, and takes its late
// reply for that of the next block. Text and pictures have limits, and a note where one was reached.
//
// Invariants (tests): whatever the code does, Run answers within its time, and nothing it started
// lives after Close; two sessions of one seed print the same.

// An Episode has the facts that its interpreter gets.
type Episode struct {
	Pictures []*vision.Image               // image_clue_0, image_clue_1, ...
	Seed     uint32                        // of random and numpy.random
	Fits     func(width, height int) error // whether the model can look at such a picture; nil: at any
}

// A Session is an episode's interpreter. Its process starts with the first block.
type Session struct {
	ctx     context.Context // of the episode, which is all that a session lives
	options *Options
	episode Episode
	home    string // all that is deleted at the end
	process *process
	seen    int // figures so far
	before  int // of them, those of processes that ended
	broken  error

	patience time.Duration // with a start; 0: startTime
}

// startTime is the time in which an interpreter starts and imports its modules.
const startTime = time.Minute

// Begin begins an episode's session.
func Begin(ctx context.Context, o *Options, e Episode) *Session {
	return &Session{ctx: ctx, options: o, episode: e, seen: len(e.Pictures)}
}

// Probe starts an interpreter as an episode would, and returns its version.
func Probe(ctx context.Context, o *Options) (string, error) {
	s := Begin(ctx, o, Episode{Pictures: []*vision.Image{vision.New(1, 1)}})
	defer s.Close()
	return s.start()
}

// Err is why no code can be run, where that is not the code's doing.
func (s *Session) Err() error { return s.broken }

// Run runs a block.
func (s *Session) Run(code string) (tools.Execution, error) {
	if s.broken == nil && s.process == nil {
		_, s.broken = s.start()
	}
	if s.broken != nil {
		return tools.Execution{}, s.broken
	}
	o := s.options
	limit := time.Duration(o.Timeout * float64(time.Second))
	r, err := s.process.ask(s.ctx, limit, request{Run: &run{code, o.Timeout, o.Output, o.Pictures}})
	if err != nil {
		return s.lost(err)
	}
	if r.Error != nil {
		return tools.Execution{Failed: true, Error: s.within(*r.Error)}, nil
	}
	return s.shown(r), nil
}

// lost ends the process after it gave no reply.
func (s *Session) lost(why error) (tools.Execution, error) {
	how := s.process.end()
	s.process = nil
	s.before = s.seen - len(s.episode.Pictures)
	if err := s.ctx.Err(); err != nil { // the run is interrupted
		s.broken = err
		return tools.Execution{}, err
	}
	said := fmt.Sprintf("the interpreter was stopped: %v", why)
	switch {
	case errors.Is(why, errTime):
		said = fmt.Sprintf("Execution timeout: more than %v seconds", s.options.Timeout)
	case errors.Is(why, errEnded):
		said = fmt.Sprintf("the interpreter ended (%v)", how)
	}
	return tools.Execution{Failed: true, Error: said + "; variables are lost"}, nil
}

// shown is the output and the pictures of a block.
func (s *Session) shown(r reply) tools.Execution {
	e := tools.Execution{Text: s.within(r.Text)}
	if r.Cut && e.Text == r.Text {
		e.Text += s.note()
	}
	if dropped := max(0, r.Dropped) + max(0, len(r.Images)-s.options.Pictures); dropped > 0 {
		e.Text += fmt.Sprintf("\n[%d more pictures are not shown: %d is the limit]", dropped, s.options.Pictures)
	}
	if r.Figures >= 0 && r.Figures <= 1<<20 { // code may count as it likes, within reason
		s.seen = r.Figures + s.before
	}
	e.Figures = s.seen
	for _, data := range r.Images[:min(len(r.Images), s.options.Pictures)] {
		m, err := s.picture(data)
		if err != nil {
			return tools.Execution{Spoiled: true, Error: s.within(err.Error())}
		}
		e.Drawn = append(e.Drawn, m)
	}
	return e
}

// mostPixels of a picture: a model sees far fewer.
const mostPixels = 1 << 24

func (s *Session) picture(data []byte) (*vision.Image, error) {
	if data == nil {
		return nil, errors.New("it is no picture")
	}
	if !vision.IsPNG(data) { // worker.py sends nothing else; other forms may cost far more than their bytes
		return nil, errors.New("it is no PNG file")
	}
	m, err := vision.Decode(data, vision.Limits{Bytes: largest, Pixels: mostPixels})
	if err == nil && s.episode.Fits != nil {
		err = s.episode.Fits(m.Width, m.Height)
	}
	return m, err
}

// within cuts a text to the limit, at a whole character, and says so.
func (s *Session) within(text string) string {
	if len(text) <= s.options.Output {
		return text
	}
	end := s.options.Output
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + s.note()
}

func (s *Session) note() string {
	return fmt.Sprintf("\n[cut: %d bytes is the limit]", s.options.Output)
}

// start starts an interpreter, and gives it the prompt's pictures.
func (s *Session) start() (ready string, err error) {
	fail := func(err error) (string, error) {
		if s.ctx.Err() != nil {
			return "", s.ctx.Err()
		}
		return "", fmt.Errorf("episode.exec: %q runs no code here: %w\nhint: %s", s.options.Words(), err, Example)
	}
	b := begin{Pictures: [][]byte{}, Seed: s.episode.Seed, Modules: s.options.Modules}
	for _, m := range s.episode.Pictures {
		var png bytes.Buffer
		if err := vision.EncodePNG(&png, m); err != nil {
			return "", err
		}
		b.Pictures = append(b.Pictures, png.Bytes())
	}
	folder, err := s.folder()
	if err != nil {
		return "", fmt.Errorf("a folder for an episode's programs: %w", err)
	}
	p, err := s.options.start(folder, filepath.Join(s.home, "stderr"))
	if err != nil {
		return fail(err)
	}
	patience := s.patience
	if patience == 0 {
		patience = startTime
	}
	r, err := p.ask(s.ctx, patience, request{Begin: &b})
	if err == nil && r.Ready == "" {
		err = errors.New("it does not say that it is ready")
	}
	if err == nil && len(r.Missing) > 0 {
		err = fmt.Errorf("it cannot import %s: install that for this interpreter, or leave it out of episode.exec.modules", strings.Join(r.Missing, ", "))
	}
	if err != nil {
		wrote := p.wrote()
		how := p.end()
		if errors.Is(err, errEnded) {
			err = fmt.Errorf("%w (%v)", err, how)
		}
		if wrote != "" {
			err = fmt.Errorf("%w; it wrote: %s", err, wrote)
		}
		return fail(err)
	}
	s.process = p
	return r.Ready, nil
}

// folder makes the episode's folder, once.
func (s *Session) folder() (string, error) {
	if s.home != "" {
		return filepath.Join(s.home, "work"), nil
	}
	home, err := os.MkdirTemp("", "darkroom-program-")
	if err != nil {
		return "", err
	}
	s.home = home
	work := filepath.Join(home, "work")
	return work, os.Mkdir(work, 0o700)
}

// Close kills the process and deletes the folder. Files that cannot be deleted (files of another user, in a sandbox
// that has one) stay: no code may end a run by that.
func (s *Session) Close() {
	if s.process != nil {
		_ = s.process.end() // it was killed
		s.process = nil
	}
	if s.broken == nil {
		s.broken = errors.New("the session was closed")
	}
	for tries := 0; s.home != "" && tries < 5 && os.RemoveAll(s.home) != nil; tries++ {
		_ = filepath.WalkDir(s.home, func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() { // a folder that code has closed
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
		time.Sleep(20 * time.Millisecond) // a process in a sandbox may die a moment after it
	}
}
