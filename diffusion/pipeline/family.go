package pipeline

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
)

// family is what one architecture does differently from another. Everything else, the loop
// above all, is shared.
type family struct {
	component      string // the denoiser's folder
	flow           bool   // a velocity, and not a prediction on a ladder
	encoders       []encoderPart
	latentChannels int // of the VAE's
	defaults       Defaults
	// join makes what the network reads of what the encoders said.
	join func(said []encoded) (*Text, error)
	// build asks for the network's parameters.
	build func(p *nn.Params) forward
	// side is what a picture's sides must be multiples of, and most their largest (0: any).
	side, most func(factor int) int
	// packed latents are tokens of 2 x 2 patches.
	packed bool
	// base is the grid of sigmas before its shift; nil: the scheduler's own.
	base        func(steps int) []float64
	embedded    bool                            // the network reads a guidance scale
	zeros       bool                            // stand for the states of a T5 encoder that is not there
	patch       int                             // side of a token in latents
	shift       func(tokens, steps int) float64 // of the schedule, in place of the folder's line; nil: none
	negated     bool                            // the network puts out the velocity with its sign turned
	ragged      bool                            // texts have lengths of their own
	emptyIsZero bool                            // the empty text is zeros, and not what encoders make of it

	sources *sourceRules // nil: pictures are made of texts alone
	targets []string     // layers that adapters are usually for, by the ends of their names
	kohya   peft.Network // whose names kohya's layout of adapters has; 0: it has none

	// Of clips alone.
	longest  int     // frames of latents
	together int     // of them are one token
	second   string  // the folder of a network for times below boundary; "": there is one network
	boundary float64 // a timestep
	expand   bool    // the network is told a time for each frame of latents
	reads    readsPictures
	sight    *sight // nil: pictures have no tokens
	both     bool   // a first and a last picture
}

// Defaults are what upstream's pipeline does where nothing is asked for.
type Defaults struct {
	Frames, Rate         int // of clips, and how many are a second; 0: pictures
	Height, Width, Steps int
	Pixels               bool // Height and Width are pixels already, not latents
	Guidance             float64
	// Embedded says that Guidance is told to the network; elsewhere it scales the difference
	// of two outputs.
	Embedded bool
	TrueCFG  bool // guidance by two outputs has to be asked for besides
	Norm     bool // the guided output keeps the length of the conditional one
}

// inputs are a batch for the network: one row of each a sample.
type inputs struct {
	latents, text, pooled *autograd.Value
	times                 []float32       // the schedule's timesteps
	guidance              []float32       // where the network reads one
	beside, seen          *autograd.Value // channels beside latents, and tokens of pictures, where clips are given some
	at                    Shape
	words                 []int32         // tokens of each row's text, where they have lengths of their own
	sources               *autograd.Value // latents of pictures that the rows are made of, and their tokens' places
	grids                 []grid
}

// forward runs a network: F32 of the latents' shape.
type forward func(tp *autograd.Tape, in inputs) *autograd.Value

// families are the pipelines that can be opened, by their class.
func families() map[string]func(*folder, Options) (*family, error) {
	return map[string]func(*folder, Options) (*family, error){
		"StableDiffusion3Pipeline": openSD3,
		"FluxPipeline":             openFlux,
		"StableDiffusionPipeline":  openSD,
		"WanPipeline":              openWan,
		"WanImageToVideoPipeline":  openWanPicture,

		"StableDiffusionXLPipeline": openSDXL,

		"ZImagePipeline":            openZImage,
		"Flux2KleinPipeline":        openKlein,
		"QwenImagePipeline":         openQwen,
		"QwenImageEditPipeline":     openQwenEdit,
		"QwenImageEditPlusPipeline": openQwenEditPlus,
		"FluxKontextPipeline":       openKontext,
	}
}

// Shape is that of a picture, or of a clip, and of its latents.
type Shape struct {
	Frames, Times int   // of a clip, and of its latents; 0: a picture
	Height, Width int   // pixels
	Rows, Cols    int   // of the VAE's latents
	Latents       []int // one sample as the network reads it
	Tokens        int   // that the network makes of it
}

// Len is the number of numbers in a sample's latents.
func (s Shape) Len() int {
	n := 1
	for _, d := range s.Latents {
		n *= d
	}
	return n
}

// Shape is the latents' for a picture of a size. Where the pipeline makes clips, it is the shortest one, mostly of one
// frame, and ClipShape is that of longer ones.
func (p *Pipeline) Shape(height, width int) (Shape, error) {
	if p.Clips() {
		return p.ClipShape(1+(p.family.together-1)*p.decoder.frames, height, width)
	}
	return p.sides(height, width)
}

// sides are a shape without frames.
func (p *Pipeline) sides(height, width int) (Shape, error) {
	f, factor := p.family, p.decoder.factor
	side, most := f.side(factor), f.most(factor)
	for _, n := range []int{height, width} {
		if n < 1 || n%side != 0 {
			down := max(n/side*side, side)
			return Shape{}, fmt.Errorf("a picture of %d x %d: sides must be multiples of %d, such as %d", width, height, side, down)
		}
		if most > 0 && n > most {
			return Shape{}, fmt.Errorf("a picture of %d x %d: this model's positions end at %d pixels a side", width, height, most)
		}
		if n > maxSide {
			return Shape{}, fmt.Errorf("a picture of %d x %d: at most %d pixels a side are possible", width, height, maxSide)
		}
	}
	s := Shape{Height: height, Width: width, Rows: height / factor, Cols: width / factor}
	s.Tokens = (s.Rows / f.patch) * (s.Cols / f.patch)
	s.Latents = []int{s.Rows, s.Cols, f.latentChannels}
	if f.packed {
		s.Latents = []int{s.Tokens, 4 * f.latentChannels}
	}
	return s, nil
}

// maxSide keeps a slip of the keyboard from asking for all memory.
const maxSide = 1 << 14
