package pretrain

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/flux"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/portable"
)

// An edit is mostly a copy, and a transformer that begins by chance spends most of its updates on learning to copy.
// Here it begins as one that returns its source, whatever the text says:
//
//	tokens    a token's latents are the first numbers of its state; a constant on the others keeps the norms' divisor
//	          nearly the same for all tokens
//	looking   in the first head of every single layer queries and keys are nearly constant, so that their rotary places
//	          alone decide, and a query leads its key by one picture: that of (0, y, x) meets the key of (1, y, x)
//	copying   the first layer writes what its first head saw behind the token's own latents
//	output    velocity = lead · (latents - copy), as where every time is 1/lead
//
// Nothing is frozen: all of it is trained as any other weight is.
const (
	lookSharp   = 3    // of the norms of queries and keys, in the numbers that places turn
	lookContent = 0.05 // share that is left of the first head's matrices
	faint       = 0.1  // share that is left of what would disturb the copy
	tokenLevel  = 2.5  // the constant
	tokenSpread = 2    // the norms' divisor that comes of it, for latents of deviation 1
	lead        = 1.25
)

// looking is how a head's constant begins: the numbers of pairs, and their lengths.
func looking(axes []int) map[int]float32 {
	row, column := axes[0], axes[0]+axes[1]
	return map[int]float32{0: 3, row: 2, row + 2: 2, column: 2, column + 2: 2}
}

// setting collects what is written to parameters, up to the first error.
type setting struct {
	params *nn.Params
	err    error
}

func (s *setting) set(name string, f func(x []float32)) {
	if s.err == nil {
		s.err = s.params.Set(name, f)
	}
}

// copies makes a drawn transformer begin as one that copies.
func copies(p *nn.Params, c flux.Config) error {
	w := c.Width()
	if c.HeadDim < c.In || w < 2*c.In || c.Single == 0 {
		return fmt.Errorf("model.copies: heads of %d numbers and tokens of %d cannot hold latents of %d twice, in single layers", c.HeadDim, w, c.In)
	}
	s := &setting{params: p}
	s.set("x_embedder.weight", func(x []float32) {
		scale(x, faint)
		diagonal(x, c.In, 0, 0, c.In, 1)
	})
	s.set("x_embedder.bias", func(x []float32) { copy(x, constant(w, c.In)) })
	for i := range c.Single {
		at := fmt.Sprintf("single_transformer_blocks.%d.", i)
		s.looks(at+"attn.", c)
		gate := float32(faint)
		if i == 0 {
			gate = 1
			s.writes(at, c)
		}
		s.set(at+"norm.linear.bias", func(x []float32) {
			for j := range x {
				x[j] = 0
				if j >= 2*w {
					x[j] = gate
				}
			}
		})
	}
	s.set("proj_out.weight", func(x []float32) {
		clear(x)
		diagonal(x, w, 0, 0, c.In, lead*tokenSpread)
		diagonal(x, w, 0, c.In, c.In, -lead*tokenSpread)
	})
	s.set("proj_out.bias", func(x []float32) {
		for j, level := range constant(w, c.In)[c.In : 2*c.In] {
			x[j] = lead * level
		}
	})
	return s.err
}

// looks makes the first head of a layer look at its token's place in the source.
func (s *setting) looks(at string, c flux.Config) {
	pairs := looking(c.Axes)
	for name, angle := range map[string]float64{"q": 1, "k": 0} {
		s.set(at+"to_"+name+".bias", func(x []float32) {
			for n, long := range pairs {
				x[n], x[n+1] = long, 0
			}
			x[0], x[1] = pairs[0]*float32(portable.Cos(angle)), pairs[0]*float32(portable.Sin(angle))
		})
		s.set(at+"to_"+name+".weight", func(x []float32) { soften(x, c, pairs) })
		s.set(at+"norm_"+name+".weight", func(x []float32) {
			for n := range pairs {
				x[n], x[n+1] = lookSharp, lookSharp
			}
		})
	}
}

// writes makes a layer write what its first head saw behind a token's own latents.
func (s *setting) writes(at string, c flux.Config) {
	w := c.Width()
	s.set(at+"attn.to_v.weight", func(x []float32) {
		clear(x[:c.HeadDim*w])
		diagonal(x, w, 0, 0, c.In, tokenSpread)
	})
	s.set(at+"attn.to_v.bias", func(x []float32) { clear(x[:c.HeadDim]) })
	s.set(at+"proj_out.weight", func(x []float32) {
		scale(x, faint)
		for row := range w {
			clear(x[row*5*w : row*5*w+c.HeadDim])
		}
		diagonal(x, 5*w, c.In, 0, c.In, 1)
	})
}

func scale(x []float32, by float32) {
	for j := range x {
		x[j] *= by
	}
}

// diagonal writes n equal numbers from a row and a column on, into rows of some width; what else is in these rows' and
// columns' square is 0.
func diagonal(x []float32, width, row, column, n int, value float32) {
	for i := range n {
		clear(x[(row+i)*width+column : (row+i)*width+column+n])
		x[(row+i)*width+column+i] = value
	}
}

// constant is a token's state where its latents are 0: levels of both signs behind the first numbers.
func constant(width, from int) []float32 {
	x := make([]float32, width)
	for j := from; j < width; j++ {
		x[j] = tokenLevel * float32(1-2*(j%2))
	}
	return x
}

// soften leaves little of the first head's rows, and takes what the norms add from the others'.
func soften(x []float32, c flux.Config, pairs map[int]float32) {
	w := c.Width()
	for row := range w {
		share, n := float32(1), row%c.HeadDim
		if _, placed := pairs[n&^1]; placed {
			share = 1.0 / (lookSharp * lookSharp)
		}
		if row < c.HeadDim {
			share = lookContent
		}
		scale(x[row*w:(row+1)*w], share)
	}
}
