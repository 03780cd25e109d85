package compare

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Comparison is the difference of two folders.
type Comparison struct {
	A          string     `json:"a"`
	B          string     `json:"b"`
	Same       bool       `json:"same"`             // every number that both have, but for timing
	Settings   []string   `json:"settings"`         // those that differ, a sentence each
	Inputs     []string   `json:"inputs,omitempty"` // program, machine, model and prompts, where they differ
	First      *Place     `json:"first,omitempty"`
	Cause      Cause      `json:"cause"`
	Meaning    string     `json:"meaning"`
	Iterations [2]int     `json:"iterations"` // that A and B have finished
	HeldOut    []HeldOut  `json:"heldout,omitempty"`
	Seconds    [2]float64 `json:"seconds"` // of all iterations
}

// Runs compares the runs of two folders. Nothing is written.
func Runs(a, b string) (*Comparison, error) {
	runA, err := read(a)
	if err != nil {
		return nil, err
	}
	runB, err := read(b)
	if err != nil {
		return nil, err
	}
	c := &Comparison{A: a, B: b, Settings: settings(runA, runB), Inputs: inputs(runA, runB)}
	c.Iterations = [2]int{runA.iterations(), runB.iterations()}
	c.Seconds = [2]float64{runA.spent(), runB.spent()}
	places, err := differences(a, b)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(places, before)
	if len(places) > 0 {
		c.First = &places[0]
	}
	c.Same = c.First == nil
	if c.Cause, c.Meaning, err = meaning(runA, runB, c, places); err != nil {
		return nil, err
	}
	c.HeldOut, err = heldOut(runA, runB)
	return c, err
}

// differences are the first place of each file, and the first checkpoint, where the folders differ.
func differences(a, b string) ([]Place, error) {
	var all []Place
	for _, file := range files() {
		found, err := firstOf(a, b, file)
		if err != nil {
			return nil, err
		}
		if found != nil {
			all = append(all, *found)
		}
	}
	found, err := checkpoints(a, b)
	if err == nil && found != nil {
		all = append(all, *found)
	}
	return all, err
}

// before orders places as their numbers came to be.
func before(x, y Place) int {
	return cmp.Or(x.when().before(y.when()), cmp.Compare(x.rank, y.rank), cmp.Compare(x.Line, y.Line))
}

// run holds the parts of a folder that a comparison reads.
type run struct {
	dir        string
	config     []byte
	experiment *experiment.Experiment // nil where this version cannot read it
	manifest   manifest
	lines      []ledger.Line // that count
	seconds    map[int]map[string]float64
}

// manifest is the part of manifest.json that is compared.
type manifest struct {
	Version string `json:"version"`
	System  string `json:"system"`
	Backend string `json:"backend"`
	Model   []struct {
		Name    string `json:"name"`
		SHA256  string `json:"sha256"`
		Sampled string `json:"sampled_sha256"`
	} `json:"model"`
	Prompts    int    `json:"prompts"`
	HeldOut    int    `json:"heldout"`
	PromptsSum string `json:"prompts_sha256"`
	HeldOutSum string `json:"heldout_sha256"`
}

// read reads a folder, as far as there is something.
func read(dir string) (*run, error) {
	r := &run{dir: dir}
	var err error
	if r.config, err = os.ReadFile(filepath.Join(dir, folder.Config)); err != nil {
		return nil, fmt.Errorf("%s holds no run: %w\nhint: name the folder that 'darkroom train' wrote", dir, err)
	}
	if err := folder.Own(dir); err != nil {
		return nil, err
	}
	if e, err := experiment.Parse(folder.Config, r.config, nil); err == nil {
		r.experiment = e
	}
	path := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r.manifest)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.lines, _, err = ledger.Read(filepath.Join(dir, "ledger.jsonl")); err != nil {
		return nil, err
	}
	r.seconds, err = ledger.ReadTiming(filepath.Join(dir, "timing.jsonl"))
	return r, err
}

func (r *run) iterations() int {
	if len(r.lines) == 0 {
		return 0
	}
	return r.lines[len(r.lines)-1].Iteration
}

// spent is the seconds of the iterations that count.
func (r *run) spent() float64 {
	sum := 0.0
	for _, l := range r.lines {
		sum += r.seconds[l.Iteration]["all"]
	}
	return sum
}

// settings are those that differ.
func settings(a, b *run) []string {
	if a.experiment != nil && b.experiment != nil {
		return experiment.Differences(a.experiment, b.experiment)
	}
	if bytes.Equal(a.config, b.config) {
		return nil
	}
	return []string{"their config.toml files differ, and this version cannot read both"}
}

// deciding are the settings that differ and that a run's numbers depend on.
func deciding(a, b *run) []string {
	if a.experiment == nil || b.experiment == nil {
		return settings(a, b)
	}
	return slices.DeleteFunc(experiment.Changes(a.experiment, b.experiment), func(line string) bool { return strings.HasPrefix(line, "run.name ") })
}

// inputs lists the differences beside the settings: model, data, program and machine.
func inputs(a, b *run) []string {
	var all []string
	differ := func(what, x, y string) {
		if x != y {
			all = append(all, fmt.Sprintf("%s: %s in A, %s in B", what, x, y))
		}
	}
	differ("program", a.manifest.Version, b.manifest.Version)
	differ("system", a.manifest.System, b.manifest.System)
	differ("device", a.manifest.Backend, b.manifest.Backend)
	if list := otherFiles(a, b); len(list) > 0 {
		all = append(all, "model: other bytes in "+strings.Join(list, ", "))
	}
	if a.manifest.PromptsSum != b.manifest.PromptsSum {
		all = append(all, fmt.Sprintf("prompts: other texts (%d in A, %d in B)", a.manifest.Prompts, b.manifest.Prompts))
	}
	if a.manifest.HeldOutSum != b.manifest.HeldOutSum {
		all = append(all, fmt.Sprintf("held-out prompts: other texts (%d in A, %d in B)", a.manifest.HeldOut, b.manifest.HeldOut))
	}
	return all
}

