package watch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

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
