package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

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
	Says      string `json:"says"`
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
}

// Whole is of a page on a server, which sends pictures when they are looked at.
var Whole = Limits{-1, -1}

// mostPoints are those of a curve of a run.
const mostPoints = 2000

// NewDocument says all of a run.
func NewDocument(r *Run, s *Samples, source Source, limits Limits) (*Document, error) {
	d := &Document{Summary: Summarise(r), Plan: r.settings.planOf(), Config: r.Config, Events: append(flat(r.Dir), r.events()...)}
	if r.Result != nil && r.Result.Guided != nil {
		d.Guidance, d.Guided = r.Result.Guidance, r.gains(r.Result.Guided, false)
	}
	var err error
	if d.Evaluations, err = r.evaluations(source, limits.Evaluations); err != nil {
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
