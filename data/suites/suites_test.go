package suites

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/darkroom-rl/darkroom/vision"
)

// drawn is a PNG of one colour.
func drawn(t *testing.T, red uint8) []byte {
	t.Helper()
	m := vision.New(6, 4)
	for i := range m.Pix {
		m.Pix[i] = red
	}
	var file bytes.Buffer
	if err := vision.EncodePNG(&file, m); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func encoded(t *testing.T, red uint8) string { return base64.StdEncoding.EncodeToString(drawn(t, red)) }

func file(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// published are rows as each collection publishes them, in every layout that is read.
func published(t *testing.T, dir string) map[string][]string {
	t.Helper()
	file(t, dir, "direct_attributes/sa_1.png", drawn(t, 7))
	file(t, dir, "images/1.png", drawn(t, 7))
	file(t, dir, "png/411.png", drawn(t, 7))
	type packed struct {
		Bytes []byte `parquet:"bytes"`
		Path  string `parquet:"path"`
	}
	type vstarRow struct {
		Image    packed `parquet:"image"`
		Text     string `parquet:"text"`
		Category string `parquet:"category"`
		Label    string `parquet:"label"`
		ID       string `parquet:"question_id"`
	}
	asks := "What is the material of the glove?\n(A) rubber\n(B) cotton\n(C) kevlar\n(D) leather\nAnswer with the option's letter from the given choices directly."
	table := filepath.Join(dir, "test-00000-of-00001.parquet")
	if err := parquet.WriteFile(table, []vstarRow{{packed{drawn(t, 7), "a.png"}, asks, "direct_attributes", "A", "0"}}); err != nil {
		t.Fatal(err)
	}
	hr := "index\tquestion\tanswer\tcategory\tcycle_category\tA\tB\tC\tD\timage\n"
	for i, options := range []string{"red\tblue\tgreen\tgrey", "blue\tred\tgrey\tgreen"} {
		hr += fmt.Sprintf("%d\tWhat colour is the \"\"bag\"\"?\t%c\tsingle\tfour\t%s\t%s\n", i, 'A'+i, options, encoded(t, 7))
	}
	mme, err := json.Marshal([]any{map[string]any{"Question_id": "m1", "Image": encoded(t, 7), "Text": "How many cars?", "Question type": "Multiple Choice", "Answer choices": []string{"(A) 1", "(B) 2", "(C) 3", "(D) 4", "(E) none"},
		"Ground truth": "E", "Category": "count", "Subtask": "Monitoring", "Task": "Perception"}})
	if err != nil {
		t.Fatal(err)
	}
	math := `{"1": {"question": "q", "image": "images/1.png", "choices": null, "unit": null, "precision": 1.0, "answer": "1.2", "question_type": "free_form", "answer_type": "float", "pid": "1",
		"query": "Hint: Please answer the question requiring a floating-point number with one decimal place and provide the final value, e.g., 1.2, 1.3, 1.4, at the end.\nQuestion: How long?"},
		"2": {"question": "q", "image": "images/1.png", "choices": ["acute", "obtuse"], "unit": null, "precision": null, "answer": "obtuse", "question_type": "multi_choice", "answer_type": "text", "query": "Hint: ... \nQuestion: Which?\nChoices:\n(A) acute\n(B) obtuse"},
		"3": {"question": "q", "image": "images/1.png", "choices": null, "unit": null, "precision": null, "answer": "14", "question_type": "free_form", "answer_type": "integer", "query": "Question: How many?"}}`
	return map[string][]string{
		"vstar":        {file(t, dir, "test_questions.jsonl", []byte(`{"image": "direct_attributes/sa_1.png", "text": `+quoted(asks)+`, "category": "direct_attributes", "label": "A", "question_id": 0}`+"\n")), table},
		"hrbench":      {file(t, dir, "hr_bench_4k.tsv", []byte(strings.ReplaceAll(hr, `""bag""`, `"bag"`)))},
		"mmerealworld": {file(t, dir, "MME_RealWorld.json", mme)},
		"mathvista":    {file(t, dir, "testmini.json", []byte(math))},
		"chartqa":      {file(t, dir, "test_human.json", []byte(`[{"imgname": "411.png", "query": "How many items?", "label": "14"}, {"imgname": "411.png", "query": "Is it so?", "label": "Yes"}]`))},
	}
}

func quoted(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// TestSuites: rows of every published layout become questions with their pictures, and replies are right by the
// published rules.
func TestSuites(t *testing.T) {
	files := published(t, t.TempDir())
	for name, want := range map[string]struct {
		n            int
		prompt       string
		right, wrong []string // replies to the questions
	}{
		"vstar": {1, "What is the material of the glove?\nA. rubber\nB. cotton\nC. kevlar\nD. leather\nAnswer with the option's letter from the given choices directly.",
			[]string{"A", "(A) rubber", "The answer is A.", "<think>B?</think><answer>A</answer>"}, []string{"B", "rubber", "", "The answer is B."}},
		"hrbench": {2, "What colour is the \"bag\"?\nA. red\nB. blue\nC. green\nD. grey\nAnswer the option letter directly.", []string{"A. red", "a"}, []string{"B. blue"}},
		"mmerealworld": {1, "How many cars? The choices are listed below:\n(A) 1\n(B) 2\n(C) 3\n(D) 4\n(E) none\nSelect the best answer to the above multiple-choice question based on the image. Respond with only the letter (A, B, C, D, or E) of the correct option.\nThe best answer is: ",
			[]string{"E", "The best answer is (E)"}, []string{"A", "none"}},
		"mathvista": {3, "Hint: Please answer the question requiring a floating-point number with one decimal place and provide the final value, e.g., 1.2, 1.3, 1.4, at the end.\nQuestion: How long?",
			[]string{"1.2", "It is 5 by 1.24", "The answer is 1.15001."}, []string{"1.3", "long", ""}},
		"chartqa": {2, "How many items?\nAnswer the question with a single word.", []string{"14", "14.6", "13.4"}, []string{"15", "fourteen", ""}},
	} {
		for _, f := range files[name] {
			s, err := Open(name, f)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if len(s.Questions) != want.n || s.Questions[0].Prompt != want.prompt || len(s.Sum) != 64 {
				t.Errorf("%s: %d questions, the first %q", f, len(s.Questions), s.Questions[0].Prompt)
			}
			for _, q := range s.Questions {
				m, err := q.Picture()
				if err != nil || m.Width != 6 || m.Height != 4 || m.Pix[0] != 7 {
					t.Errorf("%s: %v, %v", f, m, err)
				}
			}
			for _, reply := range want.right {
				if !s.Right(s.Questions[0], reply) {
					t.Errorf("%s: %q is wrong", name, reply)
				}
			}
			for _, reply := range want.wrong {
				if s.Right(s.Questions[0], reply) {
					t.Errorf("%s: %q is right", name, reply)
				}
			}
		}
	}
	s, err := Open("mathvista", files["mathvista"][0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n     int
		reply string
		right bool
	}{{1, "(B)", true}, {1, "B", true}, {1, "obtus", true}, {1, "(A) acute", false}, {2, "14", true}, {2, "There are 14", true}, {2, "14.9", true}, {2, "15", false}} {
		if got := s.Right(s.Questions[c.n], c.reply); got != c.right {
			t.Errorf("%q to question %s: %v", c.reply, s.Questions[c.n].ID, got)
		}
	}
}

// TestResult: orders of one question count once in the interval, and sums cover questions and replies.
func TestResult(t *testing.T) {
	files := published(t, t.TempDir())
	s, err := Open("hrbench", files["hrbench"][0])
	if err != nil {
		t.Fatal(err)
	}
	if s.Questions[0].Cluster != s.Questions[1].Cluster {
		t.Error("two orders of a question's options are two questions")
	}
	answers := []Answer{{ID: "0", Turns: []string{"A"}, End: "answered", Right: true}, {ID: "1", Turns: []string{"C"}, End: "cut"}}
	r := s.Result(answers, How{Model: "tiny", Limits: map[string]int{"turns": 3}, Sampling: map[string]any{"temperature": 1.0}})
	if a := r.Accuracy; a.Value != 0.5 || a.Low != 0 || a.High != 1 || r.Clusters != 1 || r.Unended != 1 || r.Parts["single"].Questions != 2 {
		t.Errorf("%+v", r)
	}
	answers[1].Turns[0] = "D"
	if other := s.Result(answers, r.How); other.Answers == r.Answers || other.Prompts != r.Prompts {
		t.Error("another answer has the same sum, or the same prompts have another")
	}
	for _, says := range []string{"# hrbench: tiny", "**50.0 %** of 2 questions", "| single | 2 | 50.0 %", r.FileSum, r.Answers, "| most turns | 3 |", "| temperature | 1 |", "What colour is the \"bag\"?"} {
		if !strings.Contains(r.Card(), says) {
			t.Errorf("the card does not say %q:\n%s", says, r.Card())
		}
	}
	many, same := make([]float64, 40), make([]int, 40)
	for i := range many {
		many[i], same[i] = float64(i%2), i
	}
	if i := (&Set{kind: s.kind, Questions: make([]Question, 0)}).Result(nil, How{}); !math.IsNaN(i.Accuracy.Value) && i.Questions != 0 {
		t.Errorf("no answers have the accuracy %v", i.Accuracy)
	}
}

// TestBrokenSuites: an error of a file names the row.
func TestBrokenSuites(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ suite, content, says string }{
		"a.jsonl": {"vstar", `{"image": "x.png"}`, "row 1: no column text or question: it has image"},
		"b.jsonl": {"vstar", "{\n", "b.jsonl:1"},
		"c.json":  {"chartqa", `[{"imgname": "1.png", "query": "q"}]`, "row 1 has no answer"},
		"d.json":  {"chartqa", `[{"imgname": "1.png", "query": "q", "label": "1"}`, "breaks off"},
		"e.tsv":   {"hrbench", "index\tquestion\n1\tq\n", "no picture in column image"},
		"f.txt":   {"vstar", "", "a suite is a"},
		"g.json":  {"mathvista", `[]`, "has no questions"},
		"h.jsonl": {"unheard", "", "vstar, hrbench, mmerealworld, mathvista, chartqa are"},
	} {
		if _, err := Open(c.suite, file(t, dir, name, []byte(c.content))); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPicturesStayInTheFile: an open suite holds no picture in memory, in any layout, reads each from the file, and
// notices a changed file.
func TestPicturesStayInTheFile(t *testing.T) {
	dir := t.TempDir()
	const rows, size = 24, 64 << 10
	var bodies []string
	for n := range rows { // any bytes may follow a picture
		padded := append(drawn(t, uint8(n)), bytes.Repeat([]byte{uint8(n)}, size)...)
		bodies = append(bodies, base64.StdEncoding.EncodeToString(padded))
	}
	tab, list, lines := "index\tquestion\tanswer\tA\tB\timage\n", []string{}, ""
	for n, body := range bodies {
		tab += fmt.Sprintf("%d\tWhich?\tA\tred\tblue\t%s\r\n", n, body)
		one := fmt.Sprintf(`{"index": "%d", "question": "Which?", "answer": "A", "A": "red", "B": "blue", "image": "%s"}`, n, body)
		list, lines = append(list, one), lines+one+"\r\n\r\n"
	}
	for name, text := range map[string]string{"a.tsv": tab, "a.json": "[" + strings.Join(list, " ,\n") + "]", "a.jsonl": lines} {
		path := file(t, dir, name, []byte(text))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s, err := Open("hrbench", path)
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > rows*size/8 {
			t.Errorf("%s: %d bytes are held, of %d of pictures", name, held, rows*size)
		}
		for _, n := range []int{0, 1, 17, rows - 1} {
			if m, err := s.Questions[n].Picture(); err != nil || m.Pix[0] != uint8(n) {
				t.Errorf("%s, row %d: %v", name, n, err)
			}
		}
		file(t, dir, name, []byte(strings.Replace(text, bodies[1], bodies[2], 1)))
		if _, err := s.Questions[1].Picture(); err == nil || !strings.Contains(err.Error(), path+" has changed since") {
			t.Errorf("%s: another picture is there: %v", name, err)
		}
		file(t, dir, name, []byte(text[:len(text)/2]))
		if _, err := s.Questions[rows-1].Picture(); err == nil || !strings.Contains(err.Error(), "again") {
			t.Errorf("%s: it was cut off: %v", name, err)
		}
	}
}
