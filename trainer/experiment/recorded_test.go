package experiment

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var record = flag.Bool("record", false, "write testdata/recorded anew")

// recordedFolder has the config.toml of a run of each shipped example.
const recordedFolder = "testdata/recorded"

var originComment = regexp.MustCompile(`(?m) +# (default|preset \S+|--set)$`)

// resolved is the text that an experiment writes.
func resolved(t *testing.T, e *Experiment) string {
	t.Helper()
	var text bytes.Buffer
	if err := e.Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// values are an experiment's settings, without where they came from.
func values(e *Experiment) Experiment {
	at := *e
	at.doc, at.given, at.lists = nil, nil, nil
	return at
}

// TestRecorded: every shipped example resolves to the recorded lines, and an older run's config.toml parses to the same
// experiment and resolves to the same lines.
//
//	go test ./trainer/experiment -run TestRecorded -record   # writes the files anew
func TestRecorded(t *testing.T) {
	examples, err := filepath.Glob("../../assets/configs/*.toml")
	if err != nil || len(examples) < 20 {
		t.Fatal(len(examples), err)
	}
	left := map[string]bool{}
	for _, f := range examples {
		e, err := Read(f, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		file, text := filepath.Join(recordedFolder, filepath.Base(f)), resolved(t, e)
		left[file] = true
		if *record {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if gone := lost(string(want), text); gone != "" {
			t.Errorf("%s no longer resolves to the recorded line %q of %s", f, gone, file)
		}
		again, err := Read(file, nil)
		if err != nil {
			t.Errorf("an older run's file: %v", err)
			continue
		}
		if !reflect.DeepEqual(values(again), values(e)) {
			t.Errorf("%s parses to another experiment than %s", file, f)
		}
		if got, bare := resolved(t, again), originComment.ReplaceAllString(string(want), ""); lost(bare, originComment.ReplaceAllString(got, "")) != "" {
			t.Errorf("%s no longer resolves to its own line %q", file, lost(bare, originComment.ReplaceAllString(got, "")))
		}
	}
	recorded, _ := filepath.Glob(filepath.Join(recordedFolder, "*.toml"))
	for _, file := range recorded {
		if !left[file] {
			t.Errorf("%s is of no shipped example", file)
		}
	}
}

// lost is the first line of a recorded text that another one has not behind those before it; "": none. A key that was
// added since does not count as a loss.
func lost(recorded, text string) string {
	rest := strings.Split(text, "\n")
	for line := range strings.SplitSeq(strings.TrimRight(recorded, "\n"), "\n") {
		i := slices.Index(rest, line)
		if i < 0 {
			return line
		}
		rest = rest[i+1:]
	}
	return ""
}
