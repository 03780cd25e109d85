package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/diagnosis"
)

// Document is all that a page shows of a run, in the order in which it shows it: the verdict, pictures, curves,
// conversations, details. The page's script draws it (app/), in a file and on a server alike.
type Document struct {
	Summary
	Guidance    float64        `json:"guidance,omitempty"`
	Guided      []Gain         `json:"guided,omitempty"` // the same under guidance
	Events      []Event        `json:"events"`
	Evaluations []Evaluation   `json:"evaluations"`
	Kept        []Kept         `json:"kept"`
	Plots       []Plot         `json:"plots"`
	Talks       []Talk         `json:"talks"`
	Workers     []ledger.Share `json:"workers,omitempty"` // of a fleet
	Plan        *plan          `json:"plan"`
	Config      string         `json:"config"`
	Made        Manifest       `json:"made"`
}

// An Event is something that a monitor did.
type Event struct {
	Iteration int    `json:"iteration"`
	Text      string `json:"says"`
}

// Manifest is manifest.json: the start of a run.
type Manifest struct {
	Version string `json:"version"`
	System  string `json:"system"`
	Backend string `json:"backend"`
	Seed    *int   `json:"seed"`
	Prompts int    `json:"prompts"`
	HeldOut int    `json:"heldout"`
}

// Limits bound the files that a page embeds; -1: all.
type Limits struct {
	Evaluations, Iterations int
	Bytes                   *budget // nil: any
}

// Whole is of a page on a server, which sends pictures when they are looked at.
var Whole = Limits{Evaluations: -1, Iterations: -1}

// mostPoints are those of a curve of a run.
const mostPoints = 2000

// NewDocument says all of a run.
func NewDocument(r *Run, s *Samples, source Source, limits Limits) (*Document, error) {
	d := &Document{Summary: Summarise(r), Plan: r.settings.planOf(), Config: r.Config, Events: append(flat(r.Dir), r.events()...)}
	if r.Result != nil && r.Result.Guided != nil {
		d.Guidance, d.Guided = r.Result.Guidance, r.gains(r.Result.Guided, false)
	}
	var err error
	if d.Evaluations, err = r.evaluations(source, limits); err != nil {
		return nil, err
	}
	d.Kept = s.kept(source, limits.Iterations)
	for _, p := range append(r.plots(), s.parts()...) {
		for i, c := range p.Curves {
			p.Curves[i] = c.thinned(mostPoints)
		}
		d.Plots = append(d.Plots, p)
	}
	if d.Talks, err = talks(r.Dir, source); err != nil {
		return nil, err
	}
	if text, err := inside(r.Dir, "manifest.json"); err == nil {
		if json.Unmarshal(text, &d.Made) != nil { // how a run was begun is shown where it can be read
			d.Made = Manifest{}
		}
	}
	return d, nil
}

// workers are those that rolled for a run; none where it has no fleet.
func workers(dir string) ([]ledger.Share, error) {
	all, err := ledger.ReadShares(filepath.Join(dir, ledger.FleetFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return all, err
}

// flat is why the reward may stay flat, by the first iteration; nothing where that cannot be read.
func flat(dir string) (all []Event) {
	d, err := diagnosis.Read(filepath.Join(dir, diagnosis.File))
	if err != nil || d == nil {
		return nil
	}
	for _, f := range d.Findings {
		all = append(all, Event{1, "the reward may stay flat: " + f.String()})
	}
	return all
}

// events are rollbacks and monitors that fired.
func (r *Run) events() []Event {
	var all []Event
	for _, l := range r.Abandoned {
		if l.Rollback != nil {
			all = append(all, Event{l.Rollback.From, fmt.Sprintf("went back to iteration %d: %s", l.Rollback.To, l.Rollback.Why)})
		}
	}
	for _, l := range r.Lines {
		for _, says := range l.Fired {
			all = append(all, Event{l.Iteration, says})
		}
	}
	return all
}

// A Reader reads one run's folder again and again, as a server does while the run writes to it: it reads the new part
// of growing files, and evaluates the settings once.
type Reader struct {
	dir            string
	ledger, timing folder.Tail
	fleet          folder.Tail
	shares         ledger.Shares
	book           ledger.Book
	broken         error // the first line of the ledger that cannot be read
	seconds        map[int]map[string]float64
	samples        *Samples
	settings       Settings
}

// NewReader is a reader that has read nothing yet.
func NewReader(dir string) *Reader {
	at := func(name string) folder.Tail { return folder.Tail{Path: filepath.Join(dir, name)} }
	return &Reader{dir: dir, ledger: at("ledger.jsonl"), timing: at("timing.jsonl"), fleet: at(ledger.FleetFile), seconds: map[int]map[string]float64{}, samples: NewSamples(dir)}
}

// Document is all of the run as its folder is now.
func (r *Reader) Document(source Source) (*Document, error) {
	if _, err := r.timing.Next(func() { clear(r.seconds) }, r.second); err != nil {
		return nil, err
	}
	_, err := r.ledger.Next(func() { r.book, r.broken = ledger.Book{}, nil }, r.book.AddText)
	if r.broken == nil {
		r.broken = err
	}
	if r.broken != nil {
		return nil, r.broken
	}
	if _, err := r.samples.Read(); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(r.dir, "samples.jsonl"), err)
	}
	run, err := ReadWith(r.dir, r.book, r.seconds, &r.settings)
	if err != nil {
		return nil, err
	}
	if _, err := r.fleet.Next(func() { r.shares = ledger.Shares{} }, func(line []byte) error { return r.shares.Add(line) }); err != nil {
		return nil, err
	}
	d, err := NewDocument(run, r.samples, source, Whole)
	if all := r.shares.All(); err == nil && len(all) > 0 {
		d.Workers = all
	}
	return d, err
}

