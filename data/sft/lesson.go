package sft

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// A Lesson is a conversation to learn from: a token a merged cell of pictures, and which tokens
// are trained.
type Lesson struct {
	IDs     []int32
	Trained []bool
}

// add appends tokens that are all trained, or all not.
func (l *Lesson) add(ids []int32, trained bool) {
	l.IDs = append(l.IDs, ids...)
	for range ids {
		l.Trained = append(l.Trained, trained)
	}
}

// Labels are the trained tokens, and -100 for the others, as upstream has them.
func (l Lesson) Labels() []int32 {
	labels := make([]int32, len(l.IDs))
	for i, id := range l.IDs {
		if labels[i] = -100; l.Trained[i] {
			labels[i] = id
		}
	}
	return labels
}

// Count is how many tokens are trained. The first has no token before it that could say it.
func (l Lesson) Count() int {
	n := 0
	for i, on := range l.Trained {
		if on && i > 0 {
			n++
		}
	}
	return n
}

// A Reader makes lessons of conversations whose pictures have been cut into patches.
type Reader struct {
	Tokens   *tokenizer.Tokenizer
	Template vlm.Template
	Marks    vlm.Marks
	Merge    int // patches of a token's side
}

// expanded has a token for each merged cell of the pictures and of the clips.
func (r Reader) expanded(l Lesson, pictures, clips []vlm.Grid) (Lesson, error) {
	ids, _, err := r.Marks.Expand(l.IDs, pictures, clips, r.Merge)
	if err != nil {
		return Lesson{}, err
	}
	trained := make([]bool, 0, len(ids))
	for i, id := range l.IDs {
		n := 1
		switch id {
		case r.Marks.Picture:
			n, pictures = pictures[0].Tokens(r.Merge), pictures[1:]
		case r.Marks.Clip:
			n, clips = clips[0].Tokens(r.Merge), clips[1:]
		}
		for range n {
			trained = append(trained, l.Trained[i])
		}
	}
	return Lesson{ids, trained}, nil
}

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

// Card: TRL's rule (its training templates with transformers' return_assistant_tokens_mask). The
// conversation is rendered and tokenised as a whole; an answer reaches from the newline behind
// "<|im_start|>assistant" to the one behind "<|im_end|>", calls of tools among it, and a token
// that touches an answer is trained, also where it begins before it. TRL at f2cd577 refuses the
// rule for vision models; its templates for text are these.
//
// The invariant: tokens are those of vlm's Render and Encode, so those of a rollout. Held to
// sft.tokens.

// Whole is a lesson by TRL's rule. Clips, which TRL has none of, are as in a rollout: a grid for each mark.
func (r Reader) Whole(messages []vlm.Message, how vlm.Rendering, pictures, clips []vlm.Grid) (Lesson, error) {
	text, spans, err := r.Template.Marked(messages, how)
	if err != nil {
		return Lesson{}, err
	}
	ids, ends, err := r.Tokens.Ends(text)
	if err != nil {
		return Lesson{}, err
	}
	l := Lesson{IDs: ids, Trained: make([]bool, len(ids))}
	for _, s := range spans {
		from, to := len(r.Tokens.Normalized(text[:s.From])), len(r.Tokens.Normalized(text[:s.To]))
		begin := 0
		for i, end := range ends {
			l.Trained[i] = l.Trained[i] || begin < to && end > from
			begin = end
		}
	}
	return r.expanded(l, pictures, clips)
}
