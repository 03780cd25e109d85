package main

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// counted is a backend that computes nothing and counts the operations of products and attention: two operations a
// multiply-add, of attention those of the scores that are seen. A network's other operations are not counted.
type counted struct {
	*cpu.Dry
	operations float64
}

func newCounted() (*counted, error) {
	path, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	return &counted{Dry: cpu.NewBare(cpu.Options{Path: path})}, nil
}

// Gemm is counted whole, with either operand turned, and with its pair.
func (c *counted) Gemm(a *kernels.Gemm) {
	k := a.A.Cols
	if a.Layout == kernels.TN {
		k = a.A.Rows
	}
	if a.Pair != nil {
		k += a.Pair.A.Cols
	}
	c.operations += 2 * float64(a.C.Rows) * float64(a.C.Cols) * float64(k)
	c.Dry.Gemm(a)
}

// Conv is a product of its windows.
func (c *counted) Conv(a *kernels.Conv) {
	c.operations += windows(a.Shape, a.N, a.H, a.W)
	c.Dry.Conv(a)
}

// ConvBackward has as many for each gradient.
func (c *counted) ConvBackward(a *kernels.ConvBackward) {
	for _, of := range []kernels.Span{a.DX, a.DWeight} {
		if !of.Empty() {
			c.operations += windows(a.Shape, a.N, a.H, a.W)
		}
	}
	c.Dry.ConvBackward(a)
}

func windows(s kernels.ConvShape, n, h, w int) float64 {
	oh, ow := s.OutSize(h, w)
	return 2 * float64(n*oh*ow) * float64(s.Out) * float64(s.KH*s.KW*s.In)
}

// Attention has two products, its backward five.
func (c *counted) Attention(a *kernels.Attention) {
	c.operations += 2 * scores(a)
	c.Dry.Attention(a)
}

func (c *counted) AttentionBackward(a *kernels.AttentionBackward) {
	c.operations += 5 * scores(&a.Attention)
	c.Dry.AttentionBackward(a)
}

// scores are the operations of one product of attention.
func scores(a *kernels.Attention) float64 {
	seen := float64(a.Q.S) * float64(a.K.S)
	if a.Causal {
		seen = float64(a.Q.S) * (float64(a.K.S) - float64(a.Q.S-1)/2)
	}
	return 2 * float64(a.Q.B*a.Q.H*a.Q.D) * seen
}
