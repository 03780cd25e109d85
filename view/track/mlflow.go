package track

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strings"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// MLflow's server is written to by its REST API, which GitLab speaks, too: an experiment is found by its name, the
// run in it by a tag with the run's id, and another tag says how far it was exported, so nothing is kept here.
// Metrics that are sent twice are one, since key, step, time and value are the same. The step is the entry's place:
// it never falls. Pictures and texts are artifacts, where the server takes them itself.

// Limits of a request (runs/log-batch).
const (
	metricsMost = 1000
	paramsMost  = 100
	paramLength = 6000
	markTag     = "darkroom.mark"
	idTag       = "darkroom.id"
)

// mlflow is a run on a server.
type mlflow struct {
	*client
	run       *Run
	names     string
	id        string
	artifacts string // where they are put; "": the server does not take them
	metrics   []metric
	last      float64 // the time of the last entry
	left      int     // artifacts that were not sent
}

// metric is a number as the server wants it.
type metric struct {
	Key       string `json:"key"`
	Value     any    `json:"value"`
	Timestamp int64  `json:"timestamp"`
	Step      int    `json:"step"`
}

// pair is a param or a tag.
type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// info is a run as the server tells of it.
type info struct {
	Info struct {
		ID        string `json:"run_id"`
		Artifacts string `json:"artifact_uri"`
	} `json:"info"`
	Data struct {
		Tags []pair `json:"tags"`
	} `json:"data"`
}

// findMLflow is how far a run was exported; nil: it was not.
func findMLflow(address string, run *Run) (*state, error) {
	c, err := newClient(address)
	if err != nil {
		return nil, err
	}
	found, _, err := c.find(run)
	if err != nil || found == nil {
		return nil, err
	}
	for _, t := range found.Data.Tags {
		if t.Key != markTag {
			continue
		}
		s := &state{As: "mlflow", Run: run.Name, ID: run.ID}
		if err := json.Unmarshal([]byte(t.Value), s); err != nil {
			return nil, fmt.Errorf("tag %s of run %s: %w\nhint: delete the run there, and export again", markTag, found.Info.ID, err)
		}
		return s, nil
	}
	return nil, nil
}

// find looks for the experiment and the run in it.
func (c *client) find(run *Run) (found *info, experiment string, err error) {
	var e struct {
		Experiment struct {
			ID string `json:"experiment_id"`
		} `json:"experiment"`
	}
	err = c.get("experiments/get-by-name?experiment_name="+url.QueryEscape(run.Project), &e)
	if missing(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	var r struct {
		Runs []info `json:"runs"`
	}
	err = c.post("runs/search", map[string]any{"experiment_ids": []string{e.Experiment.ID}, "filter": fmt.Sprintf("tags.`%s` = '%s' and tags.`mlflow.runName` = '%s'", idTag, run.ID, quoted(run.Name)), "max_results": 1}, &r)
	if err != nil || len(r.Runs) == 0 {
		return nil, e.Experiment.ID, err
	}
	return &r.Runs[0], e.Experiment.ID, nil
}

// quoted is a text inside a filter's quotes.
func quoted(s string) string { return strings.ReplaceAll(s, "'", "''") }

func openMLflow(address string, run *Run, s state) (Target, error) {
	c, err := newClient(address)
	if err != nil {
		return nil, err
	}
	m := &mlflow{client: c, run: run, names: s.Names, last: s.Mark.Time}
	found, experiment, err := c.find(run)
	if err != nil {
		return nil, err
	}
	if found == nil {
		if found, err = m.create(experiment); err != nil {
			return nil, err
		}
	} else if err := m.update("RUNNING", nil, found.Info.ID); err != nil {
		return nil, err
	}
	m.id = found.Info.ID
	if path, ok := strings.CutPrefix(found.Info.Artifacts, "mlflow-artifacts:/"); ok {
		m.artifacts = strings.TrimLeft(path, "/")
	}
	return m, nil
}

// create makes the run, and its experiment if missing.
func (m *mlflow) create(experiment string) (*info, error) {
	if experiment == "" {
		var e struct {
			ID string `json:"experiment_id"`
		}
		if err := m.post("experiments/create", map[string]any{"name": m.run.Project}, &e); err != nil {
			return nil, err
		}
		experiment = e.ID
	}
	var r struct {
		Run info `json:"run"`
	}
	err := m.post("runs/create", map[string]any{"experiment_id": experiment, "run_name": m.run.Name, "start_time": milliseconds(m.run.Began), "tags": []pair{{idTag, m.run.ID}, {"mlflow.runName", m.run.Name}}}, &r)
	if err != nil {
		return nil, err
	}
	var params []pair
	for _, c := range m.run.Config {
		value := fmt.Sprint(c.Value)
		params = append(params, pair{allowed(c.Key), value[:min(len(value), paramLength)]})
	}
	for len(params) > 0 {
		n := min(len(params), paramsMost)
		if err := m.post("runs/log-batch", map[string]any{"run_id": r.Run.Info.ID, "params": params[:n]}, nil); err != nil {
			return nil, err
		}
		params = params[n:]
	}
	return &r.Run, nil
}

func milliseconds(seconds float64) int64 { return int64(math.Round(seconds * 1e3)) }

// allowed is a name with the characters that the server takes.
func allowed(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./ ", r) {
			return r
		}
		return '_'
	}, name)
}

