package jpeg

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
