package mmdit

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// TestAttendPlace: memory for the result is asked for once, when queries and keys before their rotation are gone.
func TestAttendPlace(t *testing.T) {
	be := cpu.NewWith(cpu.Options{Threads: 1})
	defer be.Close()
	pool := tensor.NewPool(be)
	tp := autograd.New(pool, autograd.Options{DType: kernels.F32})
	defer tp.Reset()
	const tokens, heads, width = 64, 2, 64
	upload := func(name string) *autograd.Value {
		return tp.Upload(name, make([]float32, tokens*width), 1, tokens, width)
	}
	places := make([][]float32, tokens)
	for i := range places {
		places[i] = []float32{0, float32(i), 0}
	}
	turn := Rotary{Heads: heads, Axes: []int{8, 12, 12}}.Turn(tp, places)
	before, asked := pool.Stats().InUse, 0
	x := upload("beside")
	own := pool.Stats().InUse - before
	a := Attend(tp, upload("q"), upload("k"), upload("v"), turn, autograd.Attend{Heads: heads}, func() autograd.Place {
		asked++
		if lies := pool.Stats().InUse - before; lies > 4*own+own/2 {
			t.Errorf("%d bytes lie beside the result's, and queries, keys, values and a value beside them are %d", lies, 4*own)
		}
		return tp.Places(x, width)[0]
	}, tokens)
	if asked != 1 || a.Dim(1) != tokens || a.Dim(2) != width {
		t.Errorf("asked %d times for the place of %v", asked, a.Shape())
	}
}
