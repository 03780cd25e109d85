// Package suites reads published collections of questions about pictures from the user's own files, and scores answers
// by their published rules: V*, HR-Bench, MME-RealWorld, MathVista and ChartQA.
//
//	set, err := suites.Open("vstar", "test_questions.jsonl")
//	q := set.Questions[0]                     // a prompt, pictures, an answer
//	right := set.Right(q, "The answer is B")  // by the suite's rule, without a model that judges
//	r := set.Result(answers)                  // accuracy with its interval, and its dependencies
//
// Start with all, the table of suites. read.go reads rows of JSON, JSON lines, tab-separated values and Parquet, and
// makes questions of them; rules.go judges answers; result.go has the published result.
package suites

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/vision"
)

// A Question is one of a suite's.
type Question struct {
	ID       string
	Prompt   string
	Answer   string   // as the file has it
	Choices  []string // of a multiple choice: their texts, in their letters' order
	Category string
	Cluster  int    // questions of one cluster are the same question in another order
	Kind     string // of mathvista: integer, float, list, text; elsewhere ""
	Digits   int    // of mathvista's floats
	picture  image
}

// Picture opens the question's picture.
func (q Question) Picture() (*vision.Image, error) {
	m, err := q.picture.open()
	if err != nil {
		return nil, fmt.Errorf("question %s: %w", q.ID, err)
	}
	return m, nil
}

// A Set is a suite with a file's questions.
type Set struct {
	Name, File string
	Sum        string // SHA-256 of the file
	Rule       string // by which answers are right, for people
	All        int    // questions in the file, whatever is left of Questions
	Questions  []Question
	kind       suite
}

// suite is one collection.
type suite struct {
	name     string
	rule     string
	question func(row, string) (Question, error)
	right    func(Question, string) bool
}

// all are the suites. Prompts and rules are those of lmms-eval (75571cf), with which the datasets' own scripts agree,
// with two exceptions: HR-Bench and MathVista ask a language model to read an answer out of a reply; here a rule does,
// so that a result is a function of the replies.
func all() []suite {
	return []suite{
		{"vstar", "the letter that the reply chooses (lmms-eval, vstar_bench)", vstar, letter},
		{"hrbench", "the letter that the reply chooses (lmms-eval's rule of vstar_bench; upstream asks a language model). The four orders of a question's options are one question to the interval", hrbench, letter},
		{"mmerealworld", "the first letter of A to E behind the usual beginnings (lmms-eval, mme_realworld)", mmeRealWorld, firstLetter},
		{"mathvista", "the answer read by rule, rounded as the question says, and compared as text; a choice by its letter or the nearest text (lmms-eval, mathvista; upstream asks a language model to read it)", mathVista, mathRight},
		{"chartqa", "within 5 % of a number, or the same text (lmms-eval, chartqa)", chartQA, relaxed},
	}
}

// Names are the suites' names.
func Names() (names []string) {
	for _, s := range all() {
		names = append(names, s.name)
	}
	return names
}

// Open reads a suite's file.
func Open(name, file string) (*Set, error) {
	at := slices.IndexFunc(all(), func(s suite) bool { return s.name == name })
	if at < 0 {
		return nil, fmt.Errorf("suite %q is not known: %s are", name, strings.Join(Names(), ", "))
	}
	kind := all()[at]
	s := &Set{Name: name, File: file, Rule: kind.rule, kind: kind}
	var err error
	if s.Sum, err = sumOf(file); err != nil {
		return nil, err
	}
	clusters := map[string]int{}
	n := 0
	err = eachRow(file, func(r row) error {
		n++
		q, err := kind.question(r, fmt.Sprint(n))
		if err != nil {
			return fmt.Errorf("%s: row %d: %w", file, n, err)
		}
		if q.Answer == "" {
			return fmt.Errorf("%s: row %d has no answer: this part of the suite is judged elsewhere", file, n)
		}
		key := q.clusterKey()
		if _, ok := clusters[key]; !ok {
			clusters[key] = len(clusters)
		}
		q.Cluster = clusters[key]
		s.Questions = append(s.Questions, q)
		return nil
	})
	s.All = n
	if err == nil && n == 0 {
		err = fmt.Errorf("%s has no questions", file)
	}
	return s, err
}

