package jpeg

import "fmt"

// Card: baseline JPEG (ITU T.81) with libjpeg's choices. Planes Y, Cb, Cr (planes.go), of which
// the last two have half the size; blocks of 8 x 8 through the transform (transform.go), divided
// by the quality's table half away from zero; coefficients in zigzag order as Huffman codes
// (codes.go), in units of 16 x 16 pixels. A unit's blocks beyond the picture hold the mean of
// the block before them alone. The invariant: CRC-32 sums of Pillow's files.

// DefaultQuality is libjpeg's and Pillow's.
const DefaultQuality = 75

// Encode writes a picture of width x height at a quality from 1 to 100.
func Encode(rgb []uint8, width, height, quality int) ([]byte, error) {
	switch {
	case width < 1 || height < 1 || width > 65535 || height > 65535:
		return nil, fmt.Errorf("a JPEG of %d x %d pixels: sides of 1 to 65535 are possible", width, height)
	case len(rgb) != 3*width*height:
		return nil, fmt.Errorf("%d bytes are not %d x %d pixels of three", len(rgb), width, height)
	case quality < 1 || quality > 100:
		return nil, fmt.Errorf("a JPEG of quality %d: 1 to 100 are possible, %d is usual", quality, DefaultQuality)
	}
	e := encoder{width: width, height: height, luma: scaled(lumaTable, quality), chroma: scaled(chromaTable, quality)}
	e.header()
	e.scan(planesOf(rgb, width, height))
	e.flush()
	return append(e.out, 0xff, 0xd9), nil
}

type encoder struct {
	width, height int
	luma, chroma  [64]uint8 // divisors, in the order of the picture
	bits
}

// scaled is a table at a quality.
func scaled(table [64]uint8, quality int) (out [64]uint8) {
	percent := 200 - 2*quality
	if quality < 50 {
		percent = 5000 / quality
	}
	for i, v := range table {
		out[i] = uint8(min(max((int(v)*percent+50)/100, 1), 255))
	}
	return out
}

func (e *encoder) segment(marker byte, body ...byte) {
	n := len(body) + 2
	e.out = append(append(e.out, 0xff, marker, byte(n>>8), byte(n)), body...)
}

func (e *encoder) header() {
	e.out = append(e.out, 0xff, 0xd8)
	e.segment(0xe0, 'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0)
	for i, table := range [][64]uint8{e.luma, e.chroma} {
		body := []byte{byte(i)}
		for _, at := range zigzag {
			body = append(body, table[at])
		}
		e.segment(0xdb, body...)
	}
	e.segment(0xc0, 8, byte(e.height>>8), byte(e.height), byte(e.width>>8), byte(e.width), 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1)
	for i, s := range []string{lumaMeans, lumaRest, chromaMeans, chromaRest} {
		e.segment(0xc4, append([]byte{[]byte{0x00, 0x10, 0x01, 0x11}[i]}, s...)...)
	}
	e.segment(0xda, 3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0)
}

// scan writes all units, row by row.
func (e *encoder) scan(planes [3]plane) {
	lumaCodes := [2]codes{codesOf(lumaMeans), codesOf(lumaRest)}
	chromaCodes := [2]codes{codesOf(chromaMeans), codesOf(chromaRest)}
	wide, high := (e.width+7)/8, (e.height+7)/8 // blocks of Y that hold something
	var mean [3]int32                           // of the block before, by plane
	for uy := range (e.height + 15) / 16 {
		for ux := range (e.width + 15) / 16 {
			for i := range 4 {
				x, y := 2*ux+i%2, 2*uy+i/2
				var block [64]int32
				if x < wide && y < high {
					block = quantised(planes[0].block(x, y), &e.luma)
				} else {
					block[0] = mean[0]
				}
				e.block(&block, &mean[0], &lumaCodes)
			}
			for c := 1; c < 3; c++ {
				block := quantised(planes[c].block(ux, uy), &e.chroma)
				e.block(&block, &mean[c], &chromaCodes)
			}
		}
	}
}

// quantised is a block's transform, divided. The transform is 8 times too large.
func quantised(block [64]int32, table *[64]uint8) [64]int32 {
	transform(&block)
	for i, v := range block {
		d := int32(table[i]) * 8
		if v < 0 {
			block[i] = -((-v + d/2) / d)
		} else {
			block[i] = (v + d/2) / d
		}
	}
	return block
}

// block writes one block: its mean as the difference from the one before, then runs of
// zeros with the number that ends each.
func (e *encoder) block(b *[64]int32, before *int32, c *[2]codes) {
	e.number(0, b[0]-*before, &c[0])
	*before = b[0]
	zeros := 0
	for _, at := range zigzag[1:] {
		v := b[at]
		if v == 0 {
			zeros++
			continue
		}
		for ; zeros > 15; zeros -= 16 {
			e.code(0xf0, &c[1])
		}
		e.number(zeros, v, &c[1])
		zeros = 0
	}
	if zeros > 0 {
		e.code(0, &c[1])
	}
}
