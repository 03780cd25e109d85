package mmdit

import "github.com/darkroom-rl/darkroom/kernels/autograd"

// Joined is the second half of FLUX's networks: text and picture go through layers as one stream, words first, each
// layer a unit of memory that reads condition. It returns the first made tokens of the picture, which are those that
// are made; sources of an edit lie behind them. It lets go of text and x.
func Joined(tp *autograd.Tape, text, x *autograd.Value, made, layers int,
	forward func(i int, both, condition *autograd.Value) *autograd.Value, condition *autograd.Value) *autograd.Value {
	words := text.Dim(1)
	both := tp.Concat(1, text, x)
	tp.Release(text, x)
	for i := range layers {
		out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			return []*autograd.Value{forward(i, in[0], in[1])}
		}, both, condition)
		tp.Release(both)
		both = out[0]
	}
	parts := []int{words, made}
	if rest := both.Dim(1) - words - made; rest > 0 {
		parts = append(parts, rest)
	}
	return tp.Split(both, 1, parts...)[1]
}