// clusterKey is the same for questions that differ by the order of their options alone.
func (q Question) clusterKey() string {
	options := slices.Sorted(slices.Values(q.Choices))
	first, _, _ := strings.Cut(q.Prompt, "\n")
	return strings.Join(append([]string{first, q.picture.sum()}, options...), "\x00")
}

// Right reports whether a reply is right. The text of an answer tag, if any, is the reply.
func (s *Set) Right(q Question, reply string) bool { return s.kind.right(q, said(reply)) }

func sumOf(file string) (sum string, err error) {
	f, err := regular.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", file, err)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// Pictures are read on demand: a suite of 8K pictures has several times as many bytes as a machine has
// memory. A picture inside its row is found there again by the row's position in the file, and compared with its sum at
// the opening of the suite.

// image is a picture that is read when it is asked for.
type image struct {
	file    string              // the suite's
	name    string              // a file beside it; "": the picture is in its row
	again   func() (row, error) // reads that row anew
	columns []string
	hash    string // SHA-256 of its bytes
}

// image is the first of some columns that has a picture: bytes, base64, or a file's name beside the suite's.
func (r row) image(folder string, names ...string) (image, error) {
	data, name, err := r.picture(names)
	switch {
	case err != nil:
		return image{}, err
	case data != nil:
		return image{file: r.file, again: r.again, columns: names, hash: hashOf(data)}, nil
	}
	return image{file: r.file, name: filepath.Join(folder, name)}, nil
}

// picture is a picture's bytes, or the name of its file.
func (r row) picture(columns []string) (data []byte, name string, err error) {
	for _, n := range columns {
		switch v := r.values[n].(type) {
		case []byte:
			return v, "", nil
		case map[string]any:
			if data, ok := v["bytes"].([]byte); ok && len(data) > 0 {
				return data, "", nil
			}
		case string:
			if len(v) > 512 || strings.HasPrefix(v, "data:") || strings.HasPrefix(v, "iVBOR") || strings.HasPrefix(v, "/9j/") {
				_, after, ok := strings.Cut(v, ";base64,")
				if !ok {
					after = v
				}
				if data, err = base64.StdEncoding.DecodeString(after); err != nil {
					err = fmt.Errorf("column %s: neither base64 nor a file's name: %w", n, err)
				}
				return data, "", err
			}
			if v != "" {
				return nil, v, nil
			}
		}
	}
	return nil, "", fmt.Errorf("no picture in column %s", strings.Join(columns, " or "))
}

// sum tells pictures apart.
func (m image) sum() string {
	if m.again == nil {
		return m.name
	}
	return m.hash
}

func (m image) open() (*vision.Image, error) {
	if m.again != nil {
		r, err := m.again()
		if err != nil {
			return nil, err
		}
		data, _, err := r.picture(m.columns)
		if err != nil || hashOf(data) != m.hash {
			return nil, errors.Join(fmt.Errorf("%s has changed since it was opened: begin again, and leave it alone meanwhile", m.file), err)
		}
		return vision.Decode(data, vision.Limits{})
	}
	all, err := prompts.OpenPictures(filepath.Dir(m.file), []string{m.name})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func hashOf(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// textRow reads a row of a file of texts anew.
func textRow(file string, at stretch, parse func(text []byte) (map[string]any, error)) func() (row, error) {
	return func() (r row, err error) {
		f, err := regular.Open(file)
		if err != nil {
			return r, err
		}
		defer f.Close()
		text := make([]byte, at.to-at.from)
		if _, err := io.ReadFull(io.NewSectionReader(f, at.from, at.to-at.from), text); err != nil {
			return r, fmt.Errorf("reading %s again: %w", file, err)
		}
		if r.values, err = parse(text); err != nil {
			err = fmt.Errorf("reading %s again: %w", file, err)
		}
		return r, err
	}
}

// tableRow reads a row of a Parquet file anew.
func tableRow(file string, n int) func() (row, error) {
	return func() (r row, err error) {
		t, err := prompts.OpenTable(file)
		if err != nil {
			return r, err
		}
		defer t.Close()
		_, values, err := t.Row(n, true)
		r.values = columns(values)
		return r, err
	}
}
