package vae

import (
	"errors"
	"math"
	"testing"
)

// A decoder that looks at no neighbours gives the same picture in tiles and whole: nothing
// is moved, repeated or left out, and shares add up to one.
func TestTilesOfALocalDecoderAreTheWhole(t *testing.T) {
	for _, c := range []struct{ side, factor, rows, cols, tiles int }{
		{8, 4, 8, 8, 1}, {8, 4, 7, 3, 1}, {8, 2, 9, 8, 4}, {8, 2, 13, 21, 12}, {4, 8, 30, 5, 20}, {16, 1, 16, 17, 4}, {12, 2, 20, 19, 9},
	} {
		color := func(y, x, channel int) float32 {
			return float32(math.Sin(float64(y*y+3*x+channel*7))) + float32(y)/10
		}
		tiling, tiles := Tiling{Side: c.side, Factor: c.factor}, 0
		got, err := tiling.Decode(c.rows, c.cols, 3, func(tile Tile) ([]float32, error) {
			tiles++
			if tile.H > c.side || tile.W > c.side || tile.Y+tile.H > c.rows || tile.X+tile.W > c.cols {
				t.Fatalf("%+v of %d x %d", tile, c.rows, c.cols)
			}
			var x []float32
			for y := range tile.H * c.factor {
				for w := range tile.W * c.factor {
					for channel := range 3 {
						x = append(x, color(tile.Y*c.factor+y, tile.X*c.factor+w, channel))
					}
				}
			}
			return x, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if tiles != c.tiles || len(got) != c.rows*c.cols*c.factor*c.factor*3 {
			t.Errorf("%+v: %d tiles, %d numbers", c, tiles, len(got))
		}
		for i, v := range got {
			y, x := i/3/(c.cols*c.factor), i/3%(c.cols*c.factor)
			if want := color(y, x, i%3); math.Abs(float64(v-want)) > 1e-6*(1+math.Abs(float64(want))) {
				t.Fatalf("%+v: pixel %d, %d is %v, want %v", c, y, x, v, want)
			}
		}
	}
}

// Tiles that differ from each other fade: in a row or a column of tiles no step between neighbours is larger than a
// pixel's share. Where four tiles meet, rows fade before columns do, which leaves upstream's step of a quarter of the
// tiles' difference.
func TestTilesHaveNoSeams(t *testing.T) {
	const side, factor = 16, 4
	for _, c := range []struct {
		rows, cols int
		limit      float64
	}{{12, 40, 4.0 / (side * factor)}, {40, 10, 4.0 / (side * factor)}, {40, 28, 0.25}} {
		n := 0
		got, err := Tiling{side, factor}.Decode(c.rows, c.cols, 3, func(tile Tile) ([]float32, error) {
			n++
			x := make([]float32, tile.H*tile.W*factor*factor*3)
			for i := range x {
				x[i] = float32(n % 2) // neighbours are black and white
			}
			return x, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		wide, most := c.cols*factor, 0.0
		for i := range got {
			if i >= 3*wide {
				most = max(most, math.Abs(float64(got[i]-got[i-3*wide])))
			}
			if i/3%wide > 0 {
				most = max(most, math.Abs(float64(got[i]-got[i-3])))
			}
		}
		if most > c.limit+1e-6 || most < c.limit/2 {
			t.Errorf("%d x %d: the largest step between neighbours is %v; %v is expected", c.rows, c.cols, most, c.limit)
		}
	}
}

func TestTilingRefuses(t *testing.T) {
	for _, side := range []int{0, -4, 6, 3} {
		if (Tiling{side, 8}).Check() == nil {
			t.Errorf("tiles of %d latents are taken", side)
		}
	}
	said := errors.New("no")
	if _, err := (Tiling{4, 2}).Decode(9, 9, 3, func(Tile) ([]float32, error) { return nil, said }); !errors.Is(err, said) {
		t.Error(err)
	}
}
