package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// collected is a collector of traces.
type collected struct {
	*httptest.Server
	mu    sync.Mutex
	spans []collectedSpan
}

// collectedSpan is a test's view of a span.
type collectedSpan struct {
	Trace string `json:"traceId"`
	ID    string `json:"spanId"`
	In    string `json:"parentSpanId"`
	Name  string `json:"name"`
	Began string `json:"startTimeUnixNano"`
	Ended string `json:"endTimeUnixNano"`
	About []struct {
		Key   string            `json:"key"`
		Value map[string]string `json:"value"`
	} `json:"attributes"`
}

// worker is whose a span is.
func (s collectedSpan) worker() string {
	for _, a := range s.About {
		if a.Key == "darkroom.worker" {
			return a.Value["stringValue"]
		}
	}
	return ""
}

func collect(t *testing.T) *collected {
	c := &collected{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var q struct {
			Of []struct {
				Scopes []struct {
					Spans []json.RawMessage `json:"spans"`
				} `json:"scopeSpans"`
			} `json:"resourceSpans"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Of) != 1 || len(q.Of[0].Scopes) != 1 {
			t.Errorf("a collector cannot read it: %v", err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, text := range q.Of[0].Scopes[0].Spans {
			var s collectedSpan
			_ = json.Unmarshal(text, &s) // values other than texts are left out
			c.spans = append(c.spans, s)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// holds checks the traces of this number of iterations, in which a worker did jobs.
func (c *collected) holds(t *testing.T, iterations int, worker string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	by, count, leased := map[string]collectedSpan{}, map[string]int{}, 0
	for _, s := range c.spans {
		if _, twice := by[s.ID]; twice {
			t.Errorf("two spans are called %s", s.ID)
		}
		by[s.ID] = s
	}
	within := map[string][]string{"": {"iteration"}, "iteration": {"roll", "score", "train", "evaluate", "job"}, "job": {"publish", "wait", "lease"}}
	for _, s := range c.spans {
		count[s.Name]++
		in := by[s.In]
		if !slices.Contains(within[in.Name], s.Name) || s.In != "" && in.Trace != s.Trace {
			t.Errorf("span %s lies in %q", s.Name, in.Name)
		}
		if len(s.Began) != 19 || s.Began > s.Ended { // nanoseconds since 1970, as texts of one length
			t.Errorf("span %s from %s to %s", s.Name, s.Began, s.Ended)
		}
		if s.Name == "lease" && strings.HasPrefix(s.worker(), worker) && in.worker() == s.worker() {
			leased++
		}
	}
	for _, name := range []string{"iteration", "roll", "score", "train"} {
		if count[name] != iterations {
			t.Errorf("%d spans are called %s, want %d", count[name], name, iterations)
		}
	}
	if count["evaluate"] == 0 || count["job"] < iterations || count["publish"] == 0 || leased == 0 {
		t.Errorf("spans: %v, of which %d leases of worker %s led to a result", count, leased, worker)
	}
}
