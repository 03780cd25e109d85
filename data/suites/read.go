package suites

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// row is one of a file's, by its columns. Values are texts, lists, objects, or bytes of pictures.
type row struct {
	file   string
	values map[string]any
	again  func() (row, error) // reads it anew (suite.go)
}

// stretch is where a row stands in a file of texts.
type stretch struct{ from, to int64 }

// eachRow reads a file's rows: .json (a list, or an object of rows), .jsonl, .tsv, .parquet.
func eachRow(file string, f func(row) error) error {
	if filepath.Ext(file) == ".parquet" {
		t, err := prompts.OpenTable(file)
		if err != nil {
			return err
		}
		n := -1
		return errors.Join(t.Each(true, func(_ prompts.Place, r pytext.Ordered) error {
			n++
			return f(row{file, columns(r), tableRow(file, n)})
		}), t.Close())
	}
	open, err := regular.Open(file)
	if err != nil {
		return err
	}
	defer open.Close()
	with := func(parse func(text []byte) (map[string]any, error)) func(map[string]any, stretch) error {
		return func(v map[string]any, at stretch) error { return f(row{file, v, textRow(file, at, parse)}) }
	}
	switch filepath.Ext(file) {
	case ".json":
		return jsonRows(file, open, with(object))
	case ".jsonl":
		return lineRows(file, open, with(object))
	case ".tsv":
		return tabRows(file, open, with)
	}
	return fmt.Errorf("%s: a suite is a .json, .jsonl, .tsv or .parquet file", file)
}

// columns are a Parquet row's values.
func columns(r pytext.Ordered) map[string]any {
	values := map[string]any{}
	for k, v := range r.Values {
		values[k] = plain(v)
	}
	return values
}

// object is a row of JSON.
func object(text []byte) (v map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v)
}

// plain is a Parquet value as JSON would have it, bytes apart.
func plain(v any) any {
	switch v := v.(type) {
	case pytext.Ordered:
		out := map[string]any{}
		for k, x := range v.Values {
			out[k] = plain(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plain(x)
		}
		return out
	case nil, bool, string, []byte:
		return v
	}
	return pytext.Dumps(v)
}

// jsonRows reads a list of rows, or an object of them by their names, in the order of the file.
func jsonRows(file string, r io.Reader, f func(map[string]any, stretch) error) error {
	d := json.NewDecoder(r)
	open, err := d.Token()
	if err != nil || open != json.Delim('[') && open != json.Delim('{') {
		return fmt.Errorf("%s: neither a list of rows nor an object of them", file)
	}
	for n := 1; d.More(); n++ {
		name := ""
		if open == json.Delim('{') {
			key, err := d.Token()
			if err != nil {
				return fmt.Errorf("%s: row %d: %w", file, n, err)
			}
			name = fmt.Sprint(key)
		}
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return fmt.Errorf("%s: row %d: %w", file, n, err)
		}
		end := d.InputOffset()
		v, err := object(text)
		if err != nil {
			return fmt.Errorf("%s: row %d: %w", file, n, err)
		}
		if _, ok := v["pid"]; !ok && name != "" && v != nil {
			v["pid"] = name
		}
		if err := f(v, stretch{end - int64(len(text)), end}); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("%s: it breaks off: %w", file, err)
	}
	return nil
}

// mostLine is a row's bytes at most: pictures of 8K are in them.
const mostLine = 256 << 20

