package zimage

import (
	"github.com/darkroom-rl/darkroom/kernels/autograd"
)

// Tokens of a picture and of a caption are sequences of a multiple of 32, filled up with a token that was
// learned and that all others see. A caption's tokens are at (1, 0, 0), (2, 0, 0), ..., through its filling;
// a picture's at (end of the caption + 1, row, column), and its filling at (0, 0, 0).

// multiple is what lengths are multiples of.
const multiple = 32

// filled is the length of a sequence of n tokens.
func filled(n int) int { return (n + multiple - 1) / multiple * multiple }

// fill adds the token to x [1, n, Width] as often as is lacking.
func fill(tp *autograd.Tape, x *autograd.Value, token *autograd.Param) *autograd.Value {
	n, width := x.Dim(1), x.Dim(2)
	rest := filled(n) - n
	if rest == 0 {
		return x
	}
	one := tp.AddParam(tp.Upload("filling", make([]float32, width), 1, 1, width), token)
	return tp.Concat(1, x, tp.Gather(one, make([]int32, rest), 1, rest))
}

// captionPlaces are those of a caption's sequence.
func captionPlaces(words int) [][]float32 {
	places := make([][]float32, filled(words))
	for i := range places {
		places[i] = []float32{float32(1 + i), 0, 0}
	}
	return places
}

// picturePlaces are those of a picture of h x w tokens beside a caption.
func picturePlaces(h, w, words int) [][]float32 {
	places := make([][]float32, 0, filled(h*w))
	for y := range h {
		for x := range w {
			places = append(places, []float32{float32(1 + filled(words)), float32(y), float32(x)})
		}
	}
	for len(places) < cap(places) {
		places = append(places, []float32{0, 0, 0})
	}
	return places
}
