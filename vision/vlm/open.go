package vlm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// Options say how a folder is opened.
type Options struct {
	Pool  *tensor.Pool
	DType kernels.DType // of activations, and of kept keys and values
	Math  kernels.Math
	Key   rng.Key
	Train []string // regular expressions of parameters that are trained
	// LoRA, optional, puts an adapter on the model; Adapter, optional, is a folder of PEFT's.
	LoRA    *nn.LoRA
	Adapter string
	// Template, optional, names the form of conversations where a folder does not say it (TemplateOf).
	Template string
}

// Generation has a folder's recommended settings for sampling tokens (generation_config.json).
type Generation struct {
	Sample      bool    `json:"do_sample"`
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	TopK        int     `json:"top_k"`
	Repetition  float64 `json:"repetition_penalty"`
	Ends        []int32 `json:"-"` // tokens that end an answer
}

// Folder is a model's folder, open: the network with its tokenizer and processor.
type Folder struct {
	*Model
	Params     *nn.Params
	Adapters   *nn.Adapters // nil without one
	Tokens     *tokenizer.Tokenizer
	Processor  *Processor
	Template   Template
	Generation Generation
	options    Options
	weights    *quant.Folder // open as long as adapters may be merged
}

// Open reads a folder in the layout of the hub: config.json, weights, tokenizer, settings of
// pictures, the template. Parameters go by the names of today's libraries, whatever the
// file's are, and so do adapters.
func Open(dir string, o Options) (*Folder, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{options: o}
	if err := f.settings(dir, c); err != nil {
		return nil, err
	}
	if f.weights, err = quant.OpenFolder(dir); err != nil {
		return nil, err
	}
	f.Params, err = nn.New(nn.Options{Pool: o.Pool, Math: o.Math, Source: Today(f.weights), Key: o.Key, Train: o.Train})
	if err != nil {
		return nil, errors.Join(err, f.weights.Close())
	}
	f.Model = newFrom(f.Params, c)
	if err := f.Params.Check(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), f.Close())
	}
	if err := f.adapt(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// newFrom is New for a stranger's file.
func newFrom(p *nn.Params, c Config) *Model {
	p.Ignore(`.*\.rotary(_pos)?_emb\.inv_freq`) // which old libraries stored
	return New(p, c)
}

// Close gives memory and files back.
func (f *Folder) Close() error {
	f.Params.Free()
	return f.weights.Close()
}

// Tape is an empty tape of the folder's arithmetic.
func (f *Folder) Tape(train bool, checkpoint int) *autograd.Tape {
	return autograd.New(f.options.Pool, autograd.Options{DType: f.options.DType, Math: f.options.Math, Train: train, Checkpoint: checkpoint})
}

// Decoder is one with this number of rows.
func (f *Folder) Decoder(rows int) *Decoder {
	return f.NewDecoder(f.options.Pool, autograd.Options{DType: f.options.DType, Math: f.options.Math}, rows)
}

// Today gives the parameters of published files the names that libraries have for them now.
func Today(src nn.Source) nn.Source {
	if slices.ContainsFunc(src.Names(), nested) {
		return src
	}
	var pairs []string
	for _, m := range moved() {
		pairs = append(pairs, m[0], m[1])
	}
	return nn.Rename(src, pairs...)
}

func (f *Folder) adapt() (err error) {
	o := f.options
	switch {
	case o.Adapter != "" && o.LoRA != nil:
		return fmt.Errorf("an adapter's folder %s and a new adapter: one is possible", o.Adapter)
	case o.LoRA != nil:
		f.Adapters, err = f.Params.AddLoRA(*o.LoRA)
		return err
	case o.Adapter == "":
		return nil
	}
	a, err := peft.Open(o.Adapter, "model")
	if err != nil {
		return err
	}
	defer a.Close()
	if f.Adapters, err = a.AddTo(f.Params); err != nil {
		return fmt.Errorf("%s: %w", o.Adapter, err)
	}
	return nil
}

// settings reads everything but weights, and holds it together.
func (f *Folder) settings(dir string, c Config) (err error) {
	if f.Tokens, err = tokenizer.Open(dir); err != nil {
		return err
	}
	if n := f.Tokens.Size(); n > c.Text.Vocabulary {
		return fmt.Errorf("%s: the tokenizer has %d tokens, the model %d: they do not belong together", dir, n, c.Text.Vocabulary)
	}
	marks, err := MarksOf(f.Tokens)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if marks.Picture != c.Picture || marks.Clip != c.Clip {
		return fmt.Errorf("%s: the tokenizer's marks are %d and %d, config.json's %d and %d", dir, marks.Picture, marks.Clip, c.Picture, c.Clip)
	}
	if f.Processor, err = OpenProcessor(dir); err != nil {
		return err
	}
	if p, v := f.Processor, c.Vision; p.Patch != v.Patch || p.Merge != v.Merge || p.Frames != v.Frames || v.Channels != 3 {
		return fmt.Errorf("%s: preprocessor_config.json cuts patches of %d pixels and %d frames, merged by %d; the tower reads %d, %d and %d, of %d channels",
			dir, p.Patch, p.Frames, p.Merge, v.Patch, v.Frames, v.Merge, v.Channels)
	}
	if f.Template, err = TemplateOf(dir, f.options.Template); err != nil {
		return err
	}
	return f.generation(dir, c)
}

func (f *Folder) generation(dir string, c Config) error {
	path := filepath.Join(dir, "generation_config.json")
	f.Generation = Generation{Temperature: 1, TopP: 1, Repetition: 1}
	if _, err := os.Stat(path); err == nil {
		var ends struct {
			IDs json.RawMessage `json:"eos_token_id"`
		}
		for _, into := range []any{&f.Generation, &ends} {
			if err := hub.JSON(path, into); err != nil {
				return err
			}
		}
		if len(ends.IDs) > 0 && json.Unmarshal(ends.IDs, &f.Generation.Ends) != nil {
			one := int32(-1)
			if err := json.Unmarshal(ends.IDs, &one); err != nil {
				return fmt.Errorf("%s: %q is neither a token nor a list of tokens", path, "eos_token_id")
			}
			f.Generation.Ends = []int32{one}
		}
	}
	if id, ok := f.Tokens.Role("eos_token"); ok && len(f.Generation.Ends) == 0 {
		f.Generation.Ends = []int32{id}
	}
	g := f.Generation
	var l hub.Limits
	l.Float("temperature", g.Temperature, 1e-6, 1e6)
	l.Float("top_p", g.TopP, 1e-9, 1)
	l.Int("top_k", g.TopK, 0, 1<<22)
	l.Float("repetition_penalty", g.Repetition, 1e-3, 1e3)
	l.Must(len(g.Ends) > 0, `no "eos_token_id" and no "eos_token": nothing would end an answer`)
	for _, id := range g.Ends {
		l.Must(id >= 0 && int(id) < c.Text.Vocabulary, `"eos_token_id" %d is none of the vocabulary's %d`, id, c.Text.Vocabulary)
	}
	if err := l.Err(); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// Read makes a stretch of a text that has one mark a picture, and the pictures.
func (f *Folder) Read(text string, pictures ...*vision.Raster) (Stretch, error) {
	patches, err := f.Processor.Apply(pictures...)
	if err != nil {
		return Stretch{}, err
	}
	e, err := f.Tokens.Encode(text)
	if err != nil {
		return Stretch{}, err
	}
	ids, _, err := Marks{Picture: f.Picture, Clip: f.Clip}.Expand(e.IDs, patches.Grids, nil, f.Processor.Merge)
	return Stretch{IDs: ids, Pictures: patches}, err
}

// Names are how libraries call the layers of a Qwen-VL model. Published folders of Qwen2-VL and Qwen2.5-VL have the
// older names, those of Qwen3-VL today's; transformers reads both in folders, and in adapters its own alone.
type Names int

// The names.
const (
	Transformers5 Names = iota // since 4.52: model.language_model.layers..., model.visual...
	Transformers4              // until 4.51: model.layers..., visual...
)

// moved are the beginnings that changed, the older one first.
func moved() [][2]string {
	return [][2]string{{"model.embed_tokens.", "model.language_model.embed_tokens."}, {"model.layers.", "model.language_model.layers."},
		{"model.norm.", "model.language_model.norm."}, {"visual.", "model.visual."}}
}

// Of is the name of a layer or a parameter that has either name.
func (n Names) Of(name string) string {
	for _, m := range moved() {
		from, to := m[0], m[1]
		if n == Transformers4 {
			from, to = to, from
		}
		if rest, ok := strings.CutPrefix(name+".", from); ok { // a layer's name has no dot at its end
			return strings.TrimSuffix(to+rest, ".")
		}
	}
	return name
}

// NamesOf are those of a folder, by the names of its parameters.
func NamesOf(names []string) Names {
	if slices.ContainsFunc(names, nested) {
		return Transformers5
	}
	return Transformers4
}

func nested(name string) bool { return strings.HasPrefix(name, "model.language_model.") }
