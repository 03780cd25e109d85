package flow

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Levels of a pyramid, made from the full frame each, and the values passed from one to the next.

type level struct {
	width, height int
	scale         float64
	weights       []float32 // of the blur: the middle, then outwards
}

func (f Farneback) level(k, width, height int) level {
	scale := 1.0
	for range k {
		scale *= f.PyramidScale
	}
	sigma := (1/scale - 1) / 2
	size := max(int(math.RoundToEven(5*sigma))|1, 3)
	return level{
		max(int(math.RoundToEven(float64(width)*scale)), 1), max(int(math.RoundToEven(float64(height)*scale)), 1),
		scale, gaussian(size, sigma),
	}
}

// gaussian is OpenCV's kernel of an odd size, from the middle on; without a sigma it has the
// small sizes by table, of which 3 is all that is asked for here.
func gaussian(size int, sigma float64) []float32 {
	if sigma <= 0 {
		return []float32{0.5, 0.25}
	}
	w, sum := make([]float64, size/2+1), 0.0
	for i := range w {
		w[i] = bell(i, sigma)
		sum += w[i]
		if i > 0 {
			sum += w[i]
		}
	}
	out := make([]float32, len(w))
	for i := range w {
		out[i] = float32(w[i] / sum)
	}
	return out
}

// bell is exp(-i^2/(2 sigma^2)), the same on every machine.
func bell(i int, sigma float64) float64 {
	return nn.Exp(max(-float64(i*i)/(2*sigma*sigma), -700))
}

// picture is a frame blurred, edges mirrored, and resized bilinearly.
func (l level) picture(k *kernels, frame *plane, threads int) *plane {
	out := newPlane(l.width, l.height)
	radius := len(l.weights) - 1
	rowsOf, columns := betweenOf(frame.height, l.height), betweenOf(frame.width, l.width)
	rows(l.height, threads, func(from, to int) {
		upper, lower := newLine[float32](frame.width, radius), make([]float32, frame.stride)
		near, beside := make([][]float32, 2*radius+1), make([][]float32, 2*radius+1)
		for i := range beside {
			beside[i] = upper.shifted(i - radius)
		}
		blurred := make([]float32, frame.stride)
		down := func(dst []float32, y int) {
			for i := range near {
				near[i] = frame.row(mirrored(y+i-radius, frame.height))
			}
			k.symmetric(dst, near, l.weights)
		}
		for y := from; y < to; y++ {
			at := rowsOf[y]
			row := upper.row()
			down(row, at.i)
			if at.w != 0 {
				down(lower, at.j)
				for x := range row {
					row[x] = float32(row[x]*(1-at.w)) + float32(lower[x]*at.w)
				}
			}
			upper.mirror(frame.width)
			if l.width == frame.width {
				k.symmetric(out.row(y), beside, l.weights)
				continue
			}
			k.symmetric(blurred, beside, l.weights)
			interpolate(out.row(y), blurred, columns)
		}
	})
	return out
}

// between is a place between two others.
type between struct {
	i, j int
	w    float32 // of j
}

// betweenOf are the places of n pixels among size, half-pixel centres, as OpenCV's bilinear
// resize finds them.
func betweenOf(size, n int) []between {
	all := make([]between, n)
	scale := float64(size) / float64(n)
	for x := range all {
		at := float32(float64((float64(x)+0.5)*scale) - 0.5)
		i := int(math.Floor(float64(at)))
		w := at - float32(i)
		if i < 0 {
			i, w = 0, 0
		}
		if i >= size-1 {
			i, w = size-1, 0
		}
		all[x] = between{i, min(i+1, size-1), w}
	}
	return all
}

func interpolate(dst, row []float32, places []between) {
	for x, p := range places {
		dst[x] = float32(row[p.i]*(1-p.w)) + float32(row[p.j]*p.w)
	}
}

// enlarged is a plane resized bilinearly and multiplied.
func (p *plane) enlarged(width, height int, times float64, threads int) *plane {
	out := newPlane(width, height)
	rowsOf, columns := betweenOf(p.height, height), betweenOf(p.width, width)
	k := float32(times)
	rows(height, threads, func(from, to int) {
		mixed := make([]float32, p.stride)
		for y := from; y < to; y++ {
			at := rowsOf[y]
			up, down := p.row(at.i), p.row(at.j)[:p.stride]
			u := 1 - at.w
			for x := range mixed {
				mixed[x] = (float32(up[x]*u) + float32(down[x]*at.w)) * k
			}
			interpolate(out.row(y), mixed, columns)
		}
	})
	return out
}

// shrunk is numbers averaged over the areas of a level's pixels, and multiplied by its scale.
func shrunk(x []float32, width, height int, l level) *plane {
	out := newPlane(l.width, l.height)
	rowsOf, columns := sharesOf(height, l.height), sharesOf(width, l.width)
	scale := float32(l.scale)
	for v := range l.height {
		row := out.row(v)
		for u := range l.width {
			sum := float32(0)
			for _, a := range rowsOf[v] {
				for _, b := range columns[u] {
					sum += float32(x[a.i*width+b.i] * float32(a.w*b.w))
				}
			}
			row[u] = sum * scale
		}
	}
	return out
}
