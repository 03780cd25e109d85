//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/view/report"
)

// The servers of a soak, and a browser's requests to them.

// serves does a command until ctx ends, which must end with a code. It returns the match of a pattern in its first
// words.
func (s *soak) serves(ctx context.Context, all *sync.WaitGroup, pattern string, code int, args ...string) string {
	var log aLog
	over := make(chan bool)
	all.Go(func() {
		defer close(over)
		if got := execute(ctx, args, strings.NewReader(""), &log, &log); got != code {
			s.Errorf("%v: exit code %d\n%s", args, got, log.String())
		}
	})
	for range 600 {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(log.String()); found != nil {
			return found[1]
		}
		select {
		case <-over:
			s.FailNow()
		case <-time.After(100 * time.Millisecond):
		}
	}
	s.Fatalf("%v does not say %q:\n%s", args, pattern, log.String())
	return ""
}

// browse reads the page, its numbers and its summaries as a browser does, and each run of this turn.
func (s *soak) browse(page string) {
	ctx, leave := context.WithTimeout(context.Background(), 5*time.Second) // events go on until the browser leaves
	defer leave()
	events := s.fetch(ctx, page+"/events")
	for _, path := range []string{"/", "/app.js", "/app.css", "/metrics"} {
		if s.fetch(context.Background(), page+path) == "" {
			s.Errorf("%s is empty", path)
		}
	}
	read := 0
	for line := range strings.Lines(events) {
		var news struct{ Runs []report.Summary }
		if text, ok := strings.CutPrefix(line, "data: "); !ok || json.Unmarshal([]byte(text), &news) != nil {
			continue
		}
		for _, run := range news.Runs {
			if run.Name == "long" { // its document grows as its ledger does
				continue
			}
			read++
			if text := s.fetch(context.Background(), page+"/api/runs/"+run.ID); !json.Valid([]byte(text)) {
				s.Errorf("run %s: %.300s", run.ID, text)
			}
		}
	}
	if read < 4 {
		s.Errorf("%d runs of this turn are on the page: %.300s", read, events)
	}
}

// fetch is the content of an address, as far as ctx lets it come.
func (s *soak) fetch(ctx context.Context, address string) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		s.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Error(err)
		return ""
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if reply.StatusCode != http.StatusOK || err != nil && ctx.Err() == nil {
		s.Errorf("%s: %s, %v", address, reply.Status, err)
	}
	return string(text)
}

// slowly is a server that passes requests on after a pause.
func slowly(t *testing.T, to string) *httptest.Server {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		select {
		case <-time.After(soakPause):
		case <-r.In.Context().Done():
		}
		r.SetURL(target)
	}})
}

// aLog is written by one goroutine and read by another. It keeps the newest 64 KB.
type aLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *aLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() > 1<<16 {
		l.text.Next(l.text.Len() - 1<<15)
	}
	return l.text.Write(p)
}

func (l *aLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
