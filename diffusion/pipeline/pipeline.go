package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Precision is what networks compute in.
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
	// Decoder is what the autoencoder computes in, where set; nil: Precision, and F32 where the folder says force_upcast.
	Decoder *Precision
	// TextLength is how many tokens the T5 encoder reads; 0: what the folder says, or as upstream, 256 in Stable
	// Diffusion 3, 512 in FLUX. NoText is none: for a Stable Diffusion 3 without a third
	// encoder that was trained without the zeros in its place.
	TextLength int
	// TextLayers are the layers of FLUX.2's language model whose states are read, 0 for the embeddings; nil: as upstream.
	TextLayers []int
	Cache      Cache
	Memory     Memory
	Train      []string // names of the denoiser's parameters that are trained, as expressions
	// Frozen are of two networks that take turns those that Train does not speak of.
	Frozen Experts
	// Base is, where what is opened is one file (package single), a folder with the settings and tokenizers of its
	// architecture; weights that the file does not hold are read there, too.
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

// Memory is how a pipeline trades time for memory. No bit of what it computes depends on it.
type Memory struct {
	KeepEncoders bool // text encoders stay in memory between calls of Encode
	LendEncoders bool // text encoders read a matrix whenever a product needs it
	LendNetworks bool // so does the denoiser with its frozen matrices
	Lean         bool // training packs one trained matrix at a time, and keeps no packed copy of each
	// Values are another network's parameters, which vectors and what is trained share; a map for each network.
	Values [mostExperts]map[string]*tensor.Tensor
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

// Pipeline is an open folder. It belongs to one goroutine, as its pool does.
type Pipeline struct {
	Options
	folder   *folder
	family   *architecture
	schedule *scheduler
	encoders []*encoder
	decoder  *decoder
	experts  [mostExperts]expert // the second is of pipelines that have two networks
	texts    map[textKey]*Text
	uploaded uploaded

	written int64 // bytes of texts since room was made in Options.Cache
	swept   bool

	fingerprint string // of what texts depend on, for Options.Cache
	pictureMark string // and of what latents of pictures do
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
	p = &Pipeline{Options: o, folder: f, texts: map[textKey]*Text{}}
	if p.family, err = f.architecture(o); err != nil {
		return nil, err
	}
	for _, e := range p.family.text.encoders {
		opened, err := e.open(f)
		if err != nil {
			return nil, err
		}
		p.encoders = append(p.encoders, opened)
	}
	if len(o.TextLayers) > 0 && !p.ReadsLayers() {
		return nil, fmt.Errorf("a %s in %s: layers %v of its text encoder are to be read (text_layers), and they are not of choice\nhint: leave them out; FLUX.2's are", f.class, dir, o.TextLayers)
	}
	if p.decoder, err = openDecoder(f, p.family.latents.channels); err != nil {
		return nil, err
	}
	if p.schedule, err = openScheduler(f, p.family.schedule.flow); err != nil {
		return nil, err
	}
	if err = f.headers(p.family.network.parts[0], "vae"); err != nil {
		return nil, err
	}
	return p, nil
}

// ReadsLength reports whether Options.TextLength means something: a T5 encoder reads texts, zeros stand for what it
// would have read, or a language model reads prompts that hold no pictures, which are never cut.
func (p *Pipeline) ReadsLength() bool {
	return p.family.text.zeros || slices.ContainsFunc(p.encoders, func(e *encoder) bool {
		return e.ofT5() || e.kind == promptStates && e.form.picture == nil
	})
}

// ReadsLayers reports whether Options.TextLayers means something.
func (p *Pipeline) ReadsLayers() bool {
	return slices.ContainsFunc(p.encoders, func(e *encoder) bool { return len(e.form.chosen) > 0 })
}

// Class is the pipeline's in model_index.json, and Component the denoiser's folder.
func (p *Pipeline) Class() string     { return p.folder.class }
func (p *Pipeline) Component() string { return p.family.network.parts[0] }

// Dir is what was opened: the folder, or the file of its weights.
func (p *Pipeline) Dir() string { return p.folder.path }

// Defaults are what upstream's pipeline does where nothing is asked for.
func (p *Pipeline) Defaults() Defaults {
	d := p.family.defaults
	if !d.Pixels {
		d.Height, d.Width = d.Height*p.decoder.factor, d.Width*p.decoder.factor
	}
	return d
}

// Flow reports whether the network puts out a velocity of a flow, and not a prediction of a
// variance-preserving ladder.
func (p *Pipeline) Flow() bool { return p.family.schedule.flow }

// Targets are the layers that an adapter is usually for, by the ends of their names.
func (p *Pipeline) Targets() []string { return p.family.network.targets }

// Denoiser is the network's parameters, loaded at the first call; of two networks, the first one's.
func (p *Pipeline) Denoiser() (*nn.Params, error) { return p.Network(0) }

// FreeDenoiser lets the networks' weights go, and adapters with them.
func (p *Pipeline) FreeDenoiser() error {
	err := errors.Join(p.experts[0].network.close(), p.experts[1].network.close())
	p.experts = [mostExperts]expert{}
	p.uploaded.free()
	p.Pool.Trim()
	return err
}

// Close gives all memory back and closes all files.
func (p *Pipeline) Close() error {
	p.uploaded.free()
	err := p.FreeEncoders()
	for _, n := range []*network{p.experts[0].network, p.experts[1].network, p.decoder.network} {
		err = errors.Join(err, n.close())
	}
	p.experts, p.decoder.network = [mostExperts]expert{}, nil
	return errors.Join(err, p.folder.close())
}

// network is a part in memory, and where its weights are read.
type network struct {
	part   string
	params *nn.Params
	from   *weights
}

// load reads a part's weights; build makes the network of them.
func (p *Pipeline) load(part string, precision Precision, train []string, names func(nn.Source) nn.Source, build func(*nn.Params)) (*network, error) {
	from, err := p.folder.weights(part)
	if err != nil {
		return nil, err
	}
	n := &network{part: part, from: from}
	o := nn.Options{Pool: p.Pool, Math: precision.math(), Train: train, Lend: p.lends(part), Values: p.valuesOf(part), Source: from.source, Key: from.key, Like: from.like}
	if from.source != nil && names != nil {
		o.Source = names(from.source)
	}
	if n.params, err = nn.New(o); err == nil {
		build(n.params)
		err = n.params.Check()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", from.name, err), n.close())
	}
	return n, nil
}

// lends reports whether a part's frozen matrices are read whenever they are needed.
func (p *Pipeline) lends(part string) bool {
	if slices.Contains(p.family.network.parts, part) {
		return p.Memory.LendNetworks
	}
	return p.Memory.LendEncoders && slices.ContainsFunc(p.encoders, func(e *encoder) bool { return e.part == part })
}

// name is the file or the index that weights were read from.
func (n *network) name() string { return n.from.name }

func (n *network) close() error {
	if n == nil {
		return nil
	}
	if n.params != nil {
		n.params.Free()
	}
	return n.from.close()
}

// tape is one that records nothing.
func (p *Pipeline) tape(precision Precision) *autograd.Tape {
	return autograd.New(p.Pool, autograd.Options{DType: precision.dtype(), Math: precision.math()})
}

// Tape is one for Ask: with train it records what leads to trained parameters, and so many of autograd.AllBlocks blocks
// are computed again in backward.
func (p *Pipeline) Tape(train bool, checkpoint int) *autograd.Tape {
	return autograd.New(p.Pool, autograd.Options{DType: p.Precision.dtype(), Math: p.Precision.math(), Train: train, Lean: p.Memory.Lean, Checkpoint: checkpoint})
}

// named adds a part's folder to an error about its settings.
func named(part string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", filepath.ToSlash(part), err)
}
