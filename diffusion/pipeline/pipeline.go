package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/edition"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Precision is the precision of networks.
type Precision int

// The precisions. In BF16 the operands of products and the activations are bf16.
const (
	F32 Precision = iota
	BF16
)

func (p Precision) math() kernels.Math {
	return [...]kernels.Math{F32: kernels.MathF32, BF16: kernels.MathBF16}[p]
}

func (p Precision) dtype() kernels.DType {
	return [...]kernels.DType{F32: kernels.F32, BF16: kernels.BF16}[p]
}

func (p Precision) String() string { return [...]string{F32: "f32", BF16: "bf16"}[p] }

// Options say how a folder is opened.
type Options struct {
	Pool      *tensor.Pool // memory, and so the device
	Precision Precision
	// Decoder is the autoencoder's precision, where set; nil: Precision, and F32 where the folder says force_upcast.
	Decoder *Precision
	// TextLength is how many tokens the T5 encoder reads; 0: the folder's setting, or upstream's, 256 in Stable
	// Diffusion 3, 512 in FLUX. NoText disables it: for a Stable Diffusion 3 without a third encoder that was trained
	// without the zeros in its place.
	TextLength int
	// TextLayers are the layers of FLUX.2's language model whose states are read, 0 for the embeddings; nil: as
	// upstream.
	TextLayers []int
	Cache      Cache
	Memory     Memory
	Quantize   string   // the form of the denoiser's matrices, compressed as they are loaded (quant.Kinds); "": the folder's
	Train      []string // names of the denoiser's parameters that are trained, as expressions
	// Tokens is this pipeline's share of the tokens of every pass of the denoiser, with which others compute the same
	// samples; nil: it has all.
	Tokens *autograd.Tokens
	// Frozen lists the experts (of two) that are not trained.
	Frozen Experts
	// Base is, for a single file (package single), a folder with the settings and tokenizers of its architecture;
	// weights that the file does not hold are read there, too.
	Base string
	// Weights, where set, take the place of a network's stored parameters of the same names.
	Weights [mostExperts]nn.Source
	// Tile is the side in pixels of the tiles that larger pictures are decoded in; 0: none.
	// UsualTile is upstream's: the size of pictures that the autoencoder was trained on.
	Tile int
	// SourceArea is how many pixels pictures have that a picture is made of, and SightArea how many of them the text
	// encoder sees; 0: upstream's. AsIs leaves sources the size they have.
	SourceArea, SightArea int
}

// UsualTile is Options.Tile for upstream's tiles.
const UsualTile = -1

// NoText is Options.TextLength for no tokens at all.
const NoText = -1

// textLength is how many tokens T5 reads, or zeros stand for.
func (o Options) textLength(otherwise int, noneIsPossible bool) (int, error) {
	switch {
	case o.TextLength == 0:
		return otherwise, nil
	case o.TextLength == NoText && noneIsPossible:
		return 0, nil
	case o.TextLength < 1 || o.TextLength > longest:
		return 0, fmt.Errorf("a text of %d tokens for T5: 1 to %d are possible, and none only where a pipeline has no such encoder", max(o.TextLength, 0), longest)
	}
	return o.TextLength, nil
}

// promptLength is how many tokens a language model reads of a prompt.
func (o Options) promptLength() (int, error) {
	length := cmp.Or(o.TextLength, 512)
	if length < 1 || length > longestPrompt {
		return 0, fmt.Errorf("a prompt of %d tokens: 1 to %d are possible", length, longestPrompt)
	}
	return length, nil
}

// longestPrompt is more tokens than upstream lets a language model read.
const longestPrompt = 1024

// Pipeline is an open folder. It belongs to one goroutine, as its pool does. Each of its parts owns its memory, and
// knows the others only as far as it calls them.
type Pipeline struct {
	*loader      // options, and how weights come into memory (weights.go)
	*layout      // shapes of latents (latents.go)
	*scheduler   // times and the folder's own solver (scheduler.go)
	*texts       // text encoders, and encoded texts (text.go)
	*denoiser    // the networks, guidance and gradients (denoiser.go)
	*autoencoder // pictures to latents, and back (autoencoder.go)
	*conditioner // pictures that videos begin with or edits are made of (conditioning.go)

	defaults Defaults
}

