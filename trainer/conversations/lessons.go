package conversations

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/sft"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: conversations of a file that are learned from in place of rollouts: rollout.lessons, read by
// a stage whose objective is sft. Tokens and pictures are those of a rollout where the mask is
// "whole" (vision/sft). Rows with more tokens than episode.tokens are left out, and named.

// teacher makes episodes of lessons.
type teacher struct {
	sft.Reader
	processor *vlm.Processor
	system    string // where a row has none
	most      int    // tokens
}

// newTeacher reads what of a model's folder stands before its network.
func newTeacher(e *experiment.Experiment) (*teacher, error) {
	dir, err := assets.Resolve(e.Model.Path)
	if err != nil {
		return nil, err
	}
	t := &teacher{system: e.Episode.System, most: e.Episode.Tokens}
	if t.Tokens, err = tokenizer.Open(dir); err != nil {
		return nil, err
	}
	if t.processor, err = vlm.OpenProcessor(dir); err != nil {
		return nil, err
	}
	if t.Template, err = vlm.OpenTemplate(dir); err != nil {
		return nil, err
	}
	t.Merge = t.processor.Merge
	t.Marks, err = vlm.MarksOf(t.Tokens)
	return t, err
}

// lesson is a row's tokens, and its pictures.
func (t *teacher) lesson(p prompts.Prompt, mask string) (l sft.Lesson, pictures []*vision.Image, err error) {
	row, file, ok := p.Lesson()
	if !ok {
		return l, nil, errors.New("this prompt is no conversation to learn from")
	}
	if pictures, err = p.Pictures(filepath.Dir(file)); err != nil {
		return l, nil, err
	}
	grids := make([]vlm.Grid, len(pictures))
	for i, m := range pictures {
		if grids[i], err = t.processor.Grid(m.Width, m.Height); err != nil {
			return l, nil, fmt.Errorf("picture %d: %w", i+1, err)
		}
	}
	if mask == "whole" {
		l, err = t.whole(row, grids)
	} else {
		l, err = t.turns(row, mask, grids)
	}
	if err == nil && l.Count() == 0 {
		err = errors.New("no token of it is trained")
	}
	return l, pictures, err
}

func (t *teacher) whole(row string, grids []vlm.Grid) (sft.Lesson, error) {
	c, err := sft.ReadConversation(row)
	if err != nil {
		return sft.Lesson{}, err
	}
	if t.system != "" && c.Messages[0].Role != "system" {
		c.Messages = append([]vlm.Message{{Role: "system", Content: vlm.Text(t.system)}}, c.Messages...)
	}
	return t.Whole(c.Messages, vlm.Rendering{Tools: c.Tools}, grids)
}

func (t *teacher) turns(row, style string, grids []vlm.Grid) (sft.Lesson, error) {
	format := sft.OpenAI
	if strings.Contains(row, `"conversations"`) {
		format = sft.ShareGPT
	}
	r, err := sft.ReadRow(row, format)
	if err != nil {
		return sft.Lesson{}, err
	}
	return t.Turns(r, sft.Styles[style], sft.How{}, grids)
}

// A tooLong is a lesson that is left out.
type tooLong struct{ line, tokens int }

// lessonsOf are the lessons of an experiment that fit, file by file, and of each file those that do not.
func lessonsOf(e *experiment.Experiment) (list []prompts.Prompt, long map[string][]tooLong, err error) {
	long = map[string][]tooLong{}
	files := e.Lessons()
	if len(files) == 0 {
		return nil, long, nil
	}
	t, err := newTeacher(e)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		all, lines, err := openLessons(f.File)
		if err != nil {
			return nil, nil, err
		}
		fit := 0
		for i, p := range all {
			l, _, err := t.lesson(p, f.Mask)
			switch {
			case err != nil:
				return nil, nil, fmt.Errorf("%s:%d: %w", f.File, lines[i], err)
			case len(l.IDs) > t.most:
				long[f.File] = append(long[f.File], tooLong{lines[i], len(l.IDs)})
			default:
				list = append(list, p)
				fit++
			}
		}
		if fit == 0 {
			return nil, nil, fmt.Errorf("%s: each of its %d conversations has more than episode.tokens = %d tokens\nhint: raise it, or shorten them", f.File, len(all), t.most)
		}
	}
	return list, long, nil
}

// openLessons reads a file of conversations, one a line, and the numbers of their lines.
func openLessons(name string) (list []prompts.Prompt, lines []int, err error) {
	if kind := strings.ToLower(filepath.Ext(name)); kind != ".jsonl" {
		return nil, nil, fmt.Errorf("%s: conversations to learn from are a .jsonl file, a row a line", name)
	}
	text, err := regular.Read(name, mostLessons)
	if err != nil {
		return nil, nil, err
	}
	for i, line := range bytes.Split(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !utf8.Valid(line) {
			return nil, nil, fmt.Errorf("%s:%d: the row is not UTF-8", name, i+1)
		}
		c, err := sft.ReadConversation(string(line))
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		p, err := prompts.NewLesson(name, string(line), c.Question(), c.Pictures)
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		list, lines = append(list, p), append(lines, i+1)
	}
	if len(list) == 0 {
		return nil, nil, fmt.Errorf("%s: there is no conversation in it", name)
	}
	return list, lines, nil
}

// mostLessons is how many bytes a file of conversations may have.
const mostLessons = 1 << 30

// leftOut says which lessons are too long; "" where none is.
func leftOut(long map[string][]tooLong, most int) string {
	var said []string
	for file, rows := range long {
		var first []string
		for _, r := range rows[:min(len(rows), mostNamed)] {
			first = append(first, fmt.Sprintf("line %d (%d)", r.line, r.tokens))
		}
		if n := len(rows) - mostNamed; n > 0 {
			first = append(first, fmt.Sprintf("and %d more", n))
		}
		said = append(said, fmt.Sprintf("%s: %d conversations have more than episode.tokens = %d tokens, and are left out: %s", file, len(rows), most, strings.Join(first, ", ")))
	}
	slices.Sort(said)
	return strings.Join(said, "\n")
}

// mostNamed is how many rows are named.
const mostNamed = 20

// trainingList is what an experiment trains on: prompts, and lessons behind them.
func trainingList(e *experiment.Experiment) ([]prompts.Prompt, error) {
	list, err := e.Open(e.Rollout.Prompts)
	if err != nil {
		return nil, err
	}
	lessons, _, err := lessonsOf(e)
	return append(list, lessons...), err
}
