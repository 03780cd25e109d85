package pipeline

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/t5"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// encoderPart names a pipeline's text encoder, and the part of its output that is read.
type encoderPart struct {
	part, tokenizer string
	kind            encoderKind
	length          int        // tokens; 0: by the tokenizer's settings
	lengthOf        string     // whose settings: another tokenizer's
	form            promptForm // of language models
}

// encoderKind is the part of an encoder's output that is read.
type encoderKind int

const (
	clipStates    encoderKind = iota // CLIP's last states, after the final norm
	clipPooled                       // CLIP's state at the end of the text
	clipBefore                       // CLIP's states before the last layer
	clipProjected                    // these, and the projection
	t5States                         // T5's last states
	umt5States                       // the same, zeros for padding, which the encoder does not see
	promptStates                     // a language model's last states of a prompt in its template (prompt.go)
)

// encoder is a text encoder that was understood; its weights come and go.
type encoder struct {
	encoderPart
	words      *tokenizer.Tokenizer
	vocabulary int
	pad        int32
	build      func(p *nn.Params) runText
	network    *network
	run        runText

	// Of language models.
	reader *vlm.Model
	eyes   *vlm.Processor // nil: it sees no pictures
	marks  vlm.Marks
}

// runText encodes texts of one length: states [B, S, W], pooled [B, P] or nil.
// seen are their lengths without padding.
type runText func(tp *autograd.Tape, ids [][]int32, seen []int32) (states, pooled *autograd.Value)

// encoded is an encoder's output for one text.
type encoded struct {
	ids           []int32
	cut           string // the end of the text, which was not read
	tokens, width int
	states        []float32
	pooled        []float32
}

// row is a token's states.
func (e encoded) row(t int) []float32 { return e.states[t*e.width : (t+1)*e.width] }

// text is the states as a network's input.
func (e encoded) text() *Text { return &Text{States: e.states, Tokens: e.tokens, Width: e.width} }

// open reads an encoder's settings and its tokenizer.
func (e encoderPart) open(f *folder) (*encoder, error) {
	out := &encoder{encoderPart: e}
	settings, err := out.openWords(f)
	if err != nil {
		return nil, err
	}
	most := 1 << 16
	switch {
	case e.kind == promptStates:
		most, err = out.openReader(f)
	case e.ofT5():
		most, err = out.openT5(f)
	default:
		most, err = out.openCLIP(f)
	}
	if err != nil {
		return nil, err
	}
	if e.length == 0 {
		if e.lengthOf != "" {
			if settings, err = f.tokenizerSettings(e.lengthOf); err != nil {
				return nil, err
			}
		}
		out.length = most
		if n := settings.Length; n >= 1 && n < float64(most) {
			out.length = int(n)
		}
	}
	if out.length < 1 || out.length > most {
		return nil, fmt.Errorf("%s: a text of %d tokens: 1 to %d are possible", e.part, out.length, most)
	}
	return out, f.headers(e.part)
}

// openWords opens the tokenizer and reads its settings. It may be absent where weights may.
func (e *encoder) openWords(f *folder) (settings tokenizerSettings, err error) {
	if _, err := os.Stat(filepath.Join(f.dir, e.tokenizer)); f.bare && errors.Is(err, fs.ErrNotExist) {
		return settings, nil
	}
	dir, err := f.part(e.tokenizer)
	if err != nil {
		return settings, err
	}
	e.words, err = tokenizer.Open(dir)
	if f.bare && errors.Is(err, fs.ErrNotExist) {
		return readTokenizerSettings(dir)
	}
	if err != nil {
		return settings, err
	}
	if settings, err = readTokenizerSettings(dir); err != nil {
		return settings, err
	}
	e.pad, err = settings.padID(dir, e.words)
	return settings, err
}

// longest is more tokens than upstream lets T5 read.
const longest = 512

// ofT5 reports whether the encoder is a T5.
func (e encoderPart) ofT5() bool { return e.kind == t5States || e.kind == umt5States }

