package neural

import (
	"context"
	"errors"
	"math"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/dino"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Pictures turn pictures into vectors: a CLIP's picture tower, a DINO.
type Pictures interface {
	// Images are the vectors of pictures of bytes, Pixels those of pictures of numbers.
	Images(ctx context.Context, pictures []*vision.Image) ([][]float64, error)
	Pixels(ctx context.Context, pictures []vision.Pixels) ([][]float64, error)
	// PullPixels takes derivatives at vectors back to pictures. It asks at for those of a
	// batch whose first picture is number from.
	PullPixels(ctx context.Context, pictures []vision.Pixels, at func(from int, vectors [][]float64) ([][]float64, error)) ([][]float32, error)
}

// Towers turn texts into vectors of the same space, too.
type Towers interface {
	Pictures
	Texts(ctx context.Context, texts []string) ([][]float64, error)
	Unread(text string) string // the end of a text beyond the tokens that are read
	Scale() float64            // of cosines before a softmax: exp(logit_scale)
}

var errNoDirection = errors.New("the network gives a vector of no direction; its weights may be damaged")

// unit is x/|x| and |x|.
func unit(x []float64) (u []float64, norm float64, err error) {
	norm = math.Sqrt(dot(x, x))
	if !(norm > 0) || math.IsInf(norm, 0) {
		return nil, 0, errNoDirection
	}
	u = make([]float64, len(x))
	for i, v := range x {
		u[i] = v / norm
	}
	return u, norm, nil
}

func units(rows [][]float64) ([][]float64, error) {
	out := make([][]float64, len(rows))
	var err error
	for i, x := range rows {
		if out[i], _, err = unit(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// back takes the derivative d at x/|x| to x: (d - <d, u> u) / |x|.
func back(u []float64, norm float64, d []float64) []float64 {
	along := dot(d, u)
	out := make([]float64, len(u))
	for i := range out {
		out[i] = (d[i] - float64(along*u[i])) / norm
	}
	return out
}

// dot is of vectors that are as long as the shorter one says: lengths of one network agree.
func dot(x, y []float64) (sum float64) {
	for i := range min(len(x), len(y)) {
		sum += float64(x[i] * y[i])
	}
	return sum
}

func scaled(x []float64, a float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = a * v
	}
	return out
}

// TinyCLIP is the embedded stand-in of towers for tests.
const TinyCLIP = assets.Prefix + "tiny-clip"

// The stand-in, and the key to write in its place.
const (
	towersToy = "an embedded toy (embed:tiny-clip), which knows nothing but the program's own drawings of 64 x 64 pixels"
	towersFor = `for example path = "models/%s"; path = "embed:tiny-clip" takes the toy`
)

// opening is the folder that a reward's network lies in, which is there, and the device that it goes to.
func opening(k rewards.NetworkKeys, b rewards.Bench) (dir string, d *features.Device, err error) {
	if dir, d, err = k.Place(b); err == nil && dir == "" {
		err = errors.New("path is missing: the folder of its weights, in the layout of transformers or open_clip")
	}
	return dir, d, err
}

// openTowers opens a folder of CLIP's.
func openTowers(k rewards.NetworkKeys, b rewards.Bench, o clip.Options) (t *clip.Towers, err error) {
	dir, d, err := opening(k, b)
	if err != nil {
		return nil, err
	}
	o.Device = d
	return clip.Open(dir, o)
}

// openDINO opens a folder of DINO's.
func openDINO(k rewards.NetworkKeys, b rewards.Bench, o dino.Options) (*dino.Tower, error) {
	dir, d, err := opening(k, b)
	if err != nil {
		return nil, err
	}
	o.Device = d
	return dino.Open(dir, o)
}

// closing is a reward whose network gives its memory back.
func closing(j rewards.Judge, free func()) rewards.Opened {
	return rewards.Opened{Judge: j, Close: func() error { free(); return nil }}
}
