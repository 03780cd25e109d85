package pipeline

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

func TestChannelsFirst(t *testing.T) {
	at := Shape{Rows: 4, Cols: 6}
	for _, packed := range []bool{false, true} {
		p := &layout{latentSpec: latentSpec{channels: 3, packed: packed}}
		x := make([]float32, 3*4*6)
		rng.New(1).Normal(x, 0)
		if got := p.LatentShape(at); !slices.Equal(got, []int{3, 4, 6}) {
			t.Errorf("shape %v", got)
		}
		latents, err := p.FromChannelsFirst(x, at)
		if err != nil {
			t.Fatal(err)
		}
		if back := p.ChannelsFirst(latents, at); !slices.Equal(back, x) {
			t.Errorf("packed %v: there and back is another tensor", packed)
		}
		// Channel 2 at row 1, column 3: pixel 9 of 3 channels, or token (0, 1) of 2 x 2 patches.
		place := 9*3 + 2
		if packed {
			place = 1*12 + 2*4 + 2*1 + 1
		}
		if latents[place] != float64(x[2*24+9]) {
			t.Errorf("packed %v: a number is at another place", packed)
		}
		x[5] = float32(math.NaN())
		if _, err := p.FromChannelsFirst(x, at); err == nil || !strings.Contains(err.Error(), "NaN") {
			t.Errorf("NaN: %v", err)
		}
		if _, err := p.FromChannelsFirst(x[1:], at); err == nil || !strings.Contains(err.Error(), "71 numbers") {
			t.Errorf("too few: %v", err)
		}
	}
}
