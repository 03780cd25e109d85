// Package jpeg writes JPEG files byte for byte as libjpeg and Pillow do with their defaults:
// 4:2:0, the standard Huffman tables, the accurate integer transform, a JFIF header.
//
// Why not the standard library's encoder: published compressibility rewards are the size of
// Pillow's file, and the standard library's is 4 % smaller to 8 % larger, unevenly over
// pictures. A reward that differs by the picture is another reward.
//
// Pictures are RGB, 8 bits, row-major, channels last.
package jpeg

import (
	"fmt"
	mathbits "math/bits"
)

// Card: baseline JPEG (ITU T.81) with libjpeg's choices. Planes Y, Cb, Cr, of which
// the last two have half the size; blocks of 8 x 8 through the transform, divided
// by the quality's table half away from zero; coefficients in zigzag order as Huffman codes
// in units of 16 x 16 pixels. A unit's blocks beyond the picture hold the mean of
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

// Card: colours as libjpeg's jccolor.c and jcsample.c turn them, in 16.16 fixed point.
//
//	Y  = 0.299 R + 0.587 G + 0.114 B                rounded to nearest
//	Cb = -0.16874 R - 0.33126 G + 0.5 B + 128       rounded to nearest, half down
//	Cr = 0.5 R - 0.41869 G - 0.08131 B + 128
//
// Cb and Cr become the sum of 2 x 2 pixels plus 1 and 2 in turn along a row, over 4. Beyond
// the right edge pixels repeat before that, beyond the lower edge results repeat after it,
// but for the one row that an odd height lacks.

// A plane holds one colour with the size of whole units.
type plane struct {
	width, height int
	pix           []uint8
}

func newPlane(width, height int) plane { return plane{width, height, make([]uint8, width*height)} }

// block is a block's pixels around zero.
func (p plane) block(x, y int) (out [64]int32) {
	for r := range 8 {
		row := p.pix[(8*y+r)*p.width+8*x:][:8]
		for c, v := range row {
			out[8*r+c] = int32(v) - 128
		}
	}
	return out
}

// repeatRows fills the rows from n on with row n-1.
func (p plane) repeatRows(n int) {
	for y := n; y < p.height; y++ {
		copy(p.pix[y*p.width:(y+1)*p.width], p.pix[(n-1)*p.width:])
	}
}

func planesOf(rgb []uint8, width, height int) [3]plane {
	w, h := (width+15)/16*16, (height+15)/16*16
	full := [3]plane{newPlane(w, h), newPlane(w, h), newPlane(w, h)}
	for y := range height {
		for x := range w {
			p := rgb[3*(y*width+min(x, width-1)):]
			r, g, b := int32(p[0]), int32(p[1]), int32(p[2])
			at := y*w + x
			full[0].pix[at] = uint8((19595*r + 38470*g + 7471*b + 1<<15) >> 16)
			full[1].pix[at] = uint8((-11059*r - 21709*g + 32768*b + 128<<16 + 1<<15 - 1) >> 16)
			full[2].pix[at] = uint8((32768*r - 27439*g - 5329*b + 128<<16 + 1<<15 - 1) >> 16)
		}
	}
	for _, p := range full {
		p.repeatRows(height)
	}
	return [3]plane{full[0], halved(full[1], (height+1)/2), halved(full[2], (height+1)/2)}
}

// halved is a plane at half its size, of which rows are there.
func halved(p plane, rows int) plane {
	out := newPlane(p.width/2, p.height/2)
	for y := range rows {
		upper, lower := p.pix[2*y*p.width:], p.pix[(2*y+1)*p.width:]
		for x := range out.width {
			sum := int(upper[2*x]) + int(upper[2*x+1]) + int(lower[2*x]) + int(lower[2*x+1])
			out.pix[y*out.width+x] = uint8((sum + 1 + x%2) >> 2)
		}
	}
	out.repeatRows(rows)
	return out
}

// Card: the forward cosine transform of 8 x 8 numbers, 8 times too large, by Loeffler,
// Ligtenberg and Moschytz (1989) in 13-bit fixed point with two more bits between the passes:
// libjpeg's jfdctint.c ("islow"), whose roundings it repeats.

const (
	scaleBits = 13
	extraBits = 2
)

