// Package lessons reads demonstrations of files: conversations to imitate, and answers that somebody judged.
//
// a Reader turns rows into tokens with their loss mask. file.go reads the files, counts.go keeps
// how many tokens rows have, preferences.go has judged answers.
package lessons

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/data/sft"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: conversations of a file that are learned from in place of rollouts: rollout.lessons, read by a stage whose
// objective is sft. Tokens and pictures are those of a rollout where the mask is "whole" (data/sft). Rows with more
// tokens than episode.tokens are left out, and named. Every row is counted once: the counts are kept beside other
// data that may be computed again (counts.go).

// Reader makes episodes of lessons.
type Reader struct {
	sft.Reader
	dir          string // the model's folder
	processor    *vlm.Processor
	vlm          *chat.VLM // tokenizer, template and processor alone
	clips        experiment.Clips
	instructions tools.Instructions // where a row has none
	maxTokens    int                // tokens
	open         map[string]*file
}

// NewReader reads a model's folder without its network.
func NewReader(e *experiment.Experiment) (t *Reader, err error) {
	t = &Reader{maxTokens: e.Episode.Tokens, open: map[string]*file{}}
	if t.instructions, err = e.Episode.Instructions(e.Model.Path); err != nil {
		return nil, err
	}
	if t.dir, err = assets.Resolve(e.Model.Path); err != nil {
		return nil, err
	}
	t.clips = config.Filled(e.Episode.Clips)
	if t.Tokens, err = tokenizer.Open(t.dir); err != nil {
		return nil, err
	}
	if t.processor, err = vlm.OpenProcessor(t.dir); err != nil {
		return nil, err
	}
	if t.Template, err = vlm.TemplateOf(t.dir, e.Model.Template); err != nil {
		return nil, err
	}
	t.Merge = t.processor.Merge
	c, err := vlm.ReadConfig(t.dir)
	if err != nil {
		return nil, err
	}
	t.vlm = &chat.VLM{Dir: t.dir, Processor: t.processor, Model: &vlm.Model{Config: c}}
	t.Marks, err = vlm.MarksOf(t.Tokens)
	return t, err
}

