package main

import (
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/diffusion/flux"
	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/diffusion/qwenimage"
	"github.com/darkroom-rl/darkroom/diffusion/t5"
	"github.com/darkroom-rl/darkroom/diffusion/unet"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/video/dit"
	clips "github.com/darkroom-rl/darkroom/video/vae"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// build asks for a network's parameters by the settings in a folder.
type build func(dir string, p *nn.Params) error

// with is a build of a package's reader of settings and its network.
func with[C any](read func(dir string) (C, error), network func(*nn.Params, C)) build {
	return func(dir string, p *nn.Params) error {
		c, err := read(dir)
		if err == nil {
			network(p, c)
		}
		return err
	}
}

// networks are the classes that parts have.
var networks = map[string]build{
	"SD3Transformer2DModel":              with(mmdit.ReadConfig, func(p *nn.Params, c mmdit.Config) { mmdit.New(p, c) }),
	"QwenImageTransformer2DModel":        with(qwenimage.ReadConfig, func(p *nn.Params, c qwenimage.Config) { qwenimage.New(p, c) }),
	"UNet2DConditionModel":               with(unet.ReadConfig, func(p *nn.Params, c unet.Config) { unet.New(p, c) }),
	"WanTransformer3DModel":              with(dit.ReadConfig, func(p *nn.Params, c dit.Config) { dit.New(p, c) }),
	"AutoencoderKL":                      with(vae.ReadConfig, func(p *nn.Params, c vae.Config) { vae.New(p, c) }),
	"AutoencoderKLWan":                   with(clips.ReadConfig, func(p *nn.Params, c clips.Config) { clips.New(p, c) }),
	"AutoencoderKLQwenImage":             with(clips.ReadConfig, func(p *nn.Params, c clips.Config) { clips.New(p, c) }),
	"CLIPTextModel":                      with(clip.ReadTextConfig, func(p *nn.Params, c clip.TextConfig) { clip.NewText(p, c, false) }),
	"CLIPTextModelWithProjection":        with(clip.ReadTextConfig, func(p *nn.Params, c clip.TextConfig) { clip.NewText(p, c, true) }),
	"FluxTransformer2DModel":             with(flux.ReadConfig, func(p *nn.Params, c flux.Config) { flux.New(p, c) }),
	"T5EncoderModel":                     with(t5.ReadConfig, func(p *nn.Params, c t5.Config) { t5.New(p, c) }),
	"UMT5EncoderModel":                   with(t5.ReadConfig, func(p *nn.Params, c t5.Config) { t5.New(p, c) }),
	"Qwen2_5_VLForConditionalGeneration": with(vlm.ReadConfig, func(p *nn.Params, c vlm.Config) { vlm.New(p, c) }),
}

// asked are the names and sizes of a network's parameters. It is built where nothing is computed.
func (b build) asked(dir string) (map[string][]int, error) {
	path, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	p, err := nn.New(nn.Options{Pool: tensor.NewPool(cpu.NewDry(cpu.Options{Path: path}))})
	if err != nil {
		return nil, err
	}
	if err := b(dir, p); err != nil {
		return nil, err
	}
	return p.Requested(), p.Check()
}

// tensors are parameters without values, by name.
func tensors(asked map[string][]int, d safetensors.DType) (all []safetensors.Tensor, parameters int) {
	for name, shape := range asked {
		t := safetensors.Tensor{Name: name, DType: d, Shape: shape}
		all = append(all, t)
		if !strings.HasSuffix(name, "pos_embed.pos_embed") { // a table
			parameters += size(shape)
		}
	}
	slices.SortFunc(all, func(a, b safetensors.Tensor) int { return strings.Compare(a.Name, b.Name) })
	return all, parameters
}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Weights are drawn as PyTorch's layers begin, uniform within ±1/√inputs, so that signals keep their size; norms are
// ones, other vectors within ±0.02. A number is one of 4096 and made of half a random word, which depends on the key,
// its tensor's name and its place alone: cores share the work, and write side by side.

// draw writes the tensors of a shard.
func draw(shard []safetensors.Tensor, k rng.Key, put safetensors.Put) error {
	work := make(chan piece)
	var done sync.WaitGroup
	errs := make([]error, runtime.GOMAXPROCS(0))
	for i := range errs {
		done.Go(func() {
			var d drawer
			for p := range work {
				if errs[i] == nil {
					errs[i] = put(p.tensor, p.from*int64(p.width), d.draw(p))
				}
			}
		})
	}
	for i, t := range shard {
		pieces(i, t, k.With(rng.Purpose(t.Name)), work)
	}
	close(work)
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A piece is a part of a tensor: from is the number of its first element.
type piece struct {
	tensor  int
	from, n int64
	width   int // bytes of an element: 2 are bf16, 4 fp32
	bound   float64
	key     rng.Key
}

// pieceNumbers are the elements of a piece at most.
const pieceNumbers = 1 << 17

// pieces cut a tensor.
func pieces(i int, t safetensors.Tensor, k rng.Key, work chan<- piece) {
	n := int64(size(t.Shape))
	bound := 1 / math.Sqrt(float64(n/int64(t.Shape[0])))
	switch {
	case strings.HasSuffix(t.Name, ".gamma"), len(t.Shape) == 1 && strings.Contains(t.Name, "norm") && strings.HasSuffix(t.Name, ".weight"):
		bound = 0
	case len(t.Shape) == 1:
		bound = 0.02
	}
	for at := int64(0); at < n; at += pieceNumbers {
		work <- piece{i, at, min(n-at, pieceNumbers), t.DType.Bits() / 8, bound, k}
	}
}

// drawer holds the buffers of pieces.
type drawer struct {
	words []uint32
	bytes []byte
	table [1 << 12]uint32 // the numbers of a bound, as they are stored
}

// draw makes a piece; its bytes are good until the next one.
func (d *drawer) draw(p piece) []byte {
	if d.words == nil {
		d.words, d.bytes = make([]uint32, pieceNumbers/2), make([]byte, 4*pieceNumbers)
	}
	for i := range d.table {
		x := float32(1)
		if p.bound > 0 {
			x = float32(p.bound * (float64(2*i+1)/float64(len(d.table)) - 1))
		}
		d.table[i] = math.Float32bits(x)
		if p.width == 2 {
			d.table[i] = (d.table[i] + 0x7fff + d.table[i]>>16&1) >> 16
		}
	}
	words := d.words[:(p.n+1)/2]
	p.key.Words(words, uint64(p.from/2))
	out := d.bytes[:2*p.width*len(words)]
	for i, w := range words {
		lo, hi := d.table[w>>4&0xfff], d.table[w>>20]
		if p.width == 2 {
			binary.LittleEndian.PutUint32(out[4*i:], lo|hi<<16)
		} else {
			binary.LittleEndian.PutUint64(out[8*i:], uint64(lo)|uint64(hi)<<32)
		}
	}
	return out[:p.n*int64(p.width)]
}