func transform(b *[64]int32) {
	for y := range 8 {
		pass(b[8*y:], 1, -extraBits, scaleBits-extraBits)
	}
	for x := range 8 {
		pass(b[x:], 8, extraBits, scaleBits+extraBits)
	}
}

// descaled is v / 2^n, half up; times 2^-n where n is negative.
func descaled(v int32, n int) int32 {
	if n < 0 {
		return v << -n
	}
	return (v + 1<<(n-1)) >> n
}

// pass transforms eight numbers that lie step apart. Sums of the first kind have no factor,
// the others have 2^13.
func pass(b []int32, step, sums, products int) {
	b = b[:7*step+1]
	b0, b1, b2, b3 := b[0], b[step], b[2*step], b[3*step]
	b4, b5, b6, b7 := b[4*step], b[5*step], b[6*step], b[7*step]
	s0, s1, s2, s3 := b0+b7, b1+b6, b2+b5, b3+b4
	s7, s6, s5, s4 := b0-b7, b1-b6, b2-b5, b3-b4

	e0, e3, e1, e2 := s0+s3, s0-s3, s1+s2, s1-s2
	b[0], b[4*step] = descaled(e0+e1, sums), descaled(e0-e1, sums)
	z := (e2 + e3) * 4433
	b[2*step], b[6*step] = descaled(z+e3*6270, products), descaled(z-e2*15137, products)

	z1, z2, z3, z4 := (s4+s7)*-7373, (s5+s6)*-20995, s4+s6, s5+s7
	z5 := (z3 + z4) * 9633
	z3, z4 = z3*-16069+z5, z4*-3196+z5
	b[7*step] = descaled(s4*2446+z1+z3, products)
	b[5*step] = descaled(s5*16819+z2+z4, products)
	b[3*step] = descaled(s6*25172+z2+z3, products)
	b[1*step] = descaled(s7*12299+z1+z4, products)
}

// codes are a Huffman table ready for use: the bits of each symbol and how many they are.
type codes [256]struct {
	bits uint32
	n    uint8
}

// codesOf numbers the symbols of a table: codes of one length count up, and a longer one
// goes on from twice the next.
func codesOf(table string) (c codes) {
	next, at := uint32(0), 16
	for n := range 16 {
		for range table[n] {
			c[table[at]].bits, c[table[at]].n = next, uint8(n+1)
			next++
			at++
		}
		next *= 2
	}
	return c
}

// bits collects codes into bytes. After a byte of ones comes a zero byte.
type bits struct {
	out  []byte
	held uint32 // the lowest n bits are still to be written
	n    uint8
}

func (b *bits) put(v uint32, n uint8) {
	b.held, b.n = b.held<<n|v, b.n+n
	for b.n >= 8 {
		b.n -= 8
		full := byte(b.held >> b.n)
		b.out = append(b.out, full)
		if full == 0xff {
			b.out = append(b.out, 0)
		}
	}
	b.held &= 1<<b.n - 1
}

// flush fills the last byte with ones.
func (b *bits) flush() {
	if b.n > 0 {
		b.put(1<<(8-b.n)-1, 8-b.n)
	}
}

func (b *bits) code(symbol uint8, c *codes) { b.put(c[symbol].bits, c[symbol].n) }

// number writes a number after a run of zeros: a code for the run and its length in bits,
// then its bits, those of a negative one less 1.
func (b *bits) number(zeros int, v int32, c *codes) {
	size, low := v, v
	if v < 0 {
		size, low = -v, v-1
	}
	n := uint8(mathbits.Len32(uint32(size)))
	b.code(uint8(zeros<<4)|n, c)
	if n > 0 {
		b.put(uint32(low)&(1<<n-1), n)
	}
}

// The tables of ITU T.81, annex K, which are libjpeg's defaults.

// Divisors at quality 50, in the order of the picture.
var lumaTable = [64]uint8{
	16, 11, 10, 16, 24, 40, 51, 61,
	12, 12, 14, 19, 26, 58, 60, 55,
	14, 13, 16, 24, 40, 57, 69, 56,
	14, 17, 22, 29, 51, 87, 80, 62,
	18, 22, 37, 56, 68, 109, 103, 77,
	24, 35, 55, 64, 81, 104, 113, 92,
	49, 64, 78, 87, 103, 121, 120, 101,
	72, 92, 95, 98, 112, 100, 103, 99,
}

