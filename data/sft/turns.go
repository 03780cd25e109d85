package sft

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: LLaMA-Factory's rule (data/template.py, data/processor/supervised.py at ff6d4d1). A
// question with the header of its answer is tokenised by itself, and so is the answer with
// "<|im_end|>" and a newline, which are trained. Its form qwen3_vl thinks: an answer without
// thoughts gets empty ones, tokenised by themselves before it, and trained unless thinking is
// off. With MaskHistory the last answer alone is trained, and thoughts before it are removed.
//
// Held to sft.llamafactory.

// A Style is a form of LLaMA-Factory's.
type Style struct {
	System string // where a row has none
	Thinks bool
}

// Styles are the forms by upstream's names.
var Styles = map[string]Style{
	"qwen2_vl":         {System: "You are a helpful assistant."},
	"qwen3_vl":         {Thinks: true},
	"qwen3_vl_nothink": {},
}

// How are upstream's switches.
type How struct {
	MaskHistory   bool
	TrainOnPrompt bool
	NoThinking    bool // enable_thinking = false
}

const (
	pictureMark = "<image>"
	clipMark    = "<video>"
	picture     = "<|vision_start|><|image_pad|><|vision_end|>"
	thinks      = "<think>\n"
	thought     = "\n</think>\n\n"
)

var thoughts = regexp.MustCompile(`(?s)` + thinks + `(.*?)` + thought)

func unthought(s string) string {
	return strings.TrimLeft(thoughts.ReplaceAllString(s, ""), "\n")
}

// ErrPictures is the error of a row with other marks than pictures.
var ErrPictures = errors.New("other pictures than marks")

// Turns is a lesson by LLaMA-Factory's rule.
func (r Reader) Turns(row Row, s Style, how How, pictures []vlm.Grid) (Lesson, error) {
	if err := row.checkMarks(len(pictures)); err != nil {
		return Lesson{}, err
	}
	turns := slices.Clone(row.turns)
	for i := 1; i < len(turns); i += 2 {
		if s.Thinks && (how.NoThinking || how.MaskHistory && i < len(turns)-1) {
			turns[i].text = unthought(turns[i].text)
		}
	}
	var l Lesson
	for i := 0; i < len(turns); i += 2 {
		last := i == len(turns)-2
		asked, err := r.asked(row, s, turns[i].written(), i == 0)
		if err != nil {
			return l, err
		}
		text, err := turns[i+1].answer()
		if err != nil {
			return l, err
		}
		answer, err := r.coded(text)
		if err != nil {
			return l, err
		}
		if bare := turns[i+1].text; s.Thinks && !(how.MaskHistory && !last) && !strings.Contains(bare, strings.TrimSpace(thinks)) && !strings.Contains(bare, strings.TrimSpace(thought)) {
			empty, err := r.coded(thinks + thought)
			if err != nil {
				return l, err
			}
			if how.NoThinking {
				asked = append(asked, empty...)
			} else {
				answer = append(empty, answer...)
			}
		}
		l.add(asked, how.TrainOnPrompt)
		l.add(answer, !how.MaskHistory || last)
	}
	return r.expanded(l, pictures, nil)
}

// asked returns the tokens of a message to the assistant: the first with the system's text.
func (r Reader) asked(row Row, s Style, text string, first bool) ([]int32, error) {
	if !first {
		return r.coded(text)
	}
	system := row.system
	if system == "" {
		system = s.System
	}
	if len(row.tools) > 0 {
		system += "\n\n" + vlm.ToolsText(row.tools)
	}
	if system == "" {
		return r.coded(text)
	}
	head, err := r.coded("<|im_start|>system\n" + system + "<|im_end|>\n")
	if err != nil {
		return nil, err
	}
	body, err := r.coded(text)
	return append(head, body...), err
}

func (r Reader) coded(text string) ([]int32, error) {
	e, err := r.Tokens.Encode(text)
	return slices.Clone(e.IDs), err
}

func (t said) written() string {
	text := strings.ReplaceAll(t.text, pictureMark, picture)
	if t.by == replyTurn {
		text = "<tool_response>\n" + text + "\n</tool_response>"
	}
	return "<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n"
}

func (t said) answer() (string, error) {
	text := strings.ReplaceAll(t.text, pictureMark, picture)
	if t.by != functionTurn {
		return text + "<|im_end|>\n", nil
	}
	before := thoughts.FindString(text)
	v, err := pytext.OrderedJSON(strings.Replace(text, before, "", 1))
	if err != nil {
		return "", fmt.Errorf("a turn that calls tools: %w", err)
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var calls []string
	for _, e := range list {
		o, _ := e.(pytext.Ordered)
		name, named := o.Values["name"]
		arguments, given := o.Values["arguments"]
		if !named || !given {
			return "", errors.New(`a turn that calls tools: each call needs "name" and "arguments"`)
		}
		calls = append(calls, "<tool_call>\n"+pytext.Dumps(pytext.Ordered{Keys: []string{"name", "arguments"},
			Values: map[string]any{"name": name, "arguments": arguments}})+"\n</tool_call>")
	}
	return before + strings.Join(calls, "\n") + "<|im_end|>\n", nil
}

func (r Row) checkMarks(pictures int) error {
	marks := 0
	for _, t := range r.turns {
		marks += strings.Count(t.text, pictureMark)
	}
	if marks != pictures {
		return fmt.Errorf("%w: %d pictures, and %d times %s in the texts", ErrPictures, pictures, marks, pictureMark)
	}
	return nil
}