// Open understands a folder: every setting and every header is read and held against the
// others. Weights are loaded when they are first needed.
func Open(dir string, o Options) (p *Pipeline, err error) {
	f, err := openFolder(dir, o.Base)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	f.bare = o.Pool != nil && o.Pool.Bare()
	a, err := f.architecture(o)
	if err != nil {
		return nil, err
	}
	if err := a.network.checkTokens(f.class, o.Tokens); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	x := &texts{}
	for _, e := range a.text.encoders {
		opened, err := e.open(f)
		if err != nil {
			return nil, err
		}
		x.encoders = append(x.encoders, opened)
	}
	if len(o.TextLayers) > 0 && !x.ReadsLayers() {
		return nil, fmt.Errorf("a %s in %s: layers %v of its text encoder are to be read (text_layers), and they are not of choice\nhint: leave them out; FLUX.2's are", f.class, dir, o.TextLayers)
	}
	v, err := openAutoencoder(f, a.latents.channels)
	if err != nil {
		return nil, err
	}
	s, err := openScheduler(f, a)
	if err != nil {
		return nil, err
	}
	if err = f.headers(a.network.parts[0], "vae"); err != nil {
		return nil, err
	}
	return assembled(&loader{Options: o, folder: f}, a, x, v, s), nil
}

// assembled puts a pipeline together of its parts, which share the loader and the layout.
func assembled(l *loader, a *architecture, x *texts, v *autoencoder, s *scheduler) *Pipeline {
	shapes := &layout{latentSpec: a.latents, class: l.folder.class, factor: v.factor, span: v.span}
	disk := &cache{loader: l}
	v.loader, v.layout = l, shapes
	x.loader, x.spec, x.known, x.cache = l, a.text, map[textKey]*Text{}, disk
	x.needsSource = a.pictures.sources != nil && a.pictures.sources.must
	p := &Pipeline{loader: l, layout: shapes, scheduler: s, texts: x, autoencoder: v, defaults: a.defaults}
	if !p.defaults.Pixels {
		p.defaults.Height, p.defaults.Width = p.defaults.Height*v.factor, p.defaults.Width*v.factor
	}
	p.denoiser = &denoiser{loader: l, networkSpec: a.network, texts: a.text, pictures: a.pictures, channels: a.latents.channels}
	p.conditioner = &conditioner{loader: l, layout: shapes, spec: a.pictures, defaults: p.defaults, vae: v, eyes: x.eyes(), cache: disk}
	return p
}

// Class is the pipeline's in model_index.json.
func (p *Pipeline) Class() string { return p.folder.class }

// Dir is the opened path: the folder, or the file of its weights.
func (p *Pipeline) Dir() string { return p.folder.path }

// Defaults are the defaults of upstream's pipeline.
func (p *Pipeline) Defaults() Defaults { return p.defaults }

// Close gives all memory back and closes all files.
func (p *Pipeline) Close() error {
	p.uploaded.free()
	err := p.FreeEncoders()
	for _, n := range []*network{p.experts[0].network, p.experts[1].network, p.autoencoder.network} {
		err = errors.Join(err, n.close())
	}
	p.experts, p.autoencoder.network = [mostExperts]expert{}, nil
	return errors.Join(err, p.folder.close())
}

// Changed writes a copy of a pipeline's folder to out, with other weights of the denoiser; where two networks take
// turns, of each that has a change.
func Changed(dir, out string, changes ...edition.Change) error {
	f, err := readFolder(dir)
	if err != nil {
		return err
	}
	a, err := f.architecture(Options{})
	if err != nil {
		return err
	}
	return edition.Make(dir, out, func(c edition.Copy) error {
		if err := c.Settings("."); err != nil {
			return err
		}
		for name := range f.parts {
			i := slices.Index(a.network.parts, name)
			changed := i >= 0 && i < len(changes) && changes[i] != nil
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil && !changed {
				continue // a part that nobody fetched is missing in the copy, too
			}
			if _, err := f.part(name); err != nil {
				return err
			}
			write := c.Part
			if changed {
				write = func(below string) error { return c.Changed(below, changes[i]) }
			}
			if err := write(name); err != nil {
				return err
			}
		}
		return nil
	})
}
