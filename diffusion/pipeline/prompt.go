package pipeline

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Language models as text encoders: they read the prompt in a template, with pictures where the pipeline
// edits some, and no padding.

// A promptForm is the template. The tokens that are dropped are the template's beginning as the
// published tokenizer cuts it; the number is upstream's whatever the tokenizer.
type promptForm struct {
	before, after string
	picture       func(i int) string // the mark of a picture, before the prompt; nil: pictures are not seen
	drop          int
	// read is which states are read of those of all layers, side by side; nil: the last.
	read   func(layers int) []int
	chosen []int // in place of read's: Options.TextLayers
	filled bool  // texts are filled up with padding, which is read, too
}

// text is the encoder's input for a prompt and a number of pictures.
func (f promptForm) text(prompt string, pictures int) string {
	var b strings.Builder
	b.WriteString(f.before)
	for i := range pictures {
		b.WriteString(f.picture(i))
	}
	b.WriteString(prompt + f.after)
	return b.String()
}

// openReader reads the settings of a language model.
func (e *encoder) openReader(f *folder) (most int, err error) {
	c, err := readConfig(f, e.part, vlm.ReadReaderConfig)
	if err != nil {
		return 0, err
	}
	if len(e.form.chosen) > 0 {
		e.form.read = func(int) []int { return e.form.chosen }
	}
	if e.form.read != nil {
		for _, i := range e.form.read(c.Text.Layers) {
			if i < 0 || i > c.Text.Layers {
				return 0, fmt.Errorf("%s: config.json: the states of layer %d are to be read (text_layers), and there are %d layers", e.part, i, c.Text.Layers)
			}
		}
	}
	e.vocabulary, e.marks = c.Text.Vocabulary, vlm.Marks{Picture: c.Picture, Clip: c.Clip}
	sees := e.form.picture != nil
	e.build = func(p *nn.Params) runText {
		e.reader = vlm.NewReader(p, c, sees)
		return nil
	}
	if sees {
		dir, err := f.part("processor")
		if err != nil {
			return 0, err
		}
		if e.eyes, err = vlm.OpenProcessor(dir); err != nil {
			return 0, err
		}
		e.eyes.Arithmetic = vision.Pillow // as upstream's pipelines were recorded
		if p, v := e.eyes, c.Vision; p.Patch != v.Patch || p.Merge != v.Merge || p.Frames != v.Frames {
			return 0, fmt.Errorf("%s: preprocessor_config.json cuts patches of %d pixels and %d frames, merged by %d; text_encoder reads %d, %d and %d", dir, p.Patch, p.Frames, p.Merge, v.Patch, v.Frames, v.Merge)
		}
	}
	return longestPrompt, nil
}

// stretch is the model's input for a prompt, and the end of it that does not fit.
func (e *encoder) stretch(prompt string, g *Given) (s vlm.Stretch, cut string, err error) {
	if g != nil && e.form.picture != nil {
		s.Pictures = g.patches
	}
	if s.IDs, err = e.promptTokens(prompt, len(s.Pictures.Grids)); err != nil {
		return s, "", fmt.Errorf("%s: %w", e.tokenizer, err)
	}
	if most := e.length + e.form.drop; e.form.picture == nil && len(s.IDs) > most {
		cut = e.words.Decode(s.IDs[most:])
		s.IDs = s.IDs[:most]
	}
	if len(s.IDs) <= e.form.drop {
		return s, "", fmt.Errorf("%s: a prompt in its template is %d tokens, and the first %d are the template's: the tokenizer is of another model", e.tokenizer, len(s.IDs), e.form.drop)
	}
	for _, id := range s.IDs {
		if id < 0 || int(id) >= e.vocabulary {
			return s, "", fmt.Errorf("%s makes the token %d, but %s has only %d: the two are of different models", e.tokenizer, id, e.part, e.vocabulary)
		}
	}
	if len(s.Pictures.Grids) > 0 {
		s.IDs, _, err = e.marks.Expand(s.IDs, s.Pictures.Grids, nil, e.eyes.Merge)
	}
	return s, cut, err
}

// promptTokens are a prompt's in its template. Where there is no tokenizer and no number is read, they are as many as
// the longest prompt has.
func (e *encoder) promptTokens(prompt string, pictures int) ([]int32, error) {
	if e.words != nil {
		said, err := e.words.Encode(e.form.text(prompt, pictures))
		return said.IDs, err
	}
	ids := make([]int32, e.form.drop+e.length)
	for i := range pictures {
		ids[e.form.drop+i] = e.marks.Picture
	}
	return ids, nil
}

// readPrompt is the states of a prompt behind the template's beginning.
func (e *encoder) readPrompt(tp *autograd.Tape, prompt string, g *Given) (encoded, error) {
	s, cut, err := e.stretch(prompt, g)
	if err != nil {
		return encoded{}, err
	}
	seen := len(s.IDs)
	for e.form.filled && len(s.IDs) < e.length {
		s.IDs = append(s.IDs, e.pad)
	}
	states, err := e.statesOf(tp, s, seen)
	if err != nil {
		return encoded{}, fmt.Errorf("%s: %w", e.part, err)
	}
	width := states.Dim(-1)
	return encoded{ids: s.IDs, cut: cut, tokens: len(s.IDs) - e.form.drop, width: width, states: states.F32()[e.form.drop*width:]}, nil
}

// statesOf is the states that are read.
func (e *encoder) statesOf(tp *autograd.Tape, s vlm.Stretch, seen int) (*autograd.Value, error) {
	if e.form.read == nil {
		return e.reader.Hidden(tp, s)
	}
	all, err := e.reader.PaddedStates(tp, s.IDs, seen)
	if err != nil {
		return nil, err
	}
	var some []*autograd.Value
	for _, i := range e.form.read(len(all) - 1) {
		some = append(some, all[i])
	}
	return tp.Concat(2, some...), nil
}