// second takes a line of timing.jsonl; one that cannot be read is left out, as no number of the run depends on it.
func (r *Reader) second(text []byte) error {
	var l ledger.TimingLine
	if json.Unmarshal(text, &l) == nil && l.Seconds != nil {
		r.seconds[l.Iteration] = l.Seconds
	}
	return nil
}

// Summary is one run's row in a list of runs.
type Summary struct {
	ID         string           `json:"id"` // of a page with several runs: it tells them apart
	Name       string           `json:"name"`
	Dir        string           `json:"dir"`
	Status     string           `json:"status"`
	Live       bool             `json:"live"` // it has not ended, as far as its folder says
	Why        string           `json:"why,omitempty"`
	Model      string           `json:"model"`
	Method     string           `json:"method"`
	Trained    string           `json:"trained"` // rewards
	Iterations int              `json:"iterations"`
	Planned    int              `json:"planned"` // 0: not known
	Seconds    float64          `json:"seconds"` // of all iterations
	Written    int64            `json:"written"` // when the ledger was written last, in Unix seconds; 0: never
	Conclusion Conclusion       `json:"verdict"`
	Gains      []Gain           `json:"gains"`
	Fired      int              `json:"fired"`
	Reward     Curve            `json:"reward"`  // of the training samples
	HeldOut    map[string]Curve `json:"heldout"` // by reward
}

// mostOverviewPoints are those of a curve in a list of runs.
const mostOverviewPoints = 240

// Summarise says it. The run may have been read briefly: totals, held-out measures and monitors are enough.
func Summarise(r *Run) Summary {
	s := Summary{Name: r.Name, Dir: filepath.ToSlash(filepath.Clean(r.Dir)), Status: r.Status(), Live: r.Result == nil || r.Result.Status == ledger.UnderWay,
		Trained: r.trained(), Iterations: r.Iterations(), HeldOut: map[string]Curve{}}
	if r.Result != nil {
		s.Why = r.Result.Why
	}
	if e := r.experiment; e != nil {
		s.Model, s.Planned = strings.TrimPrefix(e.Model.Path, "embed:"), e.Run.Iterations
		s.Method = e.Loss.Objective
		if e.Preset != "" {
			s.Method = e.Preset
		}
	}
	for _, i := range slices.Sorted(maps.Keys(r.Seconds)) {
		s.Seconds += r.Seconds[i]["all"]
	}
	for _, l := range r.Lines {
		s.Fired += len(l.Fired)
	}
	for _, l := range r.Abandoned {
		if l.Rollback != nil {
			s.Fired++
		}
	}
	of := r.Gains()
	s.Gains = r.gains(of, true)
	s.Conclusion = r.conclusion(s.Gains, s.Fired)
	s.Reward = r.measured("training samples", "total").thinned(mostOverviewPoints)
	for name := range of {
		if c := r.held(name, name); len(c.X) > 0 {
			s.HeldOut[name] = c.thinned(mostOverviewPoints)
		}
	}
	return s
}