func (e *encoder) openT5(f *folder) (most int, err error) {
	c, err := readConfig(f, e.part, t5.ReadConfig)
	e.vocabulary = c.Vocabulary
	e.build = func(p *nn.Params) runText {
		m := t5.New(p, c)
		return func(tp *autograd.Tape, ids [][]int32, seen []int32) (*autograd.Value, *autograd.Value) {
			if e.kind == t5States { // as upstream has it, padding is seen
				seen = nil
			}
			return m.Forward(tp, ids, seen), nil
		}
	}
	return longest, err
}

func (e *encoder) openCLIP(f *folder) (most int, err error) {
	c, err := readConfig(f, e.part, clip.ReadTextConfig)
	e.vocabulary = c.Vocabulary
	e.build = func(p *nn.Params) runText {
		m := clip.NewText(p, c, e.kind == clipProjected)
		return func(tp *autograd.Tape, ids [][]int32, _ []int32) (*autograd.Value, *autograd.Value) {
			out := m.Forward(tp, ids)
			switch e.kind {
			case clipProjected:
				return out.Before, out.Projected
			case clipBefore:
				return out.Before, nil
			case clipPooled:
				return nil, out.Pooled
			}
			return out.Last, nil
		}
	}
	return c.Positions, err
}

// encode runs an encoder over texts, and gives each to take. Its weights stay where Memory.KeepEncoders says so.
func (x *texts) encode(ctx context.Context, e *encoder, of []About, take func(i int, said encoded) error) error {
	if e.network == nil {
		n, err := x.load(e.part, nn.Options{Math: x.Precision.math(), Home: x.Memory.encoders(), Ring: x.ring()}, nil, func(params *nn.Params) { e.run = e.build(params) })
		if err != nil {
			return err
		}
		e.network = n
	}
	tp := x.tape(x.Precision)
	defer tp.Reset()
	for i, a := range of {
		if err := ctx.Err(); err != nil {
			return err
		}
		said, err := e.read(tp, a)
		if err == nil {
			err = take(i, said)
		}
		if err != nil {
			return err
		}
		tp.Reset()
	}
	if x.Memory.KeepEncoders {
		return nil
	}
	if err := e.free(); err != nil {
		return err
	}
	x.Pool.Trim()
	return nil
}

// read returns the encoder's output for a text.
func (e *encoder) read(tp *autograd.Tape, a About) (out encoded, err error) {
	if e.kind == promptStates {
		return e.readPrompt(tp, a.Prompt, a.Given)
	}
	ids, seen, cut, err := e.tokens(a.Prompt)
	if err != nil {
		return out, err
	}
	states, pooled := e.run(tp, [][]int32{ids}, []int32{int32(seen)})
	out = encoded{ids: ids, cut: cut, tokens: e.length}
	if states != nil {
		out.states, out.width = states.F32(), states.Dim(-1)
		if e.kind == umt5States {
			clear(out.states[seen*out.width:])
		}
	}
	if pooled != nil {
		out.pooled = pooled.F32()
	}
	return out, nil
}

// free lets the weights go.
func (e *encoder) free() error {
	err := e.network.close()
	e.network, e.run, e.reader = nil, nil, nil
	return err
}

// FreeEncoders lets the text encoders' weights go. Encoded texts stay.
func (x *texts) FreeEncoders() error {
	var errs []error
	for _, e := range x.encoders {
		errs = append(errs, e.free())
	}
	if x.Pool != nil {
		x.Pool.Trim()
	}
	return errors.Join(errs...)
}

// EncoderBytes is the size of the encoders' files.
func (x *texts) EncoderBytes() (bytes int64) {
	for _, e := range x.encoders {
		if src := x.folder.inFile(e.part); src != nil {
			bytes += src.Bytes()
			continue
		}
		dir, err := x.folder.part(e.part)
		if err != nil {
			continue
		}
		if x.folder.bare && noWeights(dir) {
			bytes += x.absentBytes(e)
			continue
		}
		all, err := files(dir)
		if err != nil {
			continue
		}
		gguf, _ := soleGGUF(dir) // a mistake is reported where the encoder is opened
		for _, f := range all {
			if strings.HasSuffix(f.Name(), ".safetensors") || f.Name() == filepath.Base(gguf) {
				bytes += f.Size()
			}
		}
	}
	return bytes
}