func lineRows(file string, r io.Reader, f func(map[string]any, stretch) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, mostLine)
	var at stretch
	s.Split(func(data []byte, last bool) (n int, line []byte, err error) {
		if n, line, err = bufio.ScanLines(data, last); n > 0 {
			at = stretch{at.to, at.to + int64(n)}
		}
		return n, line, err
	})
	for n := 1; s.Scan(); n++ {
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		v, err := object(s.Bytes())
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
		if err := f(v, at); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// tabRows reads a table whose first line names the columns; with turns a row's parser into a reader of rows.
func tabRows(file string, r io.Reader, with func(func([]byte) (map[string]any, error)) func(map[string]any, stretch) error) error {
	c := tabbed(r)
	names, err := c.Read()
	if err != nil {
		return fmt.Errorf("%s: its first line names no columns: %w", file, err)
	}
	f := with(func(text []byte) (map[string]any, error) {
		fields, err := tabbed(bytes.NewReader(text)).Read()
		if err == nil && len(fields) != len(names) {
			err = csv.ErrFieldCount
		}
		if err != nil {
			return nil, err
		}
		return fielded(names, fields), nil
	})
	for {
		from := c.InputOffset()
		fields, err := c.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := f(fielded(names, fields), stretch{from, c.InputOffset()}); err != nil {
			return err
		}
	}
}

func tabbed(r io.Reader) *csv.Reader {
	c := csv.NewReader(r)
	c.Comma, c.LazyQuotes = '\t', true
	return c
}

// fielded are a line's values by their columns.
func fielded(names, fields []string) map[string]any {
	v := map[string]any{}
	for i, name := range names {
		if fields[i] != "" { // pandas' missing value
			v[name] = strings.Clone(fields[i]) // fields share one string, with the picture
		}
	}
	return v
}

// text is the first of some columns that is there, as a text.
func (r row) text(names ...string) string {
	for _, n := range names {
		switch v := r.values[n].(type) {
		case nil:
		case string:
			return v
		default:
			return fmt.Sprint(v)
		}
	}
	return ""
}

// list is the first of some columns that is there: a list of texts, or a text with a line each.
func (r row) list(names ...string) (out []string) {
	for _, n := range names {
		switch v := r.values[n].(type) {
		case []any:
			for _, x := range v {
				out = append(out, fmt.Sprint(x))
			}
			return out
		case string:
			return strings.Split(v, "\n")
		}
	}
	return nil
}

// need is text, which must be there.
func (r row) need(names ...string) (string, error) {
	if v := r.text(names...); v != "" {
		return v, nil
	}
	return "", fmt.Errorf("no column %s: it has %s", strings.Join(names, " or "), strings.Join(slices.Sorted(maps.Keys(r.values)), ", "))
}

// Card: rows of published files, and the prompts that lmms-eval makes of them.
//
//	vstar         craigwu/vstar_bench, test_questions.jsonl {image, text, category, label, question_id}, pictures
//	              beside; lmms-lab's Parquet with the same columns
//	hrbench       DreamMr/HR-Bench, hr_bench_4k.tsv or .parquet: index, question, answer, category, cycle_category, A to
//	              D, image (base64)
//	mmerealworld  yifanzhang114/MME-RealWorld, .json {Question_id, Image, Text, Answer choices, Ground truth, Category};
//	              lmms-eval's Parquet {index, bytes, question, multi-choice options, answer, category, l2-category}
//	mathvista     AI4Math/MathVista, testmini.json by pid, or .parquet: question, image or decoded_image, choices, unit,
//	              precision, answer, question_type, answer_type, query
//	chartqa       ChartQA, test_human.json and test_augmented.json {imgname, query, label}, pictures in png/; lmms-lab's
//	              Parquet {type, question, answer, image}

var options = regexp.MustCompile(`\([A-D]\)\s*([^()]+)`)

func vstar(r row, n string) (q Question, err error) {
	text, err := r.need("text", "question")
	if err != nil {
		return q, err
	}
	q = Question{ID: or(r.text("question_id"), n), Answer: strings.ToUpper(strings.TrimSpace(r.text("label", "answer"))), Category: r.text("category")}
	q.picture, err = r.image("", "image")
	before, _, many := strings.Cut(text, "(A)")
	if many {
		lines := []string{strings.TrimSpace(before)}
		for i, m := range options.FindAllStringSubmatch(text, 4) {
			choice, _, _ := strings.Cut(m[1], "\nAnswer with the option")
			choice = strings.TrimSpace(choice)
			q.Choices = append(q.Choices, choice)
			lines = append(lines, fmt.Sprintf("%c. %s", 'A'+i, choice))
		}
		text = strings.Join(lines, "\n")
	}
	q.Prompt = text + "\nAnswer with the option's letter from the given choices directly."
	return q, err
}

func hrbench(r row, n string) (q Question, err error) {
	text, err := r.need("question")
	if err != nil {
		return q, err
	}
	q = Question{ID: or(r.text("index"), n), Answer: strings.ToUpper(strings.TrimSpace(r.text("answer"))), Category: r.text("category")}
	if q.picture, err = r.image("", "image"); err != nil {
		return q, err
	}
	lines := []string{strings.TrimSpace(text)}
	for letter := 'A'; letter <= 'Z'; letter++ {
		if choice := r.text(string(letter)); choice != "" {
			q.Choices = append(q.Choices, choice)
			lines = append(lines, fmt.Sprintf("%c. %s", letter, choice))
		}
	}
	q.Prompt = strings.Join(lines, "\n") + "\nAnswer the option letter directly."
	return q, nil
}

func mmeRealWorld(r row, n string) (q Question, err error) {
	text, err := r.need("Text", "question")
	if err != nil {
		return q, err
	}
	q = Question{ID: or(r.text("Question_id", "index"), n), Answer: strings.TrimSpace(r.text("Ground truth", "answer")), Category: r.text("Category", "category")}
	if task := r.text("Task"); task != "" {
		q.Category = task + "/" + q.Category
	}
	q.Choices = r.list("Answer choices", "multi-choice options")
	if len(q.Choices) > 0 && !strings.HasPrefix(q.Choices[0], "(") { // VLMEvalKit's sentence before them
		q.Choices = q.Choices[1:]
	}
	q.picture, err = r.image("", "bytes", "image", "Image")
	q.Prompt = text + " The choices are listed below:\n" + strings.Join(q.Choices, "\n") +
		"\nSelect the best answer to the above multiple-choice question based on the image. Respond with only the letter (A, B, C, D, or E) of the correct option.\nThe best answer is: "
	return q, err
}

// mathVista's prompt is the published query: a hint about the answer's form, the question, its choices.
func mathVista(r row, n string) (q Question, err error) {
	text, err := r.need("query", "question")
	if err != nil {
		return q, err
	}
	q = Question{ID: or(r.text("pid"), n), Prompt: text, Answer: strings.TrimSpace(r.text("answer")), Choices: r.list("choices"), Kind: r.text("answer_type"), Category: r.text("question_type")}
	if p := r.text("precision"); p != "" {
		x, err := strconv.ParseFloat(p, 64)
		if err != nil || x < 0 || x > 20 {
			return q, fmt.Errorf("a precision of %s", p)
		}
		q.Digits = int(x)
	}
	q.picture, err = r.image("", "decoded_image", "image")
	return q, err
}

func chartQA(r row, n string) (q Question, err error) {
	text, err := r.need("query", "question")
	if err != nil {
		return q, err
	}
	answer := r.text("label", "answer")
	if all := r.list("label", "answer"); len(all) > 0 {
		answer = all[0]
	}
	q = Question{ID: or(r.text("index"), n), Prompt: text + "\nAnswer the question with a single word.", Answer: strings.TrimSpace(answer), Category: r.text("type", "split")}
	if r.text("imgname") != "" {
		q.picture, err = r.image("png", "imgname")
	} else {
		q.picture, err = r.image("", "image")
	}
	return q, err
}

func or(text, other string) string {
	if text != "" {
		return text
	}
	return other
}
