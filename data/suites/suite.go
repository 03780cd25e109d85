package suites

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

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