// absentBytes is the size of a missing encoder's file.
func (x *texts) absentBytes(e *encoder) (bytes int64) {
	n, err := x.load(e.part, nn.Options{Math: x.Precision.math(), Home: x.Memory.encoders(), Ring: x.ring()}, nil, func(params *nn.Params) { e.build(params) })
	if err != nil {
		return 0
	}
	for _, shape := range n.params.Requested() {
		size := int64(2)
		for _, d := range shape {
			size *= int64(d)
		}
		bytes += size
	}
	if err := n.close(); err != nil {
		return 0
	}
	x.Pool.Trim()
	return bytes
}

// tokenizerSettings has the settings of tokenizer_config.json and special_tokens_map.json.
type tokenizerSettings struct {
	Length float64   `json:"model_max_length"` // some have 1e30: none
	Pad    tokenText `json:"pad_token"`
}

// tokenText is a token's text, or an object that has it.
type tokenText string

// UnmarshalJSON reads both forms.
func (t *tokenText) UnmarshalJSON(b []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	if len(b) > 0 && b[0] == '{' {
		err := hub.Decode("pad_token", b, &object)
		*t = tokenText(object.Content)
		return err
	}
	return hub.Decode("pad_token", b, (*string)(t))
}

func readTokenizerSettings(dir string) (tokenizerSettings, error) {
	var s tokenizerSettings
	for _, name := range []string{"special_tokens_map.json", "tokenizer_config.json"} {
		if err := hub.JSON(filepath.Join(dir, name), &s); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	return s, nil
}

// tokenizerSettings are those of a part.
func (f *folder) tokenizerSettings(part string) (s tokenizerSettings, err error) {
	dir, err := f.part(part)
	if f.bare && err != nil {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	return readTokenizerSettings(dir)
}

func (s tokenizerSettings) padID(dir string, t *tokenizer.Tokenizer) (int32, error) {
	for _, token := range []string{string(s.Pad), "<|endoftext|>", "<pad>"} {
		if id, ok := t.ID(token); ok && token != "" {
			return id, nil
		}
		if token != "" && token == string(s.Pad) {
			return 0, fmt.Errorf("%s: the pad_token %q is not in the vocabulary", dir, token)
		}
	}
	return 0, fmt.Errorf("%s: no pad_token is named in tokenizer_config.json or special_tokens_map.json", dir)
}

// cleaned is a prompt as Wan's pipelines read it: entities of HTML are letters, twice, and blanks are
// single spaces.
func cleaned(text string) string {
	return strings.Join(strings.Fields(html.UnescapeString(html.UnescapeString(text))), " ")
}

// tokens is a text's ids, their number without padding, and the end that does not fit.
func (e *encoder) tokens(text string) (ids []int32, seen int, cut string, err error) {
	if e.words == nil {
		return make([]int32, e.length), e.length, "", nil
	}
	if e.kind == umt5States {
		text = cleaned(text)
	}
	if ids, seen, err = e.words.Fixed(text, e.length, e.pad); err != nil {
		return nil, 0, "", fmt.Errorf("%s: %w", e.tokenizer, err)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= e.vocabulary {
			return nil, 0, "", fmt.Errorf("%s makes the token %d, but %s has only %d: the two are of different models", e.tokenizer, id, e.part, e.vocabulary)
		}
	}
	body, err := e.words.Encode(text)
	if err != nil {
		return nil, 0, "", fmt.Errorf("%s: %w", e.tokenizer, err)
	}
	if extra := len(body.IDs) + len(e.words.Frame()) - e.length; extra > 0 {
		cut = e.words.Decode(body.IDs[max(0, len(body.IDs)-extra):])
		if !e.ofT5() { // CLIP's pieces mark the ends of words
			cut = strings.TrimSpace(strings.ReplaceAll(cut, "</w>", " "))
		}
	}
	return ids, seen, cut, nil
}
