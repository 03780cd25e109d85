package track

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// ErrOther says that a target holds the export of another run, or of this one before it went on otherwise.
var ErrOther = errors.New("it holds another run's export")

// source makes entries of a run's folder, in the order of its ledger.
type source struct {
	dir   string
	names aliases
	gold  map[string]bool
	mark  Mark
	sum   hash.Hash // of the ledger before mark.End

	ledger, timing, samples, talks tail
	line, sample, talk             []byte // that were read, and wait
	times                          map[moment]ledger.TimingLine
	began                          *float64 // nil: no iteration is finished
}

// moment is an iteration of an attempt.
type moment struct{ iteration, attempt int }

// openSource goes on after a mark. The ledger must be the one that the mark was made of.
func openSource(dir string, names aliases, gold map[string]bool, m Mark) (*source, error) {
	s := &source{dir: dir, names: names, gold: gold, mark: m, sum: sha256.New(), times: map[moment]ledger.TimingLine{}}
	for to, name := range map[*tail]string{&s.ledger: "ledger.jsonl", &s.timing: "timing.jsonl", &s.samples: "samples.jsonl", &s.talks: ledger.TranscriptsFile} {
		to.path = filepath.Join(dir, name)
	}
	s.ledger.at = m.End
	if m.End == 0 {
		return s, nil
	}
	f, err := os.Open(s.ledger.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := io.Copy(s.sum, io.LimitReader(f, m.End))
	if err == nil && (n < m.End || s.sha() != m.SHA256) {
		err = fmt.Errorf("%w: the first %d bytes of %s are not those that were exported\nhint: --out names another place, or delete the export", ErrOther, m.End, s.ledger.path)
	}
	return s, err
}

func (s *source) sha() string { return hex.EncodeToString(s.sum.Sum(nil)) }

func (s *source) close() error {
	return errors.Join(s.ledger.close(), s.timing.close(), s.samples.close(), s.talks.close())
}

// next returns the next entry; nil before there is one. An iteration is complete once timing.jsonl has it, which is
// written last; final takes one that has no time.
func (s *source) next(final bool) (*Entry, error) {
	if err := s.readTimes(); err != nil {
		return nil, err
	}
	if s.began == nil && !final {
		return nil, nil
	}
	if s.mark.Entries == 0 {
		return s.before()
	}
	if s.line == nil {
		var err error
		if s.line, err = s.ledger.next(); err != nil || s.line == nil {
			return nil, err
		}
	}
	var l ledger.Line
	if err := json.Unmarshal(s.line, &l); err != nil {
		return nil, fmt.Errorf("%s, before byte %d: %w", s.ledger.path, s.ledger.at, err)
	}
	t, timed := s.times[moment{l.Iteration, l.Attempt}]
	if !timed && !final && l.Rollback == nil {
		return nil, nil
	}
	e, err := s.entry(&l, t)
	if err != nil {
		return nil, err
	}
	s.sum.Write(s.line)
	s.line = nil
	s.passed(e)
	return e, nil
}

// passed moves the mark behind an entry.
func (s *source) passed(e *Entry) {
	s.mark = Mark{Entries: e.Order + 1, End: s.ledger.at, SHA256: s.sha(), Time: e.Time}
}

// readTimes reads the new part of timing.jsonl, and skips unreadable lines.
func (s *source) readTimes() error {
	for {
		line, err := s.timing.next()
		if err != nil || line == nil {
			return err
		}
		var t ledger.TimingLine
		if json.Unmarshal(line, &t) != nil || t.Seconds == nil {
			continue
		}
		s.times[moment{t.Iteration, t.Attempt}] = t
		if s.began == nil {
			began := 0.0
			if t.At > 0 {
				began = t.At - t.Seconds["all"]
			}
			s.began = &began
		}
	}
}

// start is when the run began.
func (s *source) start() float64 {
	if s.began == nil {
		return 0
	}
	return *s.began
}

// before is the entry of the measures before the first iteration.
func (s *source) before() (*Entry, error) {
	r, err := result(s.dir)
	if err != nil {
		return nil, err
	}
	e := &Entry{Time: s.start()}
	if r != nil {
		n := scalars{names: s.names}
		measures := map[string]ledger.Measure{}
		for name, g := range r.HeldOut {
			if g.Before != nil {
				measures[name] = *g.Before
			}
		}
		n.heldOut("heldout", measures)
		n.add("iteration", 0)
		e.Scalars = n.all
	}
	p, err := picture(s.dir, "images/heldout_before.png", "heldout", "before the first iteration")
	if err != nil {
		return nil, err
	}
	if p != nil {
		e.Pictures = append(e.Pictures, *p)
	}
	s.passed(e)
	return e, nil
}

// entry is that of a ledger's line.
func (s *source) entry(l *ledger.Line, t ledger.TimingLine) (*Entry, error) {
	e := &Entry{Order: s.mark.Entries, Iteration: l.Iteration, Time: s.mark.Time}
	if l.Rollback != nil {
		e.Iteration, e.Restart = l.Rollback.To, l.Rollback.To+1
		e.Alerts = []Alert{{"rollback", fmt.Sprintf("back from iteration %d to %d: %s", l.Rollback.From, l.Rollback.To, l.Rollback.Why)}}
		return e, nil
	}
	if t.At > 0 {
		e.Time = max(e.Time, t.At)
	} else {
		e.Time += t.Seconds["all"]
	}
	n := scalars{names: s.names}
	n.line(l, s.gold)
	n.each("perf", t.Seconds)
	n.add("iteration", float64(l.Iteration))
	e.Scalars = n.all
	if h := l.Histogram; h != nil && len(h.Counts) > 0 {
		e.Histograms = []Histogram{totals(h)}
	}
	for _, says := range l.Fired {
		e.Alerts = append(e.Alerts, Alert{"monitor", says})
	}
	if len(l.HeldOut) > 0 {
		p, err := picture(s.dir, fmt.Sprintf("images/heldout_%06d.png", l.Iteration), "heldout", fmt.Sprintf("after iteration %d", l.Iteration))
		if err != nil {
			return nil, err
		}
		if p != nil {
			e.Pictures = append(e.Pictures, *p)
		}
	}
	return e, s.show(e, l)
}

// show adds the best and the worst sample.
func (s *source) show(e *Entry, l *ledger.Line) error {
	best, worst, err := extremes(&s.samples, &s.sample, l)
	if err != nil {
		return err
	}
	if said, least, err := extremes(&s.talks, &s.talk, l); err != nil {
		return err
	} else if said != nil {
		best, worst = said, least
	}
	for _, x := range []struct {
		name string
		of   *shown
	}{{"sample/best", best}, {"sample/worst", worst}} {
		if x.of == nil {
			continue
		}
		text := x.of.text()
		e.Texts = append(e.Texts, Text{x.name + "_text", text})
		if x.of.Picture == "" {
			continue
		}
		p, err := picture(s.dir, x.of.Picture, x.name, text)
		if err != nil {
			return err
		}
		if p != nil {
			e.Pictures = append(e.Pictures, *p)
		}
	}
	return nil
}

// result reads result.json; nil if missing.
func result(dir string) (*ledger.Result, error) {
	path := filepath.Join(dir, "result.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r ledger.Result
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &r, nil
}
