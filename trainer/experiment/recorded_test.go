package experiment

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
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

// TestRecorded: every shipped example resolves to the recorded text, and an older run's config.toml parses to the same
// experiment and resolves to the same text.
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
		if text != string(want) {
			t.Errorf("%s resolves to another text than %s: %s", f, file, firstApart(text, string(want)))
		}
		again, err := Read(file, nil)
		if err != nil {
			t.Errorf("an older run's file: %v", err)
			continue
		}
		if !reflect.DeepEqual(values(again), values(e)) {
			t.Errorf("%s parses to another experiment than %s", file, f)
		}
		if got, bare := resolved(t, again), originComment.ReplaceAllString(string(want), ""); originComment.ReplaceAllString(got, "") != bare {
			t.Errorf("%s resolves to another text than itself: %s", file, firstApart(got, bare))
		}
	}
	recorded, _ := filepath.Glob(filepath.Join(recordedFolder, "*.toml"))
	for _, file := range recorded {
		if !left[file] {
			t.Errorf("%s is of no shipped example", file)
		}
	}
}

// firstApart is the first line in which two texts differ.
func firstApart(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return "\n" + x[i] + "\n" + y[i]
		}
	}
	return "one has more lines"
}
