package vae

import "fmt"

// Large pictures are decoded in tiles that overlap by a quarter, so that memory is that of
// a tile and the middle's attention does not grow with the square of the picture
// (diffusers' AutoencoderKL.tiled_decode). With side S of a tile and factor f:
//
//	tiles begin every 3/4·S latents; each is decoded alone
//	the first S·f/4 rows of a tile fade in over the last rows of the tile above, which has
//	been blended itself; columns likewise, after the rows
//	3/4·S·f rows and columns of each tile are kept, and all of the last ones
//
// A picture of one tile is decoded whole. Tiles are normalised alone, so that the result
// differs from a whole picture's by more than rounding.
//
// Invariants (tests): numbers are upstream's; where a decoder looks at no neighbours the
// result is that of the whole.

// Tiling is tiles of a size.
type Tiling struct {
	Side   int // latents; a multiple of 4
	Factor int // pixels a side of a latent pixel covers
}

// Check reports sides that tiles cannot have.
func (t Tiling) Check() error {
	if t.Side < 4 || t.Side%4 != 0 {
		return fmt.Errorf("tiles of %d pixels: sides must be multiples of %d", t.Side*t.Factor, 4*t.Factor)
	}
	return nil
}

// A Tile is part of a picture's latents: rows Y to Y+H-1, columns X to X+W-1.
type Tile struct{ Y, X, H, W int }

// Tiles are those of latents, row by row; a whole picture is one.
func (t Tiling) Tiles(rows, cols int) [][]Tile {
	if rows <= t.Side && cols <= t.Side {
		return [][]Tile{{{0, 0, rows, cols}}}
	}
	step := t.Side / 4 * 3
	var all [][]Tile
	for y := 0; y < rows; y += step {
		var row []Tile
		for x := 0; x < cols; x += step {
			row = append(row, Tile{y, x, min(t.Side, rows-y), min(t.Side, cols-x)})
		}
		all = append(all, row)
	}
	return all
}

// Decode joins a picture [rows·Factor, cols·Factor, channels] from its decoded tiles.
func (t Tiling) Decode(rows, cols, channels int, decode func(Tile) ([]float32, error)) ([]float32, error) {
	picture := make([]float32, rows*cols*t.Factor*t.Factor*channels)
	keep, fade := t.Side/4*3*t.Factor, t.Side/4*t.Factor
	var above []pixels
	tiles := t.Tiles(rows, cols)
	for _, row := range tiles {
		var now []pixels
		for j, tile := range row {
			numbers, err := decode(tile)
			if err != nil {
				return nil, err
			}
			p := pixels{numbers, tile.H * t.Factor, tile.W * t.Factor, channels}
			if above != nil {
				p.fadeDown(above[j], fade)
			}
			if j > 0 {
				p.fadeRight(now[j-1], fade)
			}
			now = append(now, p)
			high, wide := p.h, p.w
			if len(tiles) > 1 || len(row) > 1 {
				high, wide = min(p.h, keep), min(p.w, keep)
			}
			for y := range high {
				at := ((tile.Y*t.Factor+y)*cols*t.Factor + tile.X*t.Factor) * channels
				copy(picture[at:at+wide*channels], p.x[y*p.w*channels:])
			}
		}
		above = now
	}
	return picture, nil
}

// pixels are a decoded tile, [h, w, channels].
type pixels struct {
	x    []float32
	h, w int
	each int
}

// fadeDown blends the first rows into the last rows of the tile above.
func (p pixels) fadeDown(above pixels, rows int) {
	rows = min(rows, p.h, above.h)
	for y := range rows {
		p.blend(above, y, 0, above.h-rows+y, 0, p.w, share(y, rows))
	}
}

// fadeRight blends the first columns into the last columns of the tile to the left.
func (p pixels) fadeRight(left pixels, cols int) {
	cols = min(cols, p.w, left.w)
	for y := range p.h {
		for x := range cols {
			p.blend(left, y, x, y, left.w-cols+x, 1, share(x, cols))
		}
	}
}

func share(i, of int) float32 { return float32(float64(i) / float64(of)) }

// blend moves n pixels from those of another tile towards their own by a share.
func (p pixels) blend(o pixels, y, x, oy, ox, n int, own float32) {
	to, from := p.x[(y*p.w+x)*p.each:][:n*p.each], o.x[(oy*o.w+ox)*p.each:]
	for i, v := range to {
		to[i] = float32(from[i]*(1-own)) + float32(v*own)
	}
}
