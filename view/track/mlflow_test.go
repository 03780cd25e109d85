package track

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// server answers as MLflow's does, as far as an export asks.
type server struct {
	t         *testing.T
	runs      int
	metrics   map[string]bool // by key, step, time and value: the same one is there once
	sent      int
	params    map[string]string
	tags      map[string]string
	artifacts map[string][]byte
	status    string
	elsewhere bool // artifacts
	busy      int  // requests that are answered 503
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.busy > 0 {
		s.busy--
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	if path, ok := strings.CutPrefix(r.URL.Path, "/api/2.0/mlflow-artifacts/artifacts/"); ok && r.Method == http.MethodPut {
		s.artifacts[path], _ = io.ReadAll(r.Body)
		return
	}
	var body struct {
		Metrics []metric
		Params  []pair
		Tags    []pair
		Status  string
	}
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			s.t.Error(err)
		}
	}
	var run info
	run.Info.ID, run.Info.Artifacts = "r1", "mlflow-artifacts:/4/r1/artifacts"
	if s.elsewhere {
		run.Info.Artifacts = "s3://bucket/4/r1/artifacts"
	}
	for k, v := range s.tags {
		run.Data.Tags = append(run.Data.Tags, pair{k, v})
	}
	answer := map[string]any{}
	switch strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/") {
	case "experiments/get-by-name":
		if s.runs == 0 {
			http.Error(w, `{"error_code":"RESOURCE_DOES_NOT_EXIST"}`, http.StatusNotFound)
			return
		}
		answer["experiment"] = map[string]any{"experiment_id": "4"}
	case "experiments/create":
		answer["experiment_id"] = "4"
	case "runs/search":
		answer["runs"] = []info{run}
	case "runs/create":
		s.runs++
		answer["run"] = run
		for _, t := range body.Tags {
			s.tags[t.Key] = t.Value
		}
	case "runs/update":
		s.status = body.Status
	case "runs/log-batch":
		s.log(body.Metrics, body.Params, body.Tags)
	default:
		http.Error(w, r.URL.Path, http.StatusNotFound)
		return
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

// log keeps a batch within MLflow's limits.
func (s *server) log(metrics []metric, params, tags []pair) {
	if len(metrics) > 1000 || len(params) > 100 {
		s.t.Errorf("a batch of %d metrics and %d params", len(metrics), len(params))
	}
	for _, m := range metrics {
		s.metrics[fmt.Sprint(m)] = true
		s.sent++
	}
	for _, p := range params {
		s.params[p.Key] = p.Value
	}
	for _, t := range tags {
		s.tags[t.Key] = t.Value
	}
}

func newServer(t *testing.T) (*server, string) {
	s := &server{t: t, metrics: map[string]bool{}, params: map[string]string{}, tags: map[string]string{}, artifacts: map[string][]byte{}}
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	return s, "mlflow=" + listening.URL
}

// TestMLflow: a run reaches the server whole and once, in parts or at once, and a server that is busy is asked again.
func TestMLflow(t *testing.T) {
	s, as := newServer(t)
	f := newFake(t)
	f.iterate(1, 0)
	export := func() int {
		t.Helper()
		x, err := Open(Options{Run: f.dir, As: as})
		if err != nil {
			t.Fatal(err)
		}
		n, err := x.Export()
		if err != nil || x.Note() != "" {
			t.Fatal(err, x.Note())
		}
		return n
	}
	if n := export(); n != 2 || s.params["run.name"] != "small" || s.params["optim.lr"] == "" {
		t.Errorf("%d entries, params %v", n, s.params)
	}
	f.iterate(2, 0)
	f.write("result.json", `{"status":"finished"}`)
	s.busy = 1
	if n := export(); n != 1 || s.status != "FINISHED" {
		t.Errorf("%d entries, status %s", n, s.status)
	}
	if n := export(); n != 0 || s.sent != len(s.metrics) || s.runs != 1 {
		t.Errorf("%d entries, %d metrics of %d sent, %d runs", n, len(s.metrics), s.sent, s.runs)
	}
	for _, want := range []string{"{reward/total 0.2 1700000020000 2}", "{heldout/scene 0.5 1700000008000 0}"} {
		if !s.metrics[want] {
			t.Errorf("no %s of %v", want, s.metrics)
		}
	}
	kept := must(os.ReadFile(filepath.Join(f.dir, "images", "heldout_000002.png")))
	if got := s.artifacts["4/r1/artifacts/heldout/000002_heldout.png"]; string(got) != string(kept) {
		t.Errorf("%d bytes of %d", len(got), len(kept))
	}
	if _, err := Open(Options{Run: f.dir, As: as, Names: "trl"}); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
}

// TestMLflowKilled: values sent before a process was killed are sent again, and exist once.
func TestMLflowKilled(t *testing.T) {
	s, as := newServer(t)
	s.elsewhere = true
	run := &Run{Project: "p", Name: "it's", ID: "0123", Began: 5, Config: []Setting{{"a", 1.0}}}
	e := &Entry{Time: 7, Texts: []Text{{"sample/best_text", "a cup"}}}
	for i := range metricsMost + 5 {
		e.Scalars = append(e.Scalars, Scalar{fmt.Sprintf("n@%d", i), float64(i)})
	}
	for range 2 { // the first is killed before Commit
		x, err := openMLflow(strings.TrimPrefix(as, "mlflow="), run, state{})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Append(e); err != nil {
			t.Fatal(err)
		}
		if s.tags[markTag] != "" {
			t.Error("it was marked before it was whole")
		}
		if s.sent == 2*metricsMost {
			if err := x.Commit(Mark{Entries: 1}); err != nil || x.(*mlflow).Note() == "" {
				t.Errorf("%v, note %q", err, x.(*mlflow).Note())
			}
		}
	}
	if len(s.metrics) != metricsMost+5 || s.sent != 2*metricsMost+5 || s.tags[markTag] == "" || s.runs != 1 || !s.metrics["{n_3 3 7000 0}"] {
		t.Errorf("%d metrics, %d sent, tags %v, %d runs", len(s.metrics), s.sent, s.tags, s.runs)
	}
}

// TestMLflowFails: the error names an invalid address, a server that refuses, and one out of reach.
func TestMLflowFails(t *testing.T) {
	if _, err := newClient("localhost:5000"); err == nil || !strings.Contains(err.Error(), "no http address") {
		t.Error(err)
	}
	s, as := newServer(t)
	c := must(newClient(strings.TrimPrefix(as, "mlflow=")))
	c.pause = time.Millisecond
	if err := c.get("nowhere", nil); !missing(err) {
		t.Error(err)
	}
	s.busy = tries
	if err := c.get("experiments/get-by-name", nil); err == nil || !strings.Contains(err.Error(), "503: try again (asked 5 times)") {
		t.Error(err)
	}
}
