// Package chat has a vision-language model with all that lies before its network: tokenizer, processor of pictures and
// videos, and template of conversations.
//
// Open reads a folder, Read turns a text with pictures into the network's input. prompt.go has an episode's prompt,
// videos.go its videos, newtokens.go new tokens of a vocabulary, folder.go plan's checks of a folder.
package chat

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/edition"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Options say how a folder is opened.
type Options struct {
	Pool  *tensor.Pool
	F32   bool     // products and activations in fp32, otherwise bf16
	Train []string // regular expressions that match the whole name of trained parameters
	Draw  *rng.Key // parameters are drawn, not read: all, or those of Blank
	Blank []string // regular expressions that match the whole name of parameters that are drawn; nil: all
	// Weights, where set, take the place of stored parameters of the same names.
	Weights nn.Source
	// Home is where frozen matrices lie while no product reads them, and Stock those of homes that devices share.
	Home  nn.Home
	Stock *nn.Stock
	// Quantize is the form that matrices are compressed to as they are loaded (quant.Kinds); "": none.
	Quantize string
	// Template, where set, names the form of conversations (vlm.TemplateOf).
	Template string
}

// A VLM is a vision-language model with its tokenizer, template and processor.
type VLM struct {
	Dir       string
	Model     *vlm.Model
	Params    *nn.Params
	Tokens    *tokenizer.Tokenizer
	Processor *vlm.Processor
	Template  vlm.Template
	Marks     vlm.Marks
	End       int32   // of a turn
	Banned    []int   // never sampled: places of pictures, and marks of turns
	Options   Options // it was opened with
	source    io.Closer
	resized   resized
}

