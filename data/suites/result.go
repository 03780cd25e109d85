package suites

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/rewards/eval"
)

// An Answer is a model's reply to a question.
type Answer struct {
	ID       string   `json:"id"`
	Category string   `json:"category,omitempty"`
	Prompt   string   `json:"prompt"`
	Turns    []string `json:"turns"`
	End      string   `json:"end"`
	Truth    string   `json:"truth"`
	Right    bool     `json:"right"`
	Lost     string   `json:"lost,omitempty"` // why there is no answer: a tool outside failed
}

// Reply is the last turn.
func (a Answer) Reply() string {
	if len(a.Turns) == 0 {
		return ""
	}
	return a.Turns[len(a.Turns)-1]
}

// How is all that a result depends on beside the questions.
type How struct {
	Model          string         `json:"model"`
	Weights        string         `json:"weights_sha256"` // of the model's files, and of the trained weights
	Protocol       string         `json:"protocol"`
	Tools          []string       `json:"tools_outside,omitempty"` // servers and programs, by name and place: hashes of weights do not cover their answers
	Limits         map[string]int `json:"limits"`
	Sampling       map[string]any `json:"sampling"`
	System         string         `json:"system,omitempty"`
	Question       string         `json:"around_question,omitempty"`
	InstructionsOf string         `json:"instructions_of,omitempty"` // where system and question were published
	Version        string         `json:"version"`                   // of the program
}

// A Part is the accuracy of one category.
type Part struct {
	Questions int           `json:"questions"`
	Accuracy  eval.Interval `json:"accuracy"`
}

// A Result is a model's score on a suite.
type Result struct {
	Suite     string          `json:"suite"`
	File      string          `json:"file"`
	FileSum   string          `json:"file_sha256"`
	Of        int             `json:"questions_in_file"`
	Questions int             `json:"questions"`
	Clusters  int             `json:"questions_apart"` // that are not the same in another order
	Accuracy  eval.Interval   `json:"accuracy"`
	Parts     map[string]Part `json:"categories,omitempty"`
	Unended   int             `json:"unended"` // conversations that a limit ended
	Lost      int             `json:"lost"`    // that a tool outside ended by failing; they are not right
	Prompt    string          `json:"first_prompt"`
	Prompts   string          `json:"prompts_sha256"`
	Answers   string          `json:"answers_sha256"` // of the replies
	Judge     string          `json:"judge"`
	JudgeSum  string          `json:"judge_sha256"`
	How       How             `json:"how"`
}

// level is of all intervals.
const level = 0.95

// Result judges answers, one a question of Questions and in their order; there may be fewer.
func (s *Set) Result(all []Answer, how How) Result {
	r := Result{Suite: s.Name, File: s.File, FileSum: s.Sum, Of: s.All, Questions: len(all), Parts: map[string]Part{}, Judge: s.Rule, How: how}
	var prompts, said []string
	right, of := map[string][]float64{}, map[string][]int{}
	apart := map[int]bool{}
	for i, a := range all {
		q := s.Questions[i]
		prompts, said = append(prompts, q.Prompt), append(said, strings.Join(a.Turns, "\x00"))
		apart[q.Cluster] = true
		x := 0.0
		if a.Right {
			x = 1
		}
		for _, name := range slices.Compact([]string{"", q.Category}) {
			right[name], of[name] = append(right[name], x), append(of[name], q.Cluster)
		}
		switch {
		case a.Lost != "":
			r.Lost++
		case a.End != "answered":
			r.Unended++
		}
	}
	key := rng.New(1).With("suite")
	for name := range right {
		p := Part{len(right[name]), eval.ShareOf(right[name], of[name], level, key)}
		if name == "" {
			r.Accuracy = p.Accuracy
		} else {
			r.Parts[name] = p
		}
	}
	if len(prompts) > 0 {
		r.Prompt = prompts[0]
	}
	r.Clusters, r.Prompts, r.Answers, r.JudgeSum = len(apart), sum(prompts), sum(said), sum([]string{s.Name, s.Rule})
	return r
}

// sum is SHA-256 of texts.
func sum(texts []string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(texts, "\x01"))))
}

// Card is the result as Markdown, to publish.
func (r Result) Card() string {
	var b strings.Builder
	w := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	w("# %s: %s", r.Suite, r.How.Model)
	w("\n**%.1f %%** of %d questions (95 %%: %.1f to %.1f, over %d questions)", 100*r.Accuracy.Value, r.Questions, 100*r.Accuracy.Low, 100*r.Accuracy.High, r.Clusters)
	if r.Questions < r.Of {
		w("\nThe file has %d questions: this is a part of the suite, its first %d.", r.Of, r.Questions)
	}
	if len(r.Parts) > 0 {
		w("\n| category | questions | right | 95 %% |\n|---|---|---|---|")
		for _, name := range slices.Sorted(maps.Keys(r.Parts)) {
			p := r.Parts[name]
			w("| %s | %d | %.1f %% | %.1f to %.1f |", strings.ReplaceAll(name, "|", "/"), p.Questions, 100*p.Accuracy.Value, 100*p.Accuracy.Low, 100*p.Accuracy.High)
		}
	}
	w("\n| what | |\n|---|---|")
	w("| file | `%s`, SHA-256 `%s` |", r.File, r.FileSum)
	w("| weights | SHA-256 `%s` |", r.How.Weights)
	w("| judge | %s |", r.Judge)
	w("| prompts | SHA-256 `%s` |", r.Prompts)
	w("| answers | SHA-256 `%s` |", r.Answers)
	w("| protocol | %s |", r.How.Protocol)
	if r.How.InstructionsOf != "" {
		w("| told of its tools | as %s |", r.How.InstructionsOf)
	}
	if len(r.How.Tools) > 0 {
		w("| tools outside | %s |", strings.Join(r.How.Tools, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(r.How.Limits)) {
		w("| most %s | %d |", name, r.How.Limits[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.How.Sampling)) {
		w("| %s | %v |", name, r.How.Sampling[name])
	}
	w("| ended by a limit | %d |", r.Unended)
	if r.Lost > 0 {
		w("| lost by a tool outside, counted as not right | %d |", r.Lost)
	}
	w("| program | %s |", r.How.Version)
	w("\nThe first prompt:\n\n```\n%s\n```", strings.ReplaceAll(r.Prompt, "```", "'''"))
	return b.String()
}
