package track

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"image/png"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/record/folder"
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

// Of an iteration the samples of the highest and the lowest total are shown, with their pictures.

// shown is a sample's line with its iteration's place.
type shown struct {
	ledger.SampleLine
	Replies []string `json:"said"` // of a transcript
	Held    bool     `json:"heldout"`
}

// extremes are the samples of the highest and the lowest total of an iteration; nil where nothing was scored.
func extremes(t *tail, kept *[]byte, l *ledger.Line) (best, worst *shown, err error) {
	for {
		line := *kept
		if *kept = nil; line == nil {
			if line, err = t.next(); err != nil || line == nil {
				return best, worst, err
			}
		}
		var s shown
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, nil, fmt.Errorf("%s, before byte %d: %w", t.path, t.at, err)
		}
		switch {
		case s.Rollback != nil || s.Held || s.Attempt < l.Attempt || s.Attempt == l.Attempt && s.Iteration < l.Iteration:
			continue
		case s.Attempt > l.Attempt || s.Iteration > l.Iteration:
			*kept = line
			return best, worst, nil
		}
		if s.Total == nil {
			continue
		}
		if best == nil || *s.Total > *best.Total {
			best = &s
		}
		if worst == nil || *s.Total < *worst.Total {
			worst = &s
		}
	}
}

// text describes a sample in words: its total, its prompt, and the model's answer.
func (s *shown) text() string {
	text := fmt.Sprintf("%.3f  %s", *s.Total, s.Text)
	if len(s.Replies) > 0 {
		text += "\n\n" + strings.Join(s.Replies, "\n\n")
	}
	return text
}

// picture reads a PNG file of the run's folder; nil for another kind of file, or a missing one.
func picture(dir, file, name, caption string) (*Picture, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := root.ReadFile(filepath.FromSlash(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, nil //nolint:nilerr // other files are not shown
	}
	return &Picture{Name: name, Caption: caption, Width: c.Width, Height: c.Height, PNG: data}, nil
}

// scalars gathers an entry's numbers under their names.
type scalars struct {
	names aliases
	all   []Scalar
}

// add adds a number; one that was not measured is left out.
func (s *scalars) add(name string, v float64) {
	if !math.IsNaN(v) {
		s.all = append(s.all, Scalar{s.names.of(name), v})
	}
}

// each adds numbers of a kind, by their names.
func (s *scalars) each(group string, all map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s.add(group+"/"+name, all[name])
	}
}

// spread adds a mean with its bounds.
func (s *scalars) spread(name string, of ledger.Spread, samples int) {
	if of.Missing < samples {
		s.add(name, of.Mean)
		s.add(name+"_std", of.Std)
		s.add(name+"_min", of.Least)
		s.add(name+"_max", of.Most)
	}
}

// heldOut adds the measures of an evaluation.
func (s *scalars) heldOut(group string, all map[string]ledger.Measure) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		s.add(group+"/"+name, m.Mean)
		s.add(group+"/"+name+"_low", m.Low)
		s.add(group+"/"+name+"_high", m.High)
	}
}

// line adds the ledger's numbers of an iteration. gold are the rewards that are not trained on.
func (s *scalars) line(l *ledger.Line, gold map[string]bool) {
	samples, prompts := float64(max(1, l.Samples)), float64(max(1, len(l.Prompts)))
	s.spread("reward/total", l.Total, l.Samples)
	s.add("missing/total", float64(l.Total.Missing)/samples)
	for _, name := range slices.Sorted(maps.Keys(l.Rewards)) {
		group := "reward/"
		if gold[name] {
			group = "gold/"
		}
		s.spread(group+name, l.Rewards[name], l.Samples)
		s.add("missing/"+name, float64(l.Rewards[name].Missing)/samples)
	}
	if l.Skipped > 0 {
		s.add("update/skipped", float64(l.Skipped))
	}
	if l.Samples == 0 {
		s.heldOut("heldout", l.HeldOut)
		return
	}
	s.add("group/dead_share", float64(l.Dead)/prompts)
	s.add("group/spread", l.Spread)
	s.add("group/diversity", l.Diversity)
	if l.Histogram != nil {
		s.add("sample/modes", l.Histogram.Modes)
	}
	s.each("best_of", l.BestOf)
	s.each("picture", l.Pictures)
	s.each("episode", l.Episodes)
	if l.Check != nil {
		s.add("check/ratio", l.Check.Ratio)
		if l.Check.Floor != nil {
			s.add("check/noise_floor", *l.Check.Floor)
		}
	}
	s.updates(l.Updates)
	s.heldOut("heldout", l.HeldOut)
}