// Open opens a folder in the hub's layout.
func Open(dir string, o Options) (s *VLM, err error) {
	s = &VLM{Dir: dir, Options: o}
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

func (s *VLM) special(name string) (int32, error) {
	id, ok := s.Tokens.ID(name)
	if !ok {
		return 0, fmt.Errorf("%s: the tokenizer has no %s: it is not a Qwen-VL model's", s.Dir, name)
	}
	return id, nil
}

func (s *VLM) load(c vlm.Config) error {
	o := nn.Options{Pool: s.Options.Pool, Math: s.math(), Train: s.Options.Train, Blank: s.Options.Blank, Home: s.Options.Home, Stock: s.Options.Stock}
	if s.Options.Draw != nil {
		o.Key = *s.Options.Draw
	}
	if s.Options.Draw == nil || len(o.Blank) > 0 {
		files, err := quant.OpenFolder(s.Dir)
		if err != nil {
			return err
		}
		s.source = files
		if o.Source, err = quant.Quantize(files, s.Options.Quantize, s.Dir); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", s.Dir, err), s.Close())
		}
		if s.Options.Weights != nil {
			o.Source = edition.Over(o.Source, s.Options.Weights)
		} else {
			o.Called = s.Dir + " " + s.Options.Quantize
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
func (s *VLM) Close() error {
	if s.Params != nil {
		s.Params.Free()
	}
	if s.source != nil {
		return s.source.Close()
	}
	return nil
}

func (s *VLM) math() kernels.Math {
	if s.Options.F32 {
		return kernels.MathF32
	}
	return kernels.MathBF16
}

// Arithmetic is the arithmetic that the folder was opened with.
func (s *VLM) Arithmetic(train bool) autograd.Options {
	o := autograd.Options{DType: kernels.BF16, Math: s.math(), Train: train}
	if s.Options.F32 {
		o.DType = kernels.F32
	}
	return o
}

// Tape computes as the folder was opened.
func (s *VLM) Tape(train bool) *autograd.Tape {
	return autograd.New(s.Options.Pool, s.Arithmetic(train))
}

// Read is a text with one <|image_pad|> a picture as the network reads it, and its tokens with one place a picture.
// Invalid UTF-8, which a tool may have read somewhere, becomes U+FFFD.
func (k *VLM) Read(text string, pictures ...*vision.Image) (s vlm.Stretch, engine []int32, err error) {
	return k.ReadPrompt(text, nil, pictures...)
}

// ReadPrompt is Read of a text with clips, too.
func (k *VLM) ReadPrompt(text string, clips *Videos, pictures ...*vision.Image) (s vlm.Stretch, engine []int32, err error) {
	if text, err = clips.MarkTimes(text); err != nil {
		return s, nil, err
	}
	e, err := k.Tokens.Encode(strings.ToValidUTF8(text, "\ufffd"))
	if err != nil {
		return s, nil, err
	}
	engine = e.IDs
	if s.Pictures, err = k.Patches(pictures); err != nil {
		return s, nil, err
	}
	s.IDs, _, err = k.Marks.Expand(engine, s.Pictures.Grids, clips.AddTo(&s), k.Processor.Merge)
	return s, engine, err
}

// Patches are pictures, cut up one after another.
func (k *VLM) Patches(pictures []*vision.Image) (all vlm.Patches, err error) {
	for i, m := range pictures {
		p, err := k.Processor.ApplyResized(k.resize, m.Raster())
		if err != nil {
			return all, fmt.Errorf("picture %d: %w", i+1, err)
		}
		all.Values, all.Grids = append(all.Values, p.Values...), append(all.Grids, p.Grids...)
	}
	return all, nil
}

// Joined is a stretch with another behind it.
func Joined(a, b vlm.Stretch) vlm.Stretch {
	a.IDs = append(a.IDs[:len(a.IDs):len(a.IDs)], b.IDs...)
	a.Pictures.Values = append(a.Pictures.Values[:len(a.Pictures.Values):len(a.Pictures.Values)], b.Pictures.Values...)
	a.Pictures.Grids = append(a.Pictures.Grids[:len(a.Pictures.Grids):len(a.Pictures.Grids)], b.Pictures.Grids...)
	if len(b.Clips.Grids) > 0 {
		a.Clips.Values = append(a.Clips.Values[:len(a.Clips.Values):len(a.Clips.Values)], b.Clips.Values...)
		a.Clips.Grids = append(a.Clips.Grids[:len(a.Clips.Grids):len(a.Clips.Grids)], b.Clips.Grids...)
		a.Seconds = append(a.Seconds[:len(a.Seconds):len(a.Seconds)], b.Seconds...)
	}
	return a
}

// Scores are log p of every token behind those before it, 0 of the first.
func (k *VLM) Scores(ids []int32, pictures []*vision.Image, temperature float64) ([]float64, error) {
	s := vlm.Stretch{IDs: ids}
	var err error
	if s.Pictures, err = k.Patches(pictures); err != nil {
		return nil, err
	}
	tp := k.Tape(false)
	defer tp.Reset()
	hidden, err := k.Model.Hidden(tp, s)
	if err != nil {
		return nil, err
	}
	before := make([]int32, len(ids)-1)
	for i := range before {
		before[i] = int32(i)
	}
	out := []float64{0}
	for _, x := range k.Model.LogProbs(tp, hidden, before, ids[1:], float32(temperature)).F32() {
		out = append(out, float64(x))
	}
	return out, nil
}

// CheckAlike reports differences between two models' tokens or pictures.
func (s *VLM) CheckAlike(other *VLM) error {
	differ := func(what string) error {
		return fmt.Errorf("%s has other %s than %s\nhint: a teacher is asked about tokens as they were drawn: it must be of the model's family, with its tokenizer and its processor", other.Dir, what, s.Dir)
	}
	for id := range max(s.Tokens.Size(), other.Tokens.Size()) {
		if s.Tokens.Decode([]int32{int32(id)}) != other.Tokens.Decode([]int32{int32(id)}) {
			return differ(fmt.Sprintf("tokens (%d is %q, not %q)", id, other.Tokens.Decode([]int32{int32(id)}), s.Tokens.Decode([]int32{int32(id)})))
		}
	}
	switch {
	case s.Marks != other.Marks:
		return differ("marks of pictures")
	case !reflect.DeepEqual(s.Processor, other.Processor):
		return differ("sizes or patches of pictures")
	}
	return nil
}
