package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Pictures that a video begins with, or begins and ends with. Those of edits are in sources.go.
//
// Wan 2.1 and Wan 2.2's A14B read, beside each number of latents, which frames are given (a channel a
// frame of those that one frame of latents stands for; the first frame counts for all of them) and the
// latents of a clip that is gray but for these frames. Wan 2.1 reads the pictures' tokens, too, as CLIP
// sees them before its last layer. Wan 2.2's TI2V reads the picture's latents in the place of its own
// first ones, at time 0, and a clip's first latents are theirs in the end.

// conditioner prepares the network's inputs from pictures.
type conditioner struct {
	*loader
	*layout
	spec     pictureSpec
	defaults Defaults
	vae      *autoencoder
	eyes     *vlm.Processor // of the text encoder; nil: it sees no pictures
	cache    *cache
	mark     string // identifies the inputs of latents of pictures, for the cache
}

// readsPictures are the ways in which a network reads pictures.
type readsPictures int

const (
	noPictures     readsPictures = iota
	besideLatents                // channels beside those of latents
	inFirstLatents               // the first frame's latents
	besideTokens                 // tokens behind those of the picture that is made (sources.go)
)

// Given is the network's input from pictures. It serves any number of clips of its shape.
type Given struct {
	channels []float32 // beside latents: [Times, Rows, Cols, frames + C]
	tokens   []float32 // [seen, width]
	seen     int
	first    []float64 // latents of the first frame

	// Of pictures that a picture is made of.
	sources []float32   // tokens of their latents
	grids   []grid      // of each
	patches vlm.Patches // the text encoder's pictures
	mark    string      // names the pictures
}

// Gives reports whether clips may be given pictures, must be, and whether they may or must be given a
// last one.
func (c *conditioner) Gives() (may, must, mayLast, mustLast bool) {
	f := c.spec
	may = f.read == besideLatents || f.read == inFirstLatents
	return may, f.read == besideLatents, f.read == besideLatents && (f.encoder == nil || f.both), f.both
}

// Give prepares a clip's first picture and its last one, nil for none. They are resized.
func (c *conditioner) Give(ctx context.Context, at Shape, first, last *vision.Image) (*Given, error) {
	may, _, mayLast, mustLast := c.Gives()
	switch {
	case !may:
		return nil, errors.New("a picture was given, and this pipeline's network reads none")
	case at.Frames == 0 || at.Times == 0:
		return nil, errors.New("a picture was given to what is no clip")
	case first == nil:
		return nil, errors.New("a clip's last picture was given without its first")
	case last != nil && !mayLast:
		return nil, errors.New("a last picture was given: this network reads the first alone")
	case last == nil && mustLast:
		return nil, errors.New("this network reads a first and a last picture: give the last one, too")
	case last != nil && at.Frames == 1:
		return nil, errors.New("a first and a last picture for a clip of one frame")
	}
	clip := at
	if c.spec.read == inFirstLatents {
		clip.Frames, clip.Times, clip.Latents = 1, 1, append([]int{1}, at.Latents[1:]...)
	}
	pixels, err := framesOf(clip, first, last)
	if err != nil {
		return nil, err
	}
	latents, err := c.vae.EncodeAll([][]float32{pixels}, clip)
	if err != nil {
		return nil, err
	}
	if c.spec.read == inFirstLatents {
		return &Given{first: rounded(latents[0])}, nil
	}
	g := &Given{channels: Beside(narrowed(latents[0]), at, c.span, last != nil)}
	if c.spec.encoder == nil {
		return g, nil
	}
	seen := []*vision.Image{first}
	if last != nil {
		seen = append(seen, last)
	}
	g.tokens, g.seen, err = c.see(ctx, seen)
	return g, err
}

// framesOf is a clip from -1 to 1 that is gray but for its first frame, and its last where there is one.
func framesOf(at Shape, first, last *vision.Image) ([]float32, error) {
	each := 3 * at.Height * at.Width
	clip := make([]float32, each*at.Frames)
	put := func(frame int, m *vision.Image) error {
		var err error
		if m.Width != at.Width || m.Height != at.Height {
			if m, err = m.Resize(at.Width, at.Height, vision.Lanczos); err != nil {
				return fmt.Errorf("a clip's picture: %w", err)
			}
		}
		vision.Floats(clip[frame*each : (frame+1)*each : (frame+1)*each][:0], m, vision.Signed, vision.ChannelsLast)
		return nil
	}
	err := put(0, first)
	if last != nil && err == nil {
		err = put(at.Frames-1, last)
	}
	return clip, err
}

