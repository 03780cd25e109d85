package dino

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Options say how a folder is opened.
type Options struct {
	Device *features.Device
	Batch  int // pictures at once; 0: 8
	// Prepare is the pipeline for pictures of bytes, by the size that positions were learnt
	// for; nil: as the folder says, or squeezed into that size.
	Prepare func(size int) vision.Preprocess
	// Patches: a picture's vector is those of all its patches, in a row. Pictures are squeezed,
	// so that no part is cut off.
	Patches bool
}

// Tower is a folder's network in memory. It may be asked from any goroutine.
type Tower struct {
	features.Tower
	Grid   int // patches a side
	params *nn.Params
}

// Open reads the folder of a ViTModel or a Dinov2Model.
func Open(dir string, o Options) (*Tower, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	t := &Tower{}
	if o.Prepare != nil {
		t.Prepare = o.Prepare(c.Side)
	} else if t.Prepare, err = features.ReadProcessor(dir, vision.DINO(c.Side)); err != nil {
		return nil, err
	}
	side := t.Prepare.Size
	if side < 1 || side%c.Patch != 0 || c.Side%c.Patch != 0 {
		return nil, fmt.Errorf("%s: pictures of %d x %d and positions for %d x %d: both must be multiples of the patch, %d", dir, side, side, c.Side, c.Side, c.Patch)
	}
	if side > features.MostSide || side/c.Patch > mostGrid {
		return nil, fmt.Errorf("%s: pictures of %d x %d in patches of %d; at most %d x %d and %d patches a side are read", dir, side, side, c.Patch, features.MostSide, features.MostSide, mostGrid)
	}
	if o.Patches {
		t.Prepare.Fit = vision.Stretch
	}
	t.Soft = t.Prepare
	t.Soft.Centring = vision.HalfToEven
	set, err := safetensors.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	var n *Network
	t.Device, t.Batch, t.Width = o.Device, o.Batch, c.Width
	if t.params, err = o.Device.Load(set, func(p *nn.Params) { n = New(p, c, side) }); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	t.Forward, t.Grid = n.Forward, side/c.Patch
	if o.Patches {
		t.Forward, t.Width = n.Patches, t.Grid*t.Grid*c.Width
	}
	return t, nil
}

// mostGrid is how many patches a side has at most.
const mostGrid = 256

// Close gives the memory back.
func (t *Tower) Close() { t.Free(t.params) }
