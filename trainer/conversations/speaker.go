package conversations

import (
	"errors"
	"fmt"
	"io"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/edition"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Options say how a folder is opened.
type Options struct {
	Pool  *tensor.Pool
	F32   bool     // products and activations in fp32, otherwise bf16
	Train []string // regular expressions that match the whole name of what is trained
	Draw  *rng.Key // parameters are drawn, not read: all, or those of Blank
	Blank []string // regular expressions that match the whole name of what is drawn; nil: all
	// Weights, where set, take the place of stored parameters of the same names.
	Weights nn.Source
	// Template, where set, names the form of conversations (vlm.TemplateOf).
	Template string
}

// A Speaker is a vision-language model with what stands before its network.
type Speaker struct {
	Dir       string
	Model     *vlm.Model
	Params    *nn.Params
	Tokens    *tokenizer.Tokenizer
	Processor *vlm.Processor
	Template  vlm.Template
	Marks     vlm.Marks
	End       int32   // of a turn
	Banned    []int   // what is never sampled: places of pictures, and what frames turns and them
	Options   Options // it was opened with
	source    io.Closer
}

// Open opens a folder in the hub's layout.
func Open(dir string, o Options) (s *Speaker, err error) {
	s = &Speaker{Dir: dir, Options: o}
	if s.Tokens, err = tokenizer.Open(dir); err != nil {
		return nil, err
	}
	if s.Processor, err = vlm.OpenProcessor(dir); err != nil {
		return nil, err
	}
	if s.Template, err = vlm.TemplateOf(dir, o.Template); err != nil {
		return nil, err
	}
	if s.Marks, err = vlm.MarksOf(s.Tokens); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if s.End, err = s.special("<|im_end|>"); err != nil {
		return nil, err
	}
	for _, name := range []string{"<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"} {
		id, err := s.special(name)
		if err != nil {
			return nil, err
		}
		s.Banned = append(s.Banned, int(id))
	}
	c, err := vlm.ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Vision.Patch != s.Processor.Patch || c.Vision.Merge != s.Processor.Merge || c.Vision.Frames != s.Processor.Frames:
		return nil, fmt.Errorf("%s: patches of config.json and of preprocessor_config.json differ", dir)
	case c.Picture != s.Marks.Picture || c.Clip != s.Marks.Clip:
		return nil, fmt.Errorf("%s: places of pictures are tokens %d and %d in config.json, and %d and %d in the tokenizer", dir, c.Picture, c.Clip, s.Marks.Picture, s.Marks.Clip)
	}
	for id := s.Tokens.Size(); id < c.Text.Vocabulary; id++ { // rows that no text has
		s.Banned = append(s.Banned, id)
	}
	return s, s.load(c)
}

func (s *Speaker) special(name string) (int32, error) {
	id, ok := s.Tokens.ID(name)
	if !ok {
		return 0, fmt.Errorf("%s: the tokenizer has no %s: it is not a Qwen-VL model's", s.Dir, name)
	}
	return id, nil
}

func (s *Speaker) load(c vlm.Config) error {
	o := nn.Options{Pool: s.Options.Pool, Math: s.math(), Train: s.Options.Train, Blank: s.Options.Blank}
	if s.Options.Draw != nil {
		o.Key = *s.Options.Draw
	}
	if s.Options.Draw == nil || len(o.Blank) > 0 {
		files, err := safetensors.OpenFolder(s.Dir)
		if err != nil {
			return err
		}
		o.Source, s.source = files, files
		if s.Options.Weights != nil {
			o.Source = edition.Over(files, s.Options.Weights)
		}
	}
	var err error
	if s.Params, err = nn.New(o); err != nil {
		return errors.Join(err, s.Close())
	}
	s.Model = vlm.New(s.Params, c)
	if err := s.Params.Check(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", s.Dir, err), s.Close())
	}
	return nil
}

// Close gives all memory back.
func (s *Speaker) Close() error {
	if s.Params != nil {
		s.Params.Free()
	}
	if s.source != nil {
		return s.source.Close()
	}
	return nil
}

func (s *Speaker) math() kernels.Math {
	if s.Options.F32 {
		return kernels.MathF32
	}
	return kernels.MathBF16
}

// arithmetic is what the folder was opened for.
func (s *Speaker) arithmetic(train bool) autograd.Options {
	o := autograd.Options{DType: kernels.BF16, Math: s.math(), Train: train}
	if s.Options.F32 {
		o.DType = kernels.F32
	}
	return o
}

// Tape computes as the folder was opened.
func (s *Speaker) Tape(train bool) *autograd.Tape {
	return autograd.New(s.Options.Pool, s.arithmetic(train))
}
