package run

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/vision"
)

// tableRow is a conversation as data sets of a hub store it: pictures are bytes of files, in the order of their marks.
type tableRow struct {
	Messages []tableMessage `parquet:"messages,list"`
	Images   []tablePicture `parquet:"images,list"`
}

type tableMessage struct {
	Role    string      `parquet:"role"`
	Content []tablePart `parquet:"content,list"`
}

type tablePart struct {
	Type  string  `parquet:"type"`
	Text  *string `parquet:"text,optional"`
	Image string  `parquet:"-"`
}

type tablePicture struct {
	Bytes []byte  `parquet:"bytes,optional"`
	Path  *string `parquet:"path,optional"`
}

// stored is a row of an embedded list as a table has it.
func stored(t *testing.T, text string) (row tableRow) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		t.Fatal(err)
	}
	for _, m := range row.Messages {
		for _, p := range m.Content {
			if p.Image == "" {
				continue
			}
			all, err := prompts.OpenPictures("", []string{p.Image})
			if err != nil {
				t.Fatal(err)
			}
			var file bytes.Buffer
			if err := vision.EncodePNG(&file, all[0]); err != nil {
				t.Fatal(err)
			}
			row.Images = append(row.Images, tablePicture{Bytes: file.Bytes()})
		}
	}
	return row
}

// TestLessonsFromParquet: a Parquet file of conversations, with their pictures inside, teaches the same as its rows
// in a .jsonl: every number of the ledger is the same.
func TestLessonsFromParquet(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	lines, ok := prompts.DrawnLessons("embed:zoom-lessons")
	if !ok {
		t.Fatal("embed:zoom-lessons is no list")
	}
	lines = lines[:5]
	var rows []tableRow
	for _, text := range lines {
		rows = append(rows, stored(t, text))
	}
	table := filepath.Join(t.TempDir(), "lessons.parquet")
	if err := parquet.WriteFile(table, rows); err != nil {
		t.Fatal(err)
	}
	model, questions := speaker(t), fewQuestions(t)
	learned := func(name, file string) []ledger.Line {
		dir := filepath.Join(t.TempDir(), name)
		e := parseText(t, talking, questions, model, "run.iterations=2", "episode.tokens=600",
			`stage=[{iterations=2, loss.objective="sft", rollout={lessons="`+file+`", prompts_per_iteration=2, group=1}}]`)
		if r, err := train(t, e, dir, false, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%v, %v", r, err)
		}
		return ledgerOf(t, dir)
	}
	of, same := learned("table", table), learned("lines", lessonFile(t, lines...))
	for i, l := range of {
		if !reflect.DeepEqual(l.Updates, same[i].Updates) || len(l.Updates) == 0 || l.Updates[0].Loss == 0 {
			t.Errorf("iteration %d learns %+v from the table, and %+v from lines", i+1, l.Updates, same[i].Updates)
		}
	}
}
