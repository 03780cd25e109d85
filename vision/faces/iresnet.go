package faces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/torchfile"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/detr"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Card: IResNet (Duta et al. 2020, as insightface trains ArcFace on it), with the parameter names of its state dict:
//
//	stem    prelu(norm(conv 3x3))
//	block   x' = norm(conv 3x3, stride(prelu(norm(conv 3x3(norm(x)))))) + shortcut(x), shortcut = norm(conv 1x1, stride)
//	        where the size changes, else x; four layers of blocks, the first of each with stride 2
//	vector  norm(fc(norm(x) as channel, row, column))
//
// Norms are batch norms with the statistics of training and eps 1e-5. Those after a convolution are in it, that after
// fc in fc. A norm before a convolution is a scale and a shift: its pad of zeros comes after the norm. Held to
// eyes.iresnet and eyes.iresnet_full.

const batchNormEps = 1e-5

// Shape is an IResNet's size: iresnet50 has layers of 3, 4, 14 and 3 blocks, 64 to 512 wide.
type Shape struct {
	Stem   int // channels of the stem
	Blocks [4]int
	Widths [4]int
	Grid   int // rows of the last map; a picture has 16 times as many
	Vector int // numbers of a vector
}

// Side is that of the pictures.
func (s Shape) Side() int { return 16 * s.Grid }

// ShapeOf reads a network's size from its tensors.
func ShapeOf(src nn.Source) (s Shape, err error) {
	has := map[string]bool{}
	for _, name := range src.Names() {
		has[name] = true
	}
	first := func(name string, axes int) []int {
		if !has[name] {
			err = errors.Join(err, fmt.Errorf("this is no IResNet: there is no tensor %s", name))
			return make([]int, axes)
		}
		t, failed := src.Tensor(name)
		if failed == nil && len(t.Shape) != axes {
			failed = fmt.Errorf("this is no IResNet: %s has the shape %v; %d axes were expected", name, t.Shape, axes)
		}
		if failed != nil {
			err = errors.Join(err, failed)
			return make([]int, axes)
		}
		return t.Shape
	}
	s.Stem = first("conv1.weight", 4)[0]
	for k := range s.Blocks {
		layer := fmt.Sprintf("layer%d.", k+1)
		s.Widths[k] = first(layer+"0.conv1.weight", 4)[0]
		for has[fmt.Sprintf("%s%d.conv1.weight", layer, s.Blocks[k])] {
			s.Blocks[k]++
		}
	}
	fc := first("fc.weight", 2)
	if err != nil {
		return s, err
	}
	s.Vector = fc[0]
	s.Grid = int(math.Sqrt(float64(fc[1] / max(s.Widths[3], 1))))
	var l hub.Limits
	l.Int("channels of conv1", s.Stem, 1, 1<<12)
	for k := range s.Blocks {
		l.Int(fmt.Sprintf("blocks of layer%d", k+1), s.Blocks[k], 1, 256)
		l.Int(fmt.Sprintf("channels of layer%d", k+1), s.Widths[k], 1, 1<<12)
	}
	l.Int("numbers of a vector", s.Vector, 2, 1<<16)
	l.Must(s.Grid >= 1 && s.Grid <= 64 && fc[1] == s.Widths[3]*s.Grid*s.Grid,
		"fc.weight has %d columns; a square map of %d channels, of at most 64 rows, was expected", fc[1], s.Widths[3])
	return s, l.Err()
}

// IResNet is the network.
type IResNet struct {
	Shape
	stem   *nn.Conv
	slope  *autograd.Param
	blocks []*block
	last   affine
	fc     *nn.Linear
}

type block struct {
	before       affine
	first, other *nn.Conv
	slope        *autograd.Param
	shortcut     *nn.Conv // nil: x itself
}

// affine is x · scale + shift, channel by channel.
type affine struct{ scale, shift *autograd.Param }

// NewIResNet asks p for a network's parameters; batch norms after a layer are in that layer (folded).
func NewIResNet(p *nn.Params, s Shape) *IResNet {
	p.Ignore("(?:.*\\.)?num_batches_tracked")
	n := &IResNet{Shape: s, stem: p.Conv("conv1", nn.Square(3, s.Stem, 3, 1, 1), true), slope: p.Vector("prelu.weight", s.Stem)}
	in := s.Stem
	for k, width := range s.Widths {
		for i := range s.Blocks[k] {
			n.blocks = append(n.blocks, newBlock(p.Sub(fmt.Sprintf("layer%d.%d", k+1, i)), in, width, i == 0))
			in = width
		}
	}
	n.last = newAffine(p, "bn2", in)
	n.fc = p.Linear("fc", in*s.Grid*s.Grid, s.Vector, true)
	return n
}

func newBlock(p *nn.Params, in, out int, halves bool) *block {
	stride := 1
	if halves {
		stride = 2
	}
	b := &block{before: newAffine(p, "bn1", in), first: p.Conv("conv1", nn.Square(in, out, 3, 1, 1), true), slope: p.Vector("prelu.weight", out),
		other: p.Conv("conv2", nn.Square(out, out, 3, stride, 1), true)}
	if halves {
		b.shortcut = p.Conv("downsample.0", nn.Square(in, out, 1, stride, 0), true)
	}
	return b
}