var chromaTable = [64]uint8{
	17, 18, 24, 47, 99, 99, 99, 99,
	18, 21, 26, 66, 99, 99, 99, 99,
	24, 26, 56, 99, 99, 99, 99, 99,
	47, 66, 99, 99, 99, 99, 99, 99,
	99, 99, 99, 99, 99, 99, 99, 99,
	99, 99, 99, 99, 99, 99, 99, 99,
	99, 99, 99, 99, 99, 99, 99, 99,
	99, 99, 99, 99, 99, 99, 99, 99,
}

// zigzag is the order in which coefficients are written.
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10,
	17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34,
	27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36,
	29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46,
	53, 60, 61, 54, 47, 55, 62, 63,
}

// Huffman codes of means and of the rest, as a file holds them: the number of codes of 1 to 16 bits, then their
// symbols.
const (
	lumaMeans = "\x00\x01\x05\x01\x01\x01\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"
	lumaRest = "\x00\x02\x01\x03\x03\x02\x04\x03\x05\x05\x04\x04\x00\x00\x01\x7d" +
		"\x01\x02\x03\x00\x04\x11\x05\x12\x21\x31\x41\x06\x13\x51\x61\x07" +
		"\x22\x71\x14\x32\x81\x91\xa1\x08\x23\x42\xb1\xc1\x15\x52\xd1\xf0" +
		"\x24\x33\x62\x72\x82\x09\x0a\x16\x17\x18\x19\x1a\x25\x26\x27\x28" +
		"\x29\x2a\x34\x35\x36\x37\x38\x39\x3a\x43\x44\x45\x46\x47\x48\x49" +
		"\x4a\x53\x54\x55\x56\x57\x58\x59\x5a\x63\x64\x65\x66\x67\x68\x69" +
		"\x6a\x73\x74\x75\x76\x77\x78\x79\x7a\x83\x84\x85\x86\x87\x88\x89" +
		"\x8a\x92\x93\x94\x95\x96\x97\x98\x99\x9a\xa2\xa3\xa4\xa5\xa6\xa7" +
		"\xa8\xa9\xaa\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xc2\xc3\xc4\xc5" +
		"\xc6\xc7\xc8\xc9\xca\xd2\xd3\xd4\xd5\xd6\xd7\xd8\xd9\xda\xe1\xe2" +
		"\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8" +
		"\xf9\xfa"
	chromaMeans = "\x00\x03\x01\x01\x01\x01\x01\x01\x01\x01\x01\x00\x00\x00\x00\x00" +
		"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"
	chromaRest = "\x00\x02\x01\x02\x04\x04\x03\x04\x07\x05\x04\x04\x00\x01\x02\x77" +
		"\x00\x01\x02\x03\x11\x04\x05\x21\x31\x06\x12\x41\x51\x07\x61\x71" +
		"\x13\x22\x32\x81\x08\x14\x42\x91\xa1\xb1\xc1\x09\x23\x33\x52\xf0" +
		"\x15\x62\x72\xd1\x0a\x16\x24\x34\xe1\x25\xf1\x17\x18\x19\x1a\x26" +
		"\x27\x28\x29\x2a\x35\x36\x37\x38\x39\x3a\x43\x44\x45\x46\x47\x48" +
		"\x49\x4a\x53\x54\x55\x56\x57\x58\x59\x5a\x63\x64\x65\x66\x67\x68" +
		"\x69\x6a\x73\x74\x75\x76\x77\x78\x79\x7a\x82\x83\x84\x85\x86\x87" +
		"\x88\x89\x8a\x92\x93\x94\x95\x96\x97\x98\x99\x9a\xa2\xa3\xa4\xa5" +
		"\xa6\xa7\xa8\xa9\xaa\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xc2\xc3" +
		"\xc4\xc5\xc6\xc7\xc8\xc9\xca\xd2\xd3\xd4\xd5\xd6\xd7\xd8\xd9\xda" +
		"\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xf2\xf3\xf4\xf5\xf6\xf7\xf8" +
		"\xf9\xfa"
)
