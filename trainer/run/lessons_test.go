package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/parquet-go/parquet-go"
)

const coldStart = `
[[stage]]
name = "cold start"
iterations = 4
[stage.loss]
objective = "sft"
[stage.rollout]
lessons = "LESSONS"
prompts_per_iteration = 4
group = 1
[stage.optim]
lr = 2e-3
updates = 1
[[stage]]
name = "rl"
iterations = 1
`

// taughtLessons are conversations about tables, with calls of tools and one in ShareGPT's form.
func taughtLessons(t *testing.T) string {
	t.Helper()
	var rows []string
	for i := range 7 {
		rows = append(rows, fmt.Sprintf(`{"messages": [{"role": "user", "content": [{"type": "image", "image": "embed:cards/%d"}, {"type": "text", "text": "Which digit is on the red card?"}]}, {"role": "assistant", "content": "<answer>%d</answer>"}]}`, 30000+i, i))
	}
	rows = append(rows, `{"conversations": [{"from": "human", "value": "<image>Which digit?"}, {"from": "gpt", "value": "<answer>7</answer>"}], "images": ["embed:cards/30007"]}`)
	return lessonFile(t, rows...)
}

func lessonFile(t *testing.T, rows ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lessons.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(rows, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLessons: conversations of a file are learned from, without a reward, and rollouts after them
// begin with a ratio of 1; a run that is stopped among either leaves the bytes of one that was not.
func TestLessons(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	text := talking + strings.ReplaceAll(coldStart, "LESSONS", taughtLessons(t))
	sets := []string{fewQuestions(t), speaker(t), "run.iterations=5"}
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	if r, err := train(t, parseText(t, text, sets...), whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	lines := ledgerOf(t, whole)
	first, last, rolled := lines[0], lines[3], lines[4]
	if a, b := first.Updates[0].Loss, last.Updates[0].Loss; !(b < 0.8*a) {
		t.Errorf("the loss of conversations went from %v to %v", a, b)
	}
	if u := first.Updates[0]; first.Stage != "cold start" || math.Abs(u.Metrics["nll"]-u.Loss) > 1e-9 || len(first.Rewards) > 0 || first.Total.Missing != 4 || u.RatioMost != 0 {
		t.Errorf("the first iteration: %+v", first)
	}
	if u := rolled.Updates[0]; rolled.Stage != "rl" || u.RatioMost != 1 || rolled.Total.Missing != 0 {
		t.Errorf("the first iteration of rollouts: %+v", rolled)
	}
	plain := filepath.Join(dir, "plain") // its held-out questions are answered with the same draws
	if _, err := train(t, parseText(t, talking, append(sets, "run.iterations=1")...), plain, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	if a, b := beforeAny(t, whole), beforeAny(t, plain); len(a) != 3 || !reflect.DeepEqual(a, b) {
		t.Errorf("before training, held-out questions with and without lessons: %+v, %+v", a, b)
	}
	want := contents(t, whole)
	parts := filepath.Join(dir, "parts")
	if r, err := train(t, parseText(t, text, sets...), parts, false, 1, 2); err != nil || r.Status != ledger.Interrupted {
		t.Fatalf("%v, %v", r, err)
	}
	if r, err := train(t, parseText(t, text, sets...), parts, true, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	same(t, "stopped among lessons", want, contents(t, parts))
	if err := folder.ReadLines(filepath.Join(whole, ledger.TranscriptsFile), func(text []byte) error { return nil }); err != nil {
		t.Error(err)
	}
}

// beforeAny are a run's held-out samples before its first iteration.
func beforeAny(t *testing.T, dir string) []ledger.HeldOutLine {
	t.Helper()
	all, err := ledger.ReadHeldOutOf(filepath.Join(dir, ledger.HeldOutFile), 0)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// TestLessonsRefused: a file that cannot be learned from is refused with its name and line, before
// anything is computed.
func TestLessonsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	model, questions := speaker(t), fewQuestions(t)
	good := `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "<answer>1</answer>"}]}`
	for says, rows := range map[string][]string{
		"lessons.jsonl:2: ":                          {good, `{"messages": [`},
		"the assistant says nothing":                 {good, `{"messages": [{"role": "user", "content": "Hi"}]}`},
		"lessons.jsonl:1: other pictures than marks": {`{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "1"}], "images": ["a.png"]}`},
		"nothing is fetched":                         {`{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/a.png"}}]}, {"role": "assistant", "content": "1"}]}`},
		"no such file":                               {`{"messages": [{"role": "user", "content": [{"type": "image", "image": "gone.png"}]}, {"role": "assistant", "content": "1"}]}`},
		"is not below the folder":                    {`{"messages": [{"role": "user", "content": [{"type": "image", "image": "/etc/passwd"}]}, {"role": "assistant", "content": "1"}]}`},
		"too few prompts":                            {good},
		"more than episode.tokens = 300 tokens":      {strings.Replace(good, "Hi", strings.Repeat("Hi ", 400), 1)},
	} {
		e := parseText(t, talking+strings.ReplaceAll(coldStart, "LESSONS", lessonFile(t, rows...)), questions, model, "run.iterations=5")
		if _, err := train(t, e, filepath.Join(t.TempDir(), "run"), false, 2, -1); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

// TestLessonsTooLong: conversations that do not fit are named with their lines and left out; the
// others keep their order.
func TestLessonsTooLong(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	row := `{"messages": [{"role": "user", "content": "%s"}, {"role": "assistant", "content": "<answer>%d</answer>"}]}`
	file := lessonFile(t, fmt.Sprintf(row, "one", 1), fmt.Sprintf(row, strings.Repeat("long ", 400), 2), "", fmt.Sprintf(row, "three", 3))
	e := parseText(t, talking+strings.ReplaceAll(coldStart, "LESSONS", file), speaker(t), "run.iterations=5")
	m := ModalityOf(e)
	news, err := m.Ready(t.Context(), e)
	if err != nil || !strings.Contains(news, "1 conversations have more than episode.tokens = 300 tokens, and are left out: line 2 (") {
		t.Errorf("%q, %v", news, err)
	}
	list, err := m.Prompts(e)
	if err != nil {
		t.Fatal(err)
	}
	places := prompts.LessonsOf(list, file)
	if len(places) != 2 || list[places[0]].Text != "one" || list[places[1]].Text != "three" || len(prompts.LessonsOf(list, "")) != 480 {
		t.Errorf("lessons stand at %v of %d", places, len(list))
	}
}

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
