package flow

import (
	"math"

	"github.com/darkroom-rl/darkroom/video"
)

// border is how far the second frame goes on beyond its edges, which are repeated.
const border = 16

// search is a level: its frames, and the flow of the patches of its grid.
type search struct {
	d             *DIS
	width, height int
	first         []uint8
	second        []uint8 // with a border on each side
	stride        int     // of second
	gx, gy        []int16 // Sobel's gradients of first
	plain         []uint8 // second without a border

	columns, lines int          // of the grid
	sums           [5][]float32 // over each patch: gx gx, gy gy, gx gy, gx, gy
	x, y           []float32    // flow of the patches
	sx, sy         *plane       // flow to try, or nil
}

func newSearch(d *DIS, a, b Gray) (*search, error) {
	if min(a.Width, a.Height) < d.PatchSize {
		return nil, errSmall
	}
	s := &search{d: d, width: a.Width, height: a.Height, first: a.Pix, plain: b.Pix, stride: a.Width + 2*border}
	s.columns, s.lines = 1+(s.width-d.PatchSize)/d.PatchStride, 1+(s.height-d.PatchSize)/d.PatchStride
	s.second = make([]uint8, s.stride*(s.height+2*border))
	for y := range s.height + 2*border {
		from := b.Pix[min(max(y-border, 0), s.height-1)*s.width:][:s.width]
		to := s.second[y*s.stride:][:s.stride]
		copy(to[border:], from)
		for x := range border {
			to[x], to[border+s.width+x] = from[0], from[s.width-1]
		}
	}
	s.gradients()
	s.tensor()
	s.x, s.y = make([]float32, s.columns*s.lines), make([]float32, s.columns*s.lines)
	return s, nil
}

// start sets a flow of the full frame as one to try.
func (s *search) start(f *video.Field, times int) {
	whole := func(v []float32) *plane {
		p := newPlane(f.Width, f.Height)
		for y := range f.Height {
			copy(p.row(y), v[y*f.Width:][:f.Width])
		}
		return p.enlarged(s.width, s.height, 1/float64(times), s.d.Threads)
	}
	s.sx, s.sy = whole(f.X), whole(f.Y)
}

// gradients are Sobel's, edges mirrored.
func (s *search) gradients() {
	s.gx, s.gy = make([]int16, s.width*s.height), make([]int16, s.width*s.height)
	for y := range s.height {
		up, mid, down := s.first[mirrored(y-1, s.height)*s.width:][:s.width], s.first[y*s.width:][:s.width], s.first[mirrored(y+1, s.height)*s.width:][:s.width]
		gx, gy := s.gx[y*s.width:][:s.width], s.gy[y*s.width:][:s.width]
		at := func(x, l, r int) {
			gx[x] = int16(int(up[r]) - int(up[l]) + 2*(int(mid[r])-int(mid[l])) + int(down[r]) - int(down[l]))
			gy[x] = int16(int(down[l]) - int(up[l]) + 2*(int(down[x])-int(up[x])) + int(down[r]) - int(up[r]))
		}
		at(0, mirrored(-1, s.width), mirrored(1, s.width))
		for x := 1; x < s.width-1; x++ {
			at(x, x-1, x+1)
		}
		at(s.width-1, mirrored(s.width-2, s.width), mirrored(s.width, s.width))
	}
}

// tensor sums products of gradients over the patches: along rows first, as they come in and go
// out, in fp32.
func (s *search) tensor() {
	size, stride := s.d.PatchSize, s.d.PatchStride
	var rows [5][]float32
	for k := range rows {
		rows[k], s.sums[k] = make([]float32, s.height*s.columns), make([]float32, s.lines*s.columns)
	}
	for y := range s.height {
		gx, gy := s.gx[y*s.width:][:s.width], s.gy[y*s.width:][:s.width]
		var xx, yy, xy, x1, y1 float32
		at := y * s.columns
		next := size - 1
		for x, a := range gx {
			u, v := int32(a), int32(gy[x])
			dxx, dyy, dxy, dx, dy := u*u, v*v, u*v, u, v
			if x >= size {
				u, v = int32(gx[x-size]), int32(gy[x-size])
				dxx, dyy, dxy, dx, dy = dxx-u*u, dyy-v*v, dxy-u*v, dx-u, dy-v
			}
			xx, yy, xy, x1, y1 = xx+float32(dxx), yy+float32(dyy), xy+float32(dxy), x1+float32(dx), y1+float32(dy)
			if x == next {
				rows[0][at], rows[1][at], rows[2][at], rows[3][at], rows[4][at] = xx, yy, xy, x1, y1
				at, next = at+1, next+stride
			}
		}
	}
	for k, from := range rows {
		sum := make([]float32, s.columns)
		for y := range s.height {
			row := from[y*s.columns:][:s.columns]
			for x, v := range row {
				if y >= size {
					v -= from[(y-size)*s.columns+x]
				}
				sum[x] += v
			}
			if at := y - size + 1; at >= 0 && at%stride == 0 {
				copy(s.sums[k][at/stride*s.columns:], sum)
			}
		}
	}
}

