package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/view/report"
)

// A page is a browser that receives changes.
type page struct {
	changed map[string]bool // runs whose changes it has not received
	wake    chan struct{}
}

// publish stores a run's summary, and wakes pages.
func (s *Server) publish(dir string, summary report.Summary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirs[summary.ID], s.summaries[summary.ID] = dir, summary
	s.tell(summary.ID)
}

// withdraw forgets a run whose folder is gone.
func (s *Server) withdraw(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dirs, id)
	delete(s.summaries, id)
	s.tell(id)
}

// tell wakes every page; a busy one finds the run in its list afterwards.
func (s *Server) tell(id string) {
	for p := range s.pages {
		p.changed[id] = true
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// news is a message to a page.
type news struct {
	Runs []report.Summary `json:"runs"`
	Gone []string         `json:"gone,omitempty"`
}

// take returns the changes that a page has not received.
func (s *Server) take(p *page) news {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := news{Runs: []report.Summary{}}
	for id := range p.changed {
		if one, ok := s.summaries[id]; ok {
			n.Runs = append(n.Runs, one)
		} else {
			n.Gone = append(n.Gone, id)
		}
	}
	clear(p.changed)
	slices.SortFunc(n.Runs, func(a, b report.Summary) int { return cmp.Compare(a.Name, b.Name) })
	return n
}

// arrives is a page that knows of nothing.
func (s *Server) arrives() *page {
	p := &page{changed: map[string]bool{}, wake: make(chan struct{}, 1)}
	p.wake <- struct{}{} // it receives a message at once, even without a run
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.summaries {
		p.changed[id] = true
	}
	s.pages[p] = true
	return p
}

func (s *Server) leaves(p *page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, p)
}

// Changes within this time are sent together; after a long silence a page still receives a sign of life.
const (
	together = 60 * time.Millisecond
	beat     = 15 * time.Second
)

// events tells a page of changes until it leaves.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	p := s.arrives()
	defer s.leaves(p)
	beats := time.NewTicker(beat)
	defer beats.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-beats.C:
			fmt.Fprint(w, ": still here\n\n")
		case <-p.wake:
			time.Sleep(together)
			text, err := json.Marshal(s.take(p))
			if err != nil {
				return
			}
			fmt.Fprintf(w, "event: runs\ndata: %s\n\n", text)
		}
		if out.Flush() != nil {
			return
		}
	}
}

// A followed run is the part of a folder read so far. Of its ledger the overview needs little of each line, so only
// that is kept; the whole run is read on a page's request.
type followed struct {
	dir, id string
	name    string

	ledger, timing folder.Tail
	book           ledger.Book
	seconds        map[int]map[string]float64
	settings       report.Settings
	stamps         string // of the files that are read whole
	summary        report.Summary
	failed         string // why it cannot be read
}

func newFollowed(dir string) *followed {
	f := &followed{dir: dir, id: identity(dir), name: filepath.Base(filepath.Clean(dir)), seconds: map[int]map[string]float64{}}
	f.ledger.Path, f.timing.Path = filepath.Join(dir, "ledger.jsonl"), filepath.Join(dir, "timing.jsonl")
	return f
}

// read reads the new lines, and reports whether the summary changed.
func (f *followed) read(renamed bool) bool {
	changed := renamed
	if stamps := f.stamp(); stamps != f.stamps {
		f.stamps, f.failed, changed = stamps, "", true
	}
	more, err := f.ledger.Next(func() { f.book = ledger.Book{} }, f.book.AddBrief)
	again, failed := f.timing.Next(func() { clear(f.seconds) }, f.second)
	before := f.failed
	f.fails(err)
	f.fails(failed)
	if changed = changed || more || again || f.failed != before; changed {
		f.summarise()
	}
	return changed
}

// second takes a line of timing.jsonl; one that cannot be read is left out, as no number of the run depends on it.
func (f *followed) second(text []byte) error {
	if l, ok := ledger.BriefTiming(text); ok {
		f.seconds[l.Iteration] = l.Seconds
	}
	return nil
}

// fails keeps the first reason why a folder cannot be read.
func (f *followed) fails(err error) {
	if err != nil && f.failed == "" {
		f.failed = err.Error()
	}
}

// stamp tells versions of the small files apart, and of the folder of pictures.
func (f *followed) stamp() string {
	s := ""
	for _, name := range []string{folder.Config, "result.json", "manifest.json", "images"} {
		if info, err := os.Stat(filepath.Join(f.dir, name)); err == nil {
			s += info.ModTime().String() + " "
		}
	}
	return s
}

// summarise computes the overview's row. The ledger's part is shown even where the rest cannot be read.
func (f *followed) summarise() {
	run, err := report.ReadWith(f.dir, f.book, f.seconds, &f.settings)
	f.fails(err)
	if run == nil {
		f.summary = report.Summary{Name: f.name, Status: "cannot be read"}
	} else {
		run.Name = f.name
		f.summary = report.Summarise(run)
	}
	f.summary.ID = f.id
	if f.failed != "" {
		f.summary.Status, f.summary.Live, f.summary.Why = "cannot be read", false, f.failed
	}
	if info, err := os.Stat(f.ledger.Path); err == nil {
		f.summary.Written = info.ModTime().Unix()
	}
}

// every is how often folders are looked at.
const every = 400 * time.Millisecond

// Follow reads the folders until the context ends.
func (s *Server) Follow(ctx context.Context) {
	runs := map[string]*followed{}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		s.look(runs)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look reads the new lines of all folders, several at once, and publishes them.
func (s *Server) look(runs map[string]*followed) {
	dirs := find(s.paths)
	named := make([]*report.Run, len(dirs))
	there := map[string]bool{}
	for i, dir := range dirs {
		named[i] = &report.Run{Dir: dir, Name: filepath.Base(filepath.Clean(dir))}
		there[identity(dir)] = true
	}
	report.TellApart(named)
	for id := range runs {
		if !there[id] {
			delete(runs, id)
			s.withdraw(id)
		}
	}
	var wait sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, dir := range dirs {
		id := identity(dir)
		if runs[id] == nil {
			runs[id] = newFollowed(dir)
		}
		f := runs[id]
		renamed := f.name != named[i].Name
		f.name = named[i].Name
		wait.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if f.read(renamed) {
				s.publish(f.dir, f.summary)
			}
		})
	}
	wait.Wait()
}