// Beside is the network's input beside latents: for each pixel of them, which frames are given, before the latents of
// the clip that is gray but for these frames. each is how many frames one of latents stands for.
func Beside(latents []float32, at Shape, each int, last bool) []float32 {
	pixels := at.Rows * at.Cols
	c := len(latents) / (at.Times * pixels)
	out := make([]float32, 0, at.Times*pixels*(each+c))
	for t := range at.Times {
		for i := range pixels {
			for f := range each {
				is := float32(0)
				if t == 0 || last && t*each+f-(each-1) == at.Frames-1 {
					is = 1
				}
				out = append(out, is)
			}
			out = append(out, latents[(t*pixels+i)*c:][:c]...)
		}
	}
	return out
}

// Still is numbers of a clip's latents with 0 for those that are given. Whatever is drawn for them, a clip does not
// have it, so they have no part in a step's log-probability but a constant, and none in its gradient.
func (g *Given) Still(latents []float64) []float64 {
	if g == nil || g.first == nil {
		return latents
	}
	out := append([]float64(nil), latents...)
	clear(out[:min(len(g.first), len(out))])
	return out
}

// Finish puts the given latents in the place of a clip's first ones.
func (g *Given) Finish(latents []float64) []float64 {
	if g == nil {
		return latents
	}
	return g.put(g.first, latents)
}

// Settle is the noise that a finished clip is noised with: the clean latents where latents are given. Nothing is
// noised there, and the velocity, noise less clean, is 0, as the gradient at the network's output is.
func (g *Given) Settle(noise, clean []float64) []float64 {
	if g == nil {
		return noise
	}
	return g.put(clean[:min(len(g.first), len(clean))], noise)
}

// put is latents that begin with others.
func (g *Given) put(first, latents []float64) []float64 {
	if len(first) == 0 {
		return latents
	}
	out := append([]float64(nil), latents...)
	copy(out, first)
	return out
}

// Length is how many tokens a picture's sources are.
func (g *Given) Length() (n int) {
	if g != nil {
		for _, one := range g.grids {
			n += one.rows * one.cols
		}
	}
	return n
}

// Bytes is its size in memory.
func (g *Given) Bytes() int64 {
	if g == nil {
		return 0
	}
	return 4*int64(len(g.channels)+len(g.tokens)+len(g.sources)+len(g.patches.Values)) + 8*int64(len(g.first))
}

// Tokens is the network's input from pictures' tokens, [n, Width]; none where it reads none.
func (g *Given) Tokens() []float32 { return g.tokens }

// imageEncoder is the settings of the tower that reads a video's pictures; its weights are loaded for each use.
type imageEncoder struct {
	config  clip.VisionConfig
	prepare vision.Preprocess
}

// openImageEncoder reads the tower's settings and its pipeline's.
func openImageEncoder(f *folder) (*imageEncoder, error) {
	c, err := readConfig(f, "image_encoder", clip.ReadVisionConfig)
	if err != nil {
		return nil, err
	}
	dir, err := f.part("image_processor")
	if err != nil {
		return nil, err
	}
	s := &imageEncoder{config: c}
	if s.prepare, err = features.ReadProcessor(dir, vision.CLIPPillow(c.Side)); err != nil {
		return nil, err
	}
	if s.prepare.Size != c.Side {
		return nil, fmt.Errorf("%s: pictures of %d pixels a side; image_encoder sees %d", dir, s.prepare.Size, c.Side)
	}
	return s, f.headers("image_encoder")
}

// SightPixels is the tower's input for a picture, [Side, Side, 3]; nil where pictures have no tokens.
func (c *conditioner) SightPixels(m *vision.Image) ([]float32, error) {
	if c.spec.encoder == nil {
		return nil, nil
	}
	return c.spec.encoder.prepare.Apply(nil, m, vision.ChannelsLast)
}

// see is the tokens of pictures, one after another, and how many they are.
func (c *conditioner) see(ctx context.Context, pictures []*vision.Image) (tokens []float32, seen int, err error) {
	s := c.spec.encoder
	var tower *clip.Vision
	n, err := c.load("image_encoder", nn.Options{Math: kernels.MathF32}, nil, func(params *nn.Params) { tower = clip.NewSight(params, s.config) })
	if err != nil {
		return nil, 0, err
	}
	tp := c.tape(F32)
	for _, m := range pictures {
		var x []float32
		if x, err = c.SightPixels(m); err == nil {
			err = ctx.Err()
		}
		if err != nil {
			break
		}
		y := tower.BeforeLast(tp, tp.Upload("picture", x, 1, s.config.Side, s.config.Side, 3))
		tokens, seen = append(tokens, y.F32()...), seen+y.Dim(1)
		tp.Reset()
	}
	tp.Reset()
	if failed := n.close(); err == nil {
		err = failed
	}
	c.Pool.Trim()
	return tokens, seen, err
}