// bands is how many parts the grid's rows are searched in.
const bands = 8

// find moves the patches, from the flow of the level so far. With propagation there are two
// passes, from the upper left and from the lower right.
func (s *search) find(k *kernels, x, y *plane) {
	passes := 2
	if s.d.WithoutPropagation {
		passes = 1
	}
	height := (s.lines + bands - 1) / bands
	rows(bands, s.d.Threads, func(from, to int) {
		for band := from; band < to; band++ {
			first, last := min(band*height, s.lines), min((band+1)*height, s.lines)
			for pass := range passes {
				s.pass(k, pass, s.d.Descent/passes, first, last, x, y)
			}
		}
	})
}

func (s *search) pass(k *kernels, pass, steps, first, last int, x, y *plane) {
	half, stride := s.d.PatchSize/2, s.d.PatchStride
	p := &patch{s: s, k: k}
	for a := range last - first {
		for b := range s.columns {
			line, column, dir := first+a, b, 1
			if pass == 1 {
				line, column, dir = last-1-a, s.columns-1-b, -1
			}
			at := line*s.columns + column
			p.i, p.j, p.at = line*stride, column*stride, at
			if pass == 0 {
				s.x[at], s.y[at] = x.row(p.i + half)[p.j+half], y.row(p.i + half)[p.j+half]
			}
			if !s.d.WithoutPropagation || s.sx != nil {
				best := p.distance(s.x[at], s.y[at])
				try := func(u, v float32) {
					if d := p.distance(u, v); d < best {
						best, s.x[at], s.y[at] = d, u, v
					}
				}
				if s.sx != nil {
					try(s.sx.row(p.i + half)[p.j+half], s.sy.row(p.i + half)[p.j+half])
				}
				if !s.d.WithoutPropagation && b > 0 {
					try(s.x[at-dir], s.y[at-dir])
				}
				if !s.d.WithoutPropagation && a > 0 {
					try(s.x[at-dir*s.columns], s.y[at-dir*s.columns])
				}
			}
			p.descend(steps)
		}
	}
}

// patch is one that is looked for.
type patch struct {
	s        *search
	k        *kernels
	i, j, at int // its corner, and its place in the grid

	w   [4]float32 // of four neighbours
	sum [4]float32 // of differences, their squares, their products with gx and gy
}

// descend moves the patch while its distance falls; where it ends up further off than its own
// size, it stays.
func (p *patch) descend(steps int) {
	s := p.s
	xx, yy, xy := s.sums[0][p.at], s.sums[1][p.at], s.sums[2][p.at]
	det := float32(xx*yy) - float32(xy*xy)
	if det < 0.001 && det > -0.001 {
		det = 0.001
	}
	h11, h12, h22 := yy/det, -xy/det, xx/det
	u, v := s.x[p.at], s.y[p.at]
	before := float32(1e10)
	for range steps {
		d, gx, gy := p.compare(u, v)
		u -= float32(h11*gx) + float32(h12*gy)
		v -= float32(h12*gx) + float32(h22*gy)
		if d >= before {
			break
		}
		before = d
	}
	a, b := float64(u-s.x[p.at]), float64(v-s.y[p.at])
	if math.Sqrt(float64(a*a)+float64(b*b)) <= float64(s.d.PatchSize) {
		s.x[p.at], s.y[p.at] = u, v
	}
}

// distance is the patch's difference from the patch a flow away: squares, less the square of the mean.
func (p *patch) distance(u, v float32) float32 {
	d, _, _ := p.compare(u, v)
	return d
}

// compare also gives the products of the differences with the gradients.
func (p *patch) compare(u, v float32) (d, gx, gy float32) {
	s := p.s
	size := s.d.PatchSize
	y, x := within(float32(p.i)+v, border, size, s.height), within(float32(p.j)+u, border, size, s.width)
	y0, x0 := floor32(y), floor32(x)
	fy, fx, ey, ex := y-y0, x-x0, y0+1-y, x0+1-x
	p.w, p.sum = [4]float32{ey * ex, ey * fx, fy * ex, fy * fx}, [4]float32{}
	from, to := p.i*s.width+p.j, int(y)*s.stride+int(x)
	if size == 8 {
		p.k.patch(&p.sum, s.first[from:], s.second[to:], s.gx[from:], s.gy[from:], s.width, s.stride, &p.w)
	} else {
		patchOf(size, &p.sum, s.first[from:], s.second[to:], s.gx[from:], s.gy[from:], s.width, s.stride, &p.w)
	}
	if s.d.WithoutMean {
		return p.sum[1], p.sum[2], p.sum[3]
	}
	n := float32(size * size)
	return p.sum[1] - p.sum[0]*p.sum[0]/n, p.sum[2] - p.sum[0]*s.sums[3][p.at]/n, p.sum[3] - p.sum[0]*s.sums[4][p.at]/n
}

