package track

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/darkroom-rl/darkroom/record/folder"
)

// trackio imports fragments: files of JSON lines below TRACKIO_DIR/inbox, one folder a writer (trackio/fragments.py,
// version 1). Each line has an id, and one that was imported is not imported again; the importer deletes imported
// files. Pictures lie below TRACKIO_DIR/media. The step is the entry's place, since it must not fall; after a rollback
// the number "iteration" says which iteration it is.

// trackio is the folder.
type trackio struct {
	dir   string
	run   *Run
	state state
	lines bytes.Buffer // since the last commit
	first int          // the entry that they begin with
	next  int          // the entry that comes
}

func openTrackio(dir string, run *Run, s state) (Target, error) {
	t := &trackio{dir: dir, run: run, state: s, first: s.Mark.Entries, next: s.Mark.Entries}
	return t, os.MkdirAll(filepath.Join(dir, "inbox", run.ID), 0o755)
}

// fragment is a line.
type fragment struct {
	V         int            `json:"v"`
	Kind      string         `json:"kind"`
	Project   string         `json:"project"`
	Run       string         `json:"run"`
	RunID     string         `json:"run_id"`
	Metrics   map[string]any `json:"metrics,omitempty"`
	Title     string         `json:"title,omitempty"`
	Text      string         `json:"text,omitempty"`
	Level     string         `json:"level,omitempty"`
	Step      int            `json:"step"`
	Timestamp string         `json:"timestamp"`
	Config    map[string]any `json:"config,omitempty"`
	LogID     string         `json:"log_id,omitempty"`
	AlertID   string         `json:"alert_id,omitempty"`
}

func (t *trackio) Append(e *Entry) error {
	line := fragment{V: 1, Kind: "metric", Project: t.run.Project, Run: t.run.Name, RunID: t.run.ID, Step: e.Order, Timestamp: stamp(e.Time), Metrics: map[string]any{}}
	for _, s := range e.Scalars {
		line.Metrics[s.Name] = finite(s.Value)
	}
	for _, h := range e.Histograms {
		line.Metrics[h.Name] = h.binned("trackio.histogram")
	}
	for _, x := range e.Texts {
		line.Metrics[x.Name] = x.Value
	}
	for _, p := range e.Pictures {
		path, err := t.keep(e.Order, p)
		if err != nil {
			return err
		}
		line.Metrics[p.Name] = map[string]any{"_type": "trackio.image", "file_path": path, "caption": p.Caption}
	}
	if e.Order == 0 {
		line.Config = map[string]any{}
		for _, c := range t.run.Config {
			line.Config[c.Key] = c.Value
		}
	}
	t.next = e.Order + 1
	if len(line.Metrics) > 0 || line.Config != nil {
		line.LogID = t.id(e.Order, "metric")
		if err := t.add(line); err != nil {
			return err
		}
	}
	for i, a := range e.Alerts {
		if err := t.add(fragment{V: 1, Kind: "alert", Project: t.run.Project, Run: t.run.Name, RunID: t.run.ID, Step: e.Order, Timestamp: line.Timestamp,
			Title: a.Title, Text: a.Text, Level: "warn", AlertID: t.id(e.Order, fmt.Sprint("alert ", i))}); err != nil {
			return err
		}
	}
	return nil
}

func (t *trackio) add(f fragment) error {
	text, err := json.Marshal(f)
	t.lines.Write(append(text, '\n'))
	return err
}

// id is a line's own, the same in every export.
func (t *trackio) id(order int, what string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", t.run.ID, order, what))
	return hex.EncodeToString(sum[:16])
}

// keep writes a picture where trackio looks for it, and returns its path there.
func (t *trackio) keep(order int, p Picture) (string, error) {
	sum := sha256.Sum256(p.PNG)
	path := fmt.Sprintf("%s/%s/%d/%s.png", onDisk(t.run.Project), onDisk(t.run.Name), order, hex.EncodeToString(sum[:8]))
	to := filepath.Join(t.dir, "media", filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", err
	}
	return path, folder.WriteFile(to, p.PNG)
}

// onDisk is a name as trackio's canonical_project_name makes it.
func onDisk(name string) string {
	safe := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' {
			return r
		}
		return -1
	}, name)
	if safe == "" {
		return "default"
	}
	return safe
}

// stamp is a time as Python's isoformat writes it.
func stamp(seconds float64) string {
	return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC().Format("2006-01-02T15:04:05.000000+00:00")
}

// finite is a number that JSON has; others are trackio's words for them.
func finite(v float64) any {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return v
}

// Commit writes the appended entries as a fragment. One that was written before a failure is written over by the same
// lines and more: their ids say that they are the same.
func (t *trackio) Commit(m Mark) error {
	if t.lines.Len() > 0 {
		name := fmt.Sprintf("%08d.jsonl", t.first)
		if err := folder.WriteFile(filepath.Join(t.dir, "inbox", t.run.ID, name), t.lines.Bytes()); err != nil {
			return err
		}
	}
	t.lines.Reset()
	t.first = t.next
	t.state.Mark = m
	return t.state.write(t.dir)
}

func (t *trackio) Finish(string) error { return nil }
func (t *trackio) Close() error        { return nil }