// updates adds the last move of the weights; the mismatch is the first one's.
func (s *scalars) updates(all []ledger.UpdateLine) {
	if len(all) == 0 {
		return
	}
	u := all[len(all)-1]
	s.add("update/loss", u.Loss)
	s.add("update/gradient", u.Gradient)
	s.add("update/lr", u.Rate)
	if u.RatioMost != 0 {
		s.add("update/ratio_furthest", u.RatioMost)
		s.add("update/mismatch", all[0].Mismatch)
	}
	s.each("update", u.Metrics)
}

// tail reads the whole lines of a file that grows. A run that goes on cuts its files back to its checkpoint and
// writes the same lines again: until they are there, nothing new is.
type tail struct {
	path string
	file *os.File
	from *bufio.Reader
	at   int64  // behind the last whole line
	part []byte // of the line under way
}

// next returns the next whole line with its end; nil before there is one.
func (t *tail) next() ([]byte, error) {
	if err := t.ready(); err != nil || t.file == nil {
		return nil, err
	}
	line, err := t.from.ReadBytes('\n')
	t.part = append(t.part, line...)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	line, t.part = t.part, nil
	t.at += int64(len(line))
	return line, nil
}

// ready opens the file where it is not, and goes back where it was cut.
func (t *tail) ready() error {
	if t.file == nil {
		f, err := os.Open(t.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		t.file, t.from = f, bufio.NewReaderSize(f, 1<<16)
		return t.seek()
	}
	if t.from.Buffered() > 0 {
		return nil
	}
	info, err := t.file.Stat()
	if err == nil && info.Size() < t.at+int64(len(t.part)) {
		return t.seek()
	}
	return err
}

// seek goes behind the last whole line that was read. Beyond the file's end there is nothing until it grows.
func (t *tail) seek() error {
	t.part = nil
	t.from.Reset(t.file)
	_, err := t.file.Seek(t.at, io.SeekStart)
	return err
}

func (t *tail) close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

// stateFile lies in the target's folder and says how far the run was read into it.
const stateFile = "darkroom.json"

// state is the file's content.
type state struct {
	As      string  `json:"as"`
	Names   string  `json:"names"`
	Project string  `json:"project"`
	Run     string  `json:"run"`
	ID      string  `json:"id"`
	Began   float64 `json:"began"`
	Mark    Mark    `json:"mark"`
	Bytes   int64   `json:"bytes,omitempty"`   // of the file that is appended to
	Records int64   `json:"records,omitempty"` // in it, where they are numbered
}

// readState is nil where nothing was exported yet.
func readState(dir string) (*state, error) {
	path := filepath.Join(dir, stateFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("%s: %w\nhint: delete the folder, and export again", path, err)
	}
	return &s, nil
}

func (s *state) write(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return folder.WriteFile(filepath.Join(dir, stateFile), append(text, '\n'))
}

// growing is a file that is appended to, and whose length is part of the state.
type growing struct {
	dir   string
	state state
	file  *os.File
	end   int64
}

// openGrowing opens a file of a target, cut back to the last commit.
func openGrowing(dir, name string, s state) (*growing, error) {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < s.Bytes {
		err = fmt.Errorf("%s has %d bytes, and had %d when it was exported to last: it was cut off since\nhint: delete %s, and export again", path, info.Size(), s.Bytes, dir)
	}
	if err == nil {
		err = f.Truncate(s.Bytes)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &growing{dir: dir, state: s, file: f, end: s.Bytes}, nil
}

func (g *growing) Write(p []byte) (int, error) {
	n, err := g.file.WriteAt(p, g.end)
	g.end += int64(n)
	return n, err
}

// commit makes the last writes permanent.
func (g *growing) commit(m Mark) error {
	if err := g.file.Sync(); err != nil {
		return err
	}
	g.state.Mark, g.state.Bytes = m, g.end
	return g.state.write(g.dir)
}

func (g *growing) Close() error { return g.file.Close() }