// Close closes the files that lessons stand in.
func (t *Reader) Close() error {
	var errs []error
	for _, f := range t.open {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// file opens a file of lessons, once.
func (t *Reader) file(name string) (*file, error) {
	if f := t.open[name]; f != nil {
		return f, nil
	}
	f, err := openFile(name)
	if err == nil {
		t.open[name] = f
	}
	return f, err
}

// Lesson is a prompt's tokens, and its media.
func (t *Reader) Lesson(p prompts.Prompt, mask string) (l sft.Lesson, at Media, err error) {
	row, file, err := t.Row(p)
	if err != nil {
		return l, at, err
	}
	return t.read(row, file, mask)
}

// Row is a prompt's row, and the file that it stands in.
func (t *Reader) Row(p prompts.Prompt) (row, file string, err error) {
	row, file, ok := p.Lesson()
	if !ok {
		return "", "", errors.New("this prompt is no conversation to learn from")
	}
	at, sum, ok := p.LessonAt()
	if !ok {
		return row, file, nil
	}
	f, err := t.file(file)
	if err != nil {
		return "", "", err
	}
	if row, err = f.row(at); err == nil && sumOf(row) != sum {
		err = fmt.Errorf("%s: row %d has changed since the run was begun\nhint: put the file back", file, at+1)
	}
	return row, file, err
}

// read is a row's tokens, and its media.
func (t *Reader) read(row, file, mask string) (l sft.Lesson, at Media, err error) {
	c, err := sft.ReadConversation(row)
	if err != nil {
		return l, at, err
	}
	if at, err = t.media(file, c); err != nil {
		return l, at, err
	}
	switch {
	case mask == "whole":
		l, err = t.whole(c, at)
	case at.Videos != nil:
		err = fmt.Errorf("it shows a clip, and the mask %q knows pictures alone\nhint: rollout.lessons_mask = \"whole\"", mask)
	default:
		l, err = t.turns(row, mask, at.grids)
	}
	if err == nil && l.Count() == 0 {
		err = errors.New("no token of it is trained")
	}
	return l, at, err
}

// Media are a conversation's pictures and clips, pictures with their cuts into patches.
type Media struct {
	Pictures []*vision.Image
	grids    []vlm.Grid
	Videos   *chat.Videos // nil: it shows no clip
}

func (t *Reader) media(file string, c sft.Conversation) (at Media, err error) {
	dir := filepath.Dir(file)
	if at.Pictures, err = prompts.OpenPictures(dir, c.Pictures); err != nil {
		return at, err
	}
	at.grids = make([]vlm.Grid, len(at.Pictures))
	for i, m := range at.Pictures {
		if at.grids[i], err = t.processor.Grid(m.Width, m.Height); err != nil {
			return at, fmt.Errorf("picture %d: %w", i+1, err)
		}
	}
	clips, err := prompts.OpenClips(dir, c.Clips)
	if err == nil {
		at.Videos, err = t.vlm.LoadVideos(clips, t.clips, nil)
	}
	return at, err
}

func (t *Reader) whole(c sft.Conversation, at Media) (sft.Lesson, error) {
	c.Messages = chat.Instruct(t.instructions, c.Messages, len(c.Tools) > 0 && t.Template.WritesTools(), at.Pictures)
	messages, err := at.Videos.WriteTimes(c.Messages)
	if err != nil {
		return sft.Lesson{}, err
	}
	return t.Whole(messages, vlm.Rendering{Tools: c.Tools}, at.grids, at.Videos.Grids())
}

func (t *Reader) turns(row, style string, grids []vlm.Grid) (sft.Lesson, error) {
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

// List are the lessons of an experiment that fit, file by file, and of each file those that do not.
func List(e *experiment.Experiment) (list []prompts.Prompt, long map[string][]tooLong, err error) {
	long = map[string][]tooLong{}
	files := e.Lessons()
	if len(files) == 0 {
		return nil, long, nil
	}
	t, err := NewReader(e)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	for _, f := range files {
		some, err := t.fitting(f, long)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, some...)
	}
	return list, long, nil
}

// fitting are a file's lessons that fit; those that do not go into long.
func (t *Reader) fitting(l experiment.Lessons, long map[string][]tooLong) (list []prompts.Prompt, err error) {
	f, err := t.file(l.File)
	if err != nil {
		return nil, err
	}
	counts, err := t.counts(f, l)
	if err != nil {
		return nil, err
	}
	for i, c := range counts {
		if c.Tokens > t.maxTokens {
			long[l.File] = append(long[l.File], tooLong{c.Line, c.Tokens})
			continue
		}
		p, err := f.prompt(i, c, l.Answers > 0)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	switch {
	case len(counts) == 0:
		return nil, fmt.Errorf("%s: there is no conversation in it", l.File)
	case len(list) == 0:
		return nil, fmt.Errorf("%s: each of its %d conversations has more than episode.tokens = %d tokens\nhint: raise it, or shorten them", l.File, len(counts), t.maxTokens)
	}
	return list, nil
}

// LeftOut says which lessons are too long; "" where none is.
func LeftOut(long map[string][]tooLong, most int) string {
	var said []string
	for file, rows := range long {
		var first []string
		for _, r := range rows[:min(len(rows), maxNamed)] {
			first = append(first, fmt.Sprintf("line %d (%d)", r.line, r.tokens))
		}
		if n := len(rows) - maxNamed; n > 0 {
			first = append(first, fmt.Sprintf("and %d more", n))
		}
		said = append(said, fmt.Sprintf("%s: %d conversations have more than episode.tokens = %d tokens, and are left out: %s", file, len(rows), most, strings.Join(first, ", ")))
	}
	slices.Sort(said)
	return strings.Join(said, "\n")
}

// maxNamed is how many rows are named.
const maxNamed = 20