// otherFiles are the files of the model that differ.
func otherFiles(a, b *run) []string {
	sums := map[string]string{}
	for _, f := range a.manifest.Model {
		sums[f.Name] = f.SHA256 + f.Sampled
	}
	var list []string
	for _, f := range b.manifest.Model {
		if sums[f.Name] != f.SHA256+f.Sampled {
			list = append(list, f.Name)
		}
		delete(sums, f.Name)
	}
	for name := range sums {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// An iteration's numbers come one after another. A sample's advantage depends on the scores of its whole
// group, so the score of a later line is an earlier cause. rank orders the parts of an iteration.
type rank int

const (
	asked     rank = iota // prompts, window
	made                  // tokens of an episode
	scored                // a reward's score
	totalled              // rewards in one number
	credited              // advantages
	pictured              // the ledger's fields of samples beside their scores
	described             // the ledger's means
	moved                 // updates of the weights
	weighed               // weights in a checkpoint
	evaluated             // held-out samples
	summed                // held-out means
	watched               // monitors
)

// A file has lines that are compared.
type file struct {
	name  string
	ranks map[string]rank // by the first part of a number's name
	rest  rank
	held  rank // of lines that are held out
}

// files are those that have lines, but for timing.jsonl.
func files() []file {
	keys := map[string]rank{"iteration": asked, "attempt": asked, "prompt": asked, "sample": asked, "text": asked}
	with := func(more map[string]rank) map[string]rank {
		for k, v := range keys {
			more[k] = v
		}
		return more
	}
	return []file{
		{"samples.jsonl", with(map[string]rank{"scores": scored, "total": totalled, "advantage": credited}), described, evaluated},
		{ledger.TranscriptsFile, with(map[string]rank{"said": made, "pieces": made, "episode": made, "total": totalled, "advantage": credited}), described, evaluated},
		{ledger.HeldOutFile, map[string]rank{}, evaluated, evaluated},
		{"ledger.jsonl", with(map[string]rank{"stage": asked, "window": asked, "prompts": asked, "diversity": pictured, "pictures": pictured, "episodes": pictured, "updates": moved, "heldout": summed, "monitors": watched, "rollback": watched}), described, summed},
	}
}

// rankOf is the rank of a number in a line.
func (f file) rankOf(number string, heldOut bool) rank {
	if heldOut {
		return f.held
	}
	first, _, _ := strings.Cut(number, ".")
	first, _, _ = strings.Cut(first, "[")
	if r, ok := f.ranks[first]; ok {
		return r
	}
	return f.rest
}

// A Place is a number that differs, or a text.
type Place struct {
	File      string  `json:"file"`
	Line      int     `json:"line,omitempty"` // counted from 1
	Iteration int     `json:"iteration"`      // 0: before the first
	Attempt   int     `json:"attempt,omitempty"`
	Prompt    *int    `json:"prompt,omitempty"`
	Sample    *int    `json:"sample,omitempty"`
	Token     *int    `json:"token,omitempty"` // of an episode
	Text      string  `json:"text,omitempty"`  // the prompt's
	Number    string  `json:"number"`          // as scores.ocr.value
	A         string  `json:"a"`               // "": not there
	B         string  `json:"b"`
	Units     *uint64 `json:"units_in_the_last_place,omitempty"` // between two numbers

	rank rank
}

// String is the place in a sentence.
func (p Place) String() string {
	where := []string{p.File}
	if p.Line > 0 {
		where[0] += fmt.Sprintf(":%d", p.Line)
	}
	if p.Iteration == 0 {
		where = append(where, "before the first iteration")
	} else {
		where = append(where, fmt.Sprintf("iteration %d", p.Iteration))
	}
	if p.Attempt > 0 {
		where = append(where, fmt.Sprintf("attempt %d", p.Attempt+1))
	}
	for _, of := range []struct {
		name string
		n    *int
	}{{"prompt", p.Prompt}, {"sample", p.Sample}, {"token", p.Token}} {
		if of.n != nil {
			where = append(where, fmt.Sprintf("%s %d", of.name, *of.n))
		}
	}
	said := func(v string) string { return cmp.Or(v, "not there") }
	s := fmt.Sprintf("%s: %s is %s in A and %s in B", strings.Join(where, ", "), p.Number, said(p.A), said(p.B))
	switch {
	case p.Units == nil:
	case *p.Units == 1:
		s += ", 1 unit in the last place"
	case *p.Units < 1e6:
		s += fmt.Sprintf(", %d units in the last place", *p.Units)
	default: // as a count it says nothing to people
		a, noA := strconv.ParseFloat(p.A, 64)
		b, noB := strconv.ParseFloat(p.B, 64)
		if most := max(math.Abs(a), math.Abs(b)); noA == nil && noB == nil && most > 0 {
			s += fmt.Sprintf(", %.2g %% apart", 100*math.Abs(a/most-b/most))
		}
	}
	return s
}

// moment is when a line came to be.
type moment struct{ attempt, iteration int }

func (p Place) when() moment { return moment{p.Attempt, p.Iteration} }

func (m moment) before(n moment) int {
	return cmp.Or(cmp.Compare(m.attempt, n.attempt), cmp.Compare(m.iteration, n.iteration))
}