// within is a place in the second frame with its border, not so far out that less than a
// column of the patch is left. NaN goes to the edge.
func within(x, border float32, size, n int) float32 {
	x += border
	if low := border - float32(size) + 1; !(x >= low) {
		return low
	}
	if high := border + float32(n) - 1; x > high {
		return high
	}
	return x
}

// patch8 compares 8 x 8 pixels: four lanes, to which the halves of a row are added, and at the
// end (0 + 2) + (1 + 3). It is the definition of patchAVX2's bits.
func patch8(sum *[4]float32, a, b []uint8, gx, gy []int16, strideA, strideB int, w *[4]float32) {
	var lanes [4][4]float32
	for y := range 8 {
		ra, rx, ry := a[y*strideA:][:8], gx[y*strideA:][:8], gy[y*strideA:][:8]
		up, down := b[y*strideB:][:9], b[(y+1)*strideB:][:9]
		var d [8]float32
		for x := range d {
			d[x] = float32(w[0]*float32(up[x])) + float32(w[1]*float32(up[x+1])) + float32(w[2]*float32(down[x])) + float32(w[3]*float32(down[x+1])) - float32(ra[x])
		}
		for x := range 4 {
			l, r := d[x], d[x+4]
			lanes[0][x] += l + r
			lanes[1][x] += float32(l*l) + float32(r*r)
			lanes[2][x] += float32(l*float32(rx[x])) + float32(r*float32(rx[x+4]))
			lanes[3][x] += float32(l*float32(ry[x])) + float32(r*float32(ry[x+4]))
		}
	}
	for k, l := range lanes {
		sum[k] = (l[0] + l[2]) + (l[1] + l[3])
	}
}

// patchOf is for other sizes, one sum after the other.
func patchOf(size int, sum *[4]float32, a, b []uint8, gx, gy []int16, strideA, strideB int, w *[4]float32) {
	for y := range size {
		for x := range size {
			up, down := b[y*strideB+x:][:2], b[(y+1)*strideB+x:][:2]
			d := float32(w[0]*float32(up[0])) + float32(w[1]*float32(up[1])) + float32(w[2]*float32(down[0])) + float32(w[3]*float32(down[1])) - float32(a[y*strideA+x])
			sum[0] += d
			sum[1] += float32(d * d)
			sum[2] += float32(d * float32(gx[y*strideA+x]))
			sum[3] += float32(d * float32(gy[y*strideA+x]))
		}
	}
}

// Each pixel's flow from the patches that hold it: their mean, with weights 1/max(1, |d|),
// where d is the pixel's difference from the pixel to which the patch leads.

func (s *search) densify(x, y *plane) {
	rows(s.height, s.d.Threads, func(from, to int) {
		for i := from; i < to; i++ {
			s.denseRow(i, x.row(i), y.row(i))
		}
	})
}

// holders are the first and the last place of the grid whose patches hold pixel i of n. Near
// the far edge, where the grid ends, the last patches reach further.
func (d *DIS) holders(i, n, places int) (first, last int) {
	last = min(i/d.PatchStride, places-1)
	if i >= d.PatchSize {
		first = (i-d.PatchSize)/d.PatchStride + 1
	}
	return min(first, last), last
}

func (s *search) denseRow(i int, x, y []float32) {
	firstLine, lastLine := s.d.holders(i, s.height, s.lines)
	right, bottom := float32(s.width)-1-0.001, float32(s.height)-1-0.001
	first, last := 0, 0 // places whose patches hold pixel j, and where the next ones begin
	nextFirst, nextLast := s.d.PatchSize, s.d.PatchStride
	for j := range s.width {
		for j >= nextFirst && first < s.columns-1 {
			first, nextFirst = first+1, nextFirst+s.d.PatchStride
		}
		for j >= nextLast && last < s.columns-1 {
			last, nextLast = last+1, nextLast+s.d.PatchStride
		}
		own := float32(s.first[i*s.width+j])
		var sum, sumX, sumY float32
		for line := firstLine; line <= lastLine; line++ {
			for at := line*s.columns + first; at <= line*s.columns+last; at++ {
				u, v := s.x[at], s.y[at]
				jm, im := clamped(float32(j)+u, right), clamped(float32(i)+v, bottom)
				jl, il := int(jm), int(im)
				fj, fi := jm-float32(jl), im-float32(il)
				ej, ei := float32(jl+1)-jm, float32(il+1)-im
				p := il*s.width + jl
				up, down := (*[2]uint8)(s.plain[p:]), (*[2]uint8)(s.plain[p+s.width:])
				d := float32(float32(fj*fi)*float32(down[1])) + float32(float32(ej*fi)*float32(down[0])) +
					float32(float32(fj*ei)*float32(up[1])) + float32(float32(ej*ei)*float32(up[0])) - own
				if d < 0 {
					d = -d
				}
				w := 1 / max(1, d)
				sumX += float32(w * u)
				sumY += float32(w * v)
				sum += w
			}
		}
		x[j], y[j] = sumX/sum, sumY/sum
	}
}

// clamped returns x in 0..high; NaN becomes 0.
func clamped(x, high float32) float32 {
	if !(x >= 0) {
		return 0
	}
	return min(x, high)
}
