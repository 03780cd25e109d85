package pretrain

import (
	"math"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// Card: an AutoencoderKLWan whose weights are computed, not trained. A latent is the first principal components of a
// patch of a frame:
//
//	z = Pᵀ(x - m)   and   y = P·z + m
//
// A network with an RMS norm and SiLU before its last convolution is nearly linear this way: beside the n - 1 channels
// of components there is one of a large constant c, which makes the norm nearly √n/c for all pixels, and what is left
// of a component a is so small, a√n/c, that SiLU is nearly its half: silu(x) = x/2 + x²/4 - … Blocks and attention hand
// on what they get (their layers are zeros), and of a causal kernel only the middle of its last frame is not zero.
//
// What differs from Wan's: nothing is compressed over time. Trained for some hundred updates, an autoencoder this small
// lost the thing that moves (LOG.md).
// Invariant (test): what comes back is worth nearly as much to rewards as what was drawn.

// overwhelming is c. The components of a patch have lengths up to √48.
const overwhelming = 2048

// linear computes the autoencoder and measures its latents.
func (r *wanRun) linear() error {
	if err := r.write(r.components()); err != nil {
		return err
	}
	v, params, err := r.openVAE(false)
	if err != nil {
		return err
	}
	defer params.Free()
	return r.settled(v).frame(r.dir)
}

// write writes an autoencoder of computed weights.
func (r *wanRun) write(c patches) error {
	_, params, err := r.openVAE(true, ".*")
	if err != nil {
		return err
	}
	defer params.Free()
	all, err := params.Stored()
	if err != nil {
		return err
	}
	for i, t := range all {
		if all[i], err = safetensors.FromF32(t.Name, t.Shape, c.weights(t.Name, t.Shape)).Halved(); err != nil {
			return err
		}
	}
	p := r.vaePart()
	return safetensors.Write(filepath.Join(r.dir, p.folder, p.base+".safetensors"), all, map[string]string{"format": "pt"})
}

// patches are what an autoencoder of one level knows of clips: the mean of patches and their components.
type patches struct {
	mean       []float64
	components [][]float64
}

// components measures the patches of clips.
func (r *wanRun) components() patches {
	p := r.VAE.Patch
	size, n := 3*p*p, 0.0
	sum, products := make([]float64, size), make([]float64, size*size)
	for i := range min(r.Data.Clips, 256) {
		x := r.clip(i)
		for top := 0; top < moving.Frames*moving.Size; top += p {
			for left := 0; left < moving.Size; left += p {
				add(patch(x, top, left, p), sum, products)
				n++
			}
		}
	}
	for i := range size {
		sum[i] /= n
	}
	for i := range size {
		for j := range size {
			products[i*size+j] = products[i*size+j]/n - float64(sum[i]*sum[j])
		}
	}
	return patches{sum, principal(products, size, r.VAE.Latent)}
}

// patch is a patch of a clip in the order of channels that the network folds it into. Frames stand below each other.
func patch(x []float32, top, left, p int) []float64 {
	out := make([]float64, 0, 3*p*p)
	for c := range 3 {
		for col := range p {
			for row := range p {
				out = append(out, float64(x[3*((top+row)*moving.Size+left+col)+c]))
			}
		}
	}
	return out
}

// add adds a patch, and the products of its numbers.
func add(x, sum, products []float64) {
	for i, a := range x {
		sum[i] += a
		row := products[i*len(x) : (i+1)*len(x)]
		for j, b := range x {
			row[j] += float64(a * b)
		}
	}
}

// kernel is a convolution's weight on the disk, [out, in, frames, rows, columns], of which only the middle of the last
// frame is set.
type kernel struct {
	of                    []float32
	in, frames, row, cols int
}

func (k kernel) set(out, in int, to float64) {
	k.of[(((out*k.in+in)*k.frames+k.frames-1)*k.row+k.row/2)*k.cols+k.cols/2] = float32(to)
}

// weights fills in a parameter of the autoencoder: zeros but for the layers on the way.
func (c patches) weights(name string, shape []int) []float32 {
	n := 1
	for _, d := range shape {
		n *= d
	}
	x, z := make([]float32, n), len(c.components)
	var k kernel
	if len(shape) == 5 {
		k = kernel{x, shape[1], shape[2], shape[3], shape[4]}
	}
	switch {
	case strings.HasSuffix(name, ".gamma"):
		for i := range x {
			x[i] = 1
		}
	case name == "quant_conv.weight", name == "post_quant_conv.weight":
		for i := range shape[0] {
			k.set(i, i, 1)
		}
	case name == "encoder.conv_in.weight":
		for i, v := range c.components {
			for j, w := range v {
				k.set(i, j, w)
			}
		}
	case name == "encoder.conv_in.bias":
		for i, v := range c.components {
			at := 0.0
			for j, w := range v {
				at += float64(w * c.mean[j])
			}
			x[i] = float32(-at)
		}
		x[len(x)-1] = overwhelming
	case name == "decoder.conv_in.weight":
		for i := range z {
			k.set(i, i, 1)
		}
	case name == "decoder.conv_in.bias":
		x[len(x)-1] = overwhelming
	case name == "encoder.conv_out.weight":
		for i := range z {
			k.set(i, i, 2*overwhelming/math.Sqrt(float64(shape[1])))
		}
	case name == "encoder.conv_out.bias":
		for i := range z {
			x[z+i] = -6 // a posterior without noise
		}
	case name == "decoder.conv_out.weight":
		s := 2 * overwhelming / math.Sqrt(float64(shape[1]))
		for i, v := range c.components {
			for j, w := range v {
				k.set(j, i, float64(w*s))
			}
		}
	case name == "decoder.conv_out.bias":
		for j, m := range c.mean {
			x[j] = float32(m)
		}
	}
	return x
}
