package pipeline

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/single"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
)

// A Family is one pipeline of diffusers: one value in one file, and a line of Families. The loop, memory, texts on the
// disk and the rest of the package know no family.
type Family struct {
	Class string // in model_index.json
	Name  string // for people
	Card  string // the network, the texts and the latents in one sentence
	Paper string
	Parts []string // the folders that model_index.json must name
	Cases []string // recorded cases of the whole pipeline

	Shared bool // ranks can share the tokens of its network (run.tokens)

	File  single.Kind  // of its checkpoints in one file; 0: no such checkpoints
	Kohya peft.Network // the names of kohya's layout of adapters; 0: no such layout

	open func(f *folder, o Options) (*architecture, error)
}

// Families are the pipelines that can be opened.
func Families() []Family {
	return []Family{
		stableDiffusion, stableDiffusionXL, stableDiffusion3, flux1, kontext, klein, qwenImage, qwenEdit, qwenEditPlus, zImage, wan, wanPicture,
	}
}

// family is the one that the folder's class names.
func (f *folder) family() (Family, error) {
	var known []string
	for _, one := range Families() {
		if one.Class == f.class {
			return one, nil
		}
		known = append(known, one.Class)
	}
	slices.Sort(known)
	return Family{}, fmt.Errorf("%s: a %s is not known; %s are\nhint: 'darkroom list families' has the models that are read; others cannot be sampled or trained here", filepath.Join(f.dir, "model_index.json"), f.class, strings.Join(known, ", "))
}

// architecture reads the settings of the folder's family.
func (f *folder) architecture(o Options) (*architecture, error) {
	of, err := f.family()
	if err != nil {
		return nil, err
	}
	a, err := of.open(f, o)
	if a != nil {
		a.family = of
	}
	return a, err
}

// An architecture is a family at one folder's settings. Each of its parts has the differences of one subject; a zero
// part is the usual case.
type architecture struct {
	family   Family
	network  networkSpec
	text     textSpec
	latents  latentSpec
	schedule scheduleSpec
	pictures pictureSpec
	defaults Defaults
}

// networkSpec is the denoiser: its parameters, and its inputs beside latents and texts.
type networkSpec struct {
	parts    []string // folders; the second network is for times below boundary
	boundary float64  // a timestep
	build    func(p *nn.Params) forward
	targets  []string // layers of the usual adapter, by the ends of their names

	heads        int  // of attention between tokens, where ranks can share these; 0: they cannot
	textApart    bool // texts are keys of another attention: every rank has them whole
	embedded     bool // the network reads a guidance scale
	negated      bool // its output is the velocity with the sign turned
	timePerFrame bool // it reads a time for each frame of latents
}

// textSpec is the text encoders, and how their states become the network's input.
type textSpec struct {
	encoders []encoderPart
	join     func(said []encoded) (*Text, error)

	ragged      bool // texts have lengths of their own
	zeros       bool // zeros stand for the states of a T5 encoder that the folder lacks
	emptyIsZero bool // the empty text is zeros
}

// latentSpec is the layout of latents.
type latentSpec struct {
	channels int  // of the autoencoder's latents
	patch    int  // side of a token in latents
	packed   bool // latents are tokens of 2 x 2 patches
	unit     int  // a picture's sides are multiples of it, in latents
	most     int  // the largest side in latents; 0: any

	// Of videos.
	frames   int // the most frames of latents
	together int // frames of latents in a token
}

// scheduleSpec is the network's noise process, and where its schedule is not the folder's.
type scheduleSpec struct {
	flow  bool                            // the network predicts a velocity; else the noise process is variance-preserving
	base  func(steps int) []float64       // sigmas before their shift; nil: the scheduler's own
	shift func(tokens, steps int) float64 // in place of the folder's line; nil: that line
}

// pictureSpec is the network's input from pictures.
type pictureSpec struct {
	read    readsPictures
	sources *sourceRules  // of edits; nil: pictures are made of texts alone
	encoder *imageEncoder // of a video's pictures; nil: the network reads no tokens of them
	both    bool          // a video has a first and a last picture
}

// Defaults are the defaults of upstream's pipeline.
type Defaults struct {
	Frames, Rate         int // of clips, and how many are a second; 0: pictures
	Height, Width, Steps int
	Pixels               bool // Height and Width are pixels already, not latents
	Guidance             float64
	// Embedded: Guidance is an input of the network; elsewhere it scales the difference of two outputs.
	Embedded bool
	TrueCFG  bool // guidance by two outputs has to be asked for besides
	Norm     bool // the guided output keeps the length of the conditional one
}

// packedLatents are tokens of 2 x 2 patches.
func packedLatents(channels int) latentSpec {
	return latentSpec{channels: channels, patch: 2, packed: true, unit: 2}
}

// attention are the projections that adapters are usually for, by the ends of their names.
func attention(prefix string) []string {
	return []string{prefix + "to_q", prefix + "to_k", prefix + "to_v", prefix + "to_out.0"}
}

// statesOnly joins the states of the one text encoder, which must be as wide as the network's setting.
func statesOnly(setting string, width int) func(said []encoded) (*Text, error) {
	return func(said []encoded) (*Text, error) {
		if said[0].width != width {
			return nil, fmt.Errorf("%s is %d, but text_encoder gives %d numbers a token", setting, width, said[0].width)
		}
		return said[0].text(), nil
	}
}

// sigmasOf is a flow's sigmas of its timesteps.
func sigmasOf(times []float32) []float32 {
	sigmas := make([]float32, len(times))
	for i, t := range times {
		sigmas[i] = t / 1000
	}
	return sigmas
}