// newAffine is a batch norm's scale and shift.
func newAffine(p *nn.Params, name string, n int) affine {
	var parts [4][]float32
	fresh := []float32{1, 0, 0, 1}
	for i, end := range []string{"weight", "bias", "running_mean", "running_var"} {
		b := p.Buffer(name+"."+end, func() []float32 { return slices.Repeat(fresh[i:i+1], n) }, n)
		if b == nil { // Check reports it
			return affine{}
		}
		parts[i] = b.Rows(0, 1)
	}
	scale, shift := make([]float32, n), make([]float32, n)
	for i := range n {
		by := float64(parts[0][i]) / math.Sqrt(float64(parts[3][i])+batchNormEps)
		scale[i], shift[i] = float32(by), float32(float64(parts[1][i])-float64(float64(parts[2][i])*by))
	}
	return affine{p.Constant(name+".scale", scale, n), p.Constant(name+".shift", shift, n)}
}

var beforeNorm = regexp.MustCompile(`^(layer\d+\.\d+\.)(?:bn([23])|downsample\.1)$`)

// folded is a state dict whose norms are in the layers before them.
func folded(src nn.Source) nn.Source {
	return detr.FoldedBy(src, func(norm string) string {
		switch norm {
		case "bn1":
			return "conv1"
		case "features":
			return "fc"
		}
		switch m := beforeNorm.FindStringSubmatch(norm); {
		case m == nil:
			return ""
		case m[2] == "2":
			return m[1] + "conv1"
		case m[2] == "3":
			return m[1] + "conv2"
		default:
			return m[1] + "downsample.0"
		}
	})
}

// Forward is pictures' vectors, [B, Vector], of [B, Side, Side, 3].
func (n *IResNet) Forward(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	x = tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		return []*autograd.Value{prelu(tp, n.stem.Apply(tp, in[0], nil), n.slope)}
	}, x)[0]
	for _, b := range n.blocks {
		x = tp.Block(func(in ...*autograd.Value) []*autograd.Value { return []*autograd.Value{b.forward(tp, in[0])} }, x)[0]
	}
	x = tp.Permute(n.last.apply(tp, x), 0, 3, 1, 2)
	return n.fc.Apply(tp, tp.Reshape(x, x.Dim(0), x.Dim(1)*x.Dim(2)*x.Dim(3)), autograd.With{})
}

func (b *block) forward(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	past := x
	if b.shortcut != nil {
		past = b.shortcut.Apply(tp, x, nil)
	}
	h := b.before.apply(tp, x)
	y := b.first.Apply(tp, h, nil)
	tp.Release(h)
	return b.other.Apply(tp, prelu(tp, y, b.slope), past)
}

// apply adds x · scale to the shift of every place, 0 · x + shift. Modulate alone would round a small scale, to which
// it adds 1.
func (a affine) apply(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	minus := make([]float32, a.scale.Value.Len())
	for i := range minus {
		minus[i] = -1
	}
	shift := tp.Modulate(x, tp.Upload("minus one", minus, 1, len(minus)), row(tp, a.shift))
	y := tp.Gated(x, row(tp, a.scale), shift)
	tp.Release(shift)
	return y
}

// prelu is x where x is positive, else x · slope, channel by channel.
func prelu(tp *autograd.Tape, x *autograd.Value, slope *autograd.Param) *autograd.Value {
	positive := tp.Unary(kernels.ReLU, x)
	negative := tp.Sub(x, positive)
	tp.Release(x)
	y := tp.Gated(negative, row(tp, slope), positive)
	tp.Release(negative, positive)
	return y
}

// row is a parameter as the one row of a gate.
func row(tp *autograd.Tape, p *autograd.Param) *autograd.Value {
	n := p.Value.Len()
	return tp.AddParam(tp.Upload("row", make([]float32, n), 1, n), p)
}

// An Embedder is an IResNet in memory: vectors of aligned faces, and gradients at their pixels. It is safe for use by
// several goroutines.
type Embedder struct {
	features.Tower
	Shape  Shape
	params *nn.Params
}

// OpenIResNet opens a folder of safetensors, a file of safetensors, or a state dict of PyTorch (.pt, .pth).
func OpenIResNet(path string, d *features.Device) (*Embedder, error) {
	src, err := openWeights(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = src.Close() }()
	e, err := LoadIResNet(src, d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

type weights interface {
	nn.Source
	io.Closer
}

func openWeights(path string) (weights, error) {
	at, err := os.Stat(path)
	switch ending := filepath.Ext(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such file", path)
	case err != nil:
		return nil, err
	case at.IsDir():
		return quant.OpenFolder(path)
	case ending == ".pt" || ending == ".pth":
		return torchfile.Open(path)
	default:
		return quant.OpenFile(path)
	}
}

// LoadIResNet loads a state dict.
func LoadIResNet(src nn.Source, d *features.Device) (*Embedder, error) {
	s, err := ShapeOf(src)
	if err != nil {
		return nil, err
	}
	if err := alignable(s.Side()); err != nil {
		return nil, err
	}
	half := [3]float32{0.5, 0.5, 0.5}
	e := &Embedder{Shape: s}
	e.Device, e.Width = d, s.Vector
	e.Prepare = vision.Preprocess{Size: s.Side(), Fit: vision.Stretch, Filter: vision.Bilinear, Mean: half, Std: half}
	e.Soft = e.Prepare
	var n *IResNet
	if e.params, err = d.Load(folded(src), func(p *nn.Params) { n = NewIResNet(p, s) }); err != nil {
		return nil, err
	}
	e.Forward = n.Forward
	return e, nil
}

// Close gives the memory back.
func (e *Embedder) Close() { e.Free(e.params) }

func (e *Embedder) vector(ctx context.Context, face *vision.Image) ([]float64, error) {
	v, err := e.Images(ctx, []*vision.Image{face})
	if err != nil {
		return nil, err
	}
	return v[0], nil
}