func (m *mlflow) Append(e *Entry) error {
	m.last = e.Time
	for _, s := range e.Scalars {
		m.metrics = append(m.metrics, metric{allowed(s.Name), finite(s.Value), milliseconds(e.Time), e.Order})
	}
	for len(m.metrics) >= metricsMost {
		if err := m.send(metricsMost, nil); err != nil {
			return err
		}
	}
	for _, p := range e.Pictures {
		if err := m.keep(e.Order, p.Name+".png", p.PNG); err != nil {
			return err
		}
	}
	for i, a := range alerts(e) {
		e.Texts = append(e.Texts, Text{fmt.Sprintf("%s_%d", a.Name, i), a.Value})
	}
	for _, x := range e.Texts {
		if err := m.keep(e.Order, x.Name+".txt", []byte(x.Value)); err != nil {
			return err
		}
	}
	return nil
}

// keep sends an artifact.
func (m *mlflow) keep(order int, name string, data []byte) error {
	if m.artifacts == "" {
		m.left++
		return nil
	}
	group, rest, ok := strings.Cut(name, "/")
	if !ok {
		group, rest = "heldout", name
	}
	return m.put(fmt.Sprintf("mlflow-artifacts/artifacts/%s/%s/%06d_%s", m.artifacts, url.PathEscape(group), order, url.PathEscape(rest)), data)
}

// send sends the first n metrics.
func (m *mlflow) send(n int, tags []pair) error {
	body := map[string]any{"run_id": m.id, "metrics": m.metrics[:n]}
	if tags != nil {
		body["tags"] = tags
	}
	if err := m.post("runs/log-batch", body, nil); err != nil {
		return err
	}
	m.metrics = m.metrics[n:]
	return nil
}

func (m *mlflow) Commit(mark Mark) error {
	text, err := json.Marshal(map[string]any{"mark": mark, "began": m.run.Began, "names": m.names})
	if err != nil {
		return err
	}
	return m.send(len(m.metrics), []pair{{markTag, string(text)}})
}

// update sets the run's status.
func (m *mlflow) update(status string, end any, id string) error {
	body := map[string]any{"run_id": id, "status": status}
	if end != nil {
		body["end_time"] = end
	}
	return m.post("runs/update", body, nil)
}

// Finish says that the run has ended.
func (m *mlflow) Finish(status string) error {
	word := "KILLED"
	if status == ledger.Finished {
		word = "FINISHED"
	}
	return m.update(word, milliseconds(m.last), m.id)
}

func (m *mlflow) Close() error { return nil }

// Note is a remark for the user; "": nothing.
func (m *mlflow) Note() string {
	if m.left == 0 {
		return ""
	}
	return fmt.Sprintf("%d pictures and texts were not sent: the server keeps artifacts elsewhere, where clients write them themselves (mlflow server --serve-artifacts takes them)", m.left)
}
