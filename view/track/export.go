package track

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Options are the source and the target of an export.
type Options struct {
	Run   string        // the run's folder
	As    string        // a layout
	Out   string        // the target's folder; "": one in the run's, with the layout's name
	Names string        // a table of scalars' names; "": darkroom
	Every time.Duration // how often a run that is followed is looked at; 0: a second
}

// Export is a run on its way to a target.
type Export struct {
	Options
	source *source
	target Target // nil: there was nothing to write
	begin  func() (Target, error)
	whole  bool // the target is written whole: one commit is as dear as all
}

// Note is a remark about the export for the user; "": nothing.
func (x *Export) Note() string {
	if n, ok := x.target.(interface{ Note() string }); ok {
		return n.Note()
	}
	return ""
}

// batch is how many entries are committed at once.
const batch = 256

// Open opens both ends. A target that holds a part of the run is gone on with.
func Open(o Options) (*Export, error) {
	l, address, err := layoutOf(o.As)
	if err != nil {
		return nil, err
	}
	switch {
	case address != "" && o.Out != "":
		return nil, fmt.Errorf("--out %s: %s names a server\nhint: leave --out out", o.Out, o.As)
	case address != "":
		o.Out = address
	case o.Out == "":
		o.Out = filepath.Join(o.Run, o.As)
	}
	if o.Names == "" {
		o.Names = "darkroom"
	}
	if o.Every == 0 {
		o.Every = time.Second
	}
	run, gold, err := describe(o.Run)
	if err != nil {
		return nil, err
	}
	find := readState
	if l.find != nil {
		find = func(where string) (*state, error) { return l.find(where, run) }
	}
	had, err := find(o.Out)
	if err != nil {
		return nil, err
	}
	var m Mark
	if had != nil {
		if had.ID != run.ID || had.As != l.name || had.Names != o.Names {
			hint := "--out names another place, or delete the folder"
			if l.find != nil {
				hint = "delete that run there, or give --names as it was"
			}
			return nil, fmt.Errorf("%s: %w (run %s as %s with the names of %s)\nhint: %s", o.Out, ErrOther, had.Run, had.As, had.Names, hint)
		}
		run.Began, m = had.Began, had.Mark
	}
	if l.again {
		m = Mark{}
	}
	s, err := openSource(o.Run, aliasesOf(o.Names), gold, m)
	if err != nil {
		return nil, err
	}
	x := &Export{Options: o, source: s, whole: l.again}
	x.begin = func() (Target, error) { // with the first entry: only then it is known when the run began
		st := state{As: l.name, Names: o.Names, Project: run.Project, Run: run.Name, ID: run.ID, Mark: m}
		if had == nil {
			run.Began = s.start()
		} else {
			st.Bytes, st.Records = had.Bytes, had.Records
		}
		st.Began = run.Began
		return l.open(o.Out, run, st)
	}
	if m.Entries > 0 { // Finish may have something to write
		x.target, err = x.begin()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return x, nil
}

// Export writes the current entries, and returns the number of new ones.
func (x *Export) Export() (n int, err error) {
	defer func() { err = errors.Join(err, x.close()) }()
	if n, err = x.drain(); err != nil {
		return n, err
	}
	return n, x.finish()
}

// Follow writes current and later entries, until the run has ended or ctx is cancelled.
func (x *Export) Follow(ctx context.Context, ended func() (bool, error)) (n int, err error) {
	defer func() { err = errors.Join(err, x.close()) }()
	for {
		over, err := ended()
		if err != nil {
			return n, err
		}
		more, err := x.drain()
		n += more
		if err != nil {
			return n, err
		}
		if over {
			return n, x.finish()
		}
		select {
		case <-ctx.Done():
			return n, nil
		case <-time.After(x.Every):
		}
	}
}

// Ended reports whether result.json says that the run has ended.
func Ended(dir string) (bool, error) {
	r, err := result(dir)
	return r != nil && r.Status != ledger.UnderWay, err
}

// drain writes all entries that are ready. Of a run that is under way an iteration without a time is not.
func (x *Export) drain() (n int, err error) {
	final, err := Ended(x.Run)
	if err != nil {
		return 0, err
	}
	for {
		e, err := x.source.next(final)
		if err != nil {
			return n, err
		}
		if e != nil {
			if err := x.append(e); err != nil {
				return n, fmt.Errorf("exporting iteration %d: %w", e.Iteration, err)
			}
			n++
		}
		if n > 0 && (e == nil || n%batch == 0 && !x.whole) {
			if err := x.target.Commit(x.source.mark); err != nil {
				return n, fmt.Errorf("exporting: %w", err)
			}
		}
		if e == nil {
			return n, nil
		}
	}
}

// append writes an entry.
func (x *Export) append(e *Entry) (err error) {
	if x.target == nil {
		if x.target, err = x.begin(); err != nil {
			return err
		}
	}
	return x.target.Append(e)
}

// finish ends the export of a run that has ended.
func (x *Export) finish() error {
	r, err := result(x.Run)
	if err != nil || r == nil || r.Status == ledger.UnderWay || x.target == nil {
		return err
	}
	return x.target.Finish(r.Status)
}

func (x *Export) close() error {
	if x.target == nil {
		return x.source.close()
	}
	return errors.Join(x.source.close(), x.target.Close())
}

// describe returns the data common to a run, and its rewards that are not trained on.
func describe(dir string) (*Run, map[string]bool, error) {
	path := filepath.Join(dir, folder.Config)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s holds no run: %w", dir, err)
	}
	if err := folder.Own(dir); err != nil {
		return nil, nil, err
	}
	e, err := experiment.Parse(path, text, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("this version cannot read the run's settings: %w", err)
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	run, gold := &Run{Project: e.Run.Name, Name: filepath.Base(full), ID: e.Identity()[:12]}, map[string]bool{}
	for _, kv := range e.Settings() {
		run.Config = append(run.Config, Setting{kv[0], valueOf(kv[1])})
	}
	for _, r := range e.Rewards {
		gold[r.Called()] = !r.Train
	}
	return run, gold, nil
}

// valueOf reads a value as TOML writes it: a number, a bool, a text; others stay as they are written.
func valueOf(text string) any {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return v
	}
	if v, err := strconv.ParseBool(text); err == nil {
		return v
	}
	if v, err := strconv.Unquote(text); err == nil {
		return v
	}
	return text
}
