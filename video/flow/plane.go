package flow

import (
	"sync"

	"github.com/darkroom-rl/darkroom/video"
)

// block is how many numbers the row kernels take at a time: rows are padded to a multiple.
const block = 16

func padded(n int) int { return (n + block - 1) / block * block }

// A plane is one number a pixel. The padding of a row has no meaning.
type plane struct {
	width, height, stride int
	pix                   []float32
}

func newPlane(width, height int) *plane {
	stride := padded(width)
	return &plane{width, height, stride, make([]float32, stride*height)}
}

func (p *plane) row(y int) []float32 { return p.pix[y*p.stride:][:p.stride:p.stride] }

// near is the row at y, or the last one before it ends.
func (p *plane) near(y int) []float32 { return p.row(min(max(y, 0), p.height-1)) }

// planeOf turns bytes into numbers.
func planeOf(g Gray) *plane {
	p := newPlane(g.Width, g.Height)
	for y := range g.Height {
		row := p.row(y)
		for x, v := range g.Pix[y*g.Width:][:g.Width] {
			row[x] = float32(v)
		}
	}
	return p
}

// A line is a row with room on both sides, so that a filter along it is one across rows that
// are shifted copies.
type line[T float32 | float64] struct {
	n, margin int
	all       []T
}

func newLine[T float32 | float64](width, margin int) *line[T] {
	n := padded(width)
	return &line[T]{n, margin, make([]T, n+2*margin+block)}
}

func (l *line[T]) row() []T { return l.all[l.margin:][:l.n] }

// shifted is the row beginning at x, which may be negative.
func (l *line[T]) shifted(x int) []T { return l.all[l.margin+x:][:l.n] }

// repeat continues the row of width numbers on both sides with its last ones.
func (l *line[T]) repeat(width int) {
	first, last := l.all[l.margin], l.all[l.margin+width-1]
	for i := range l.margin {
		l.all[i] = first
	}
	for i := l.margin + width; i < min(l.margin+width+l.margin, len(l.all)); i++ {
		l.all[i] = last
	}
}

// mirror continues it with the pixel as far inside; the last one appears once.
func (l *line[T]) mirror(width int) {
	for i := 1; i <= l.margin; i++ {
		l.all[l.margin-i] = l.all[l.margin+mirrored(-i, width)]
		if at := l.margin + width - 1 + i; at < len(l.all) {
			l.all[at] = l.all[l.margin+mirrored(width-1+i, width)]
		}
	}
}

// mirrored is the index that i stands for beyond 0..n-1: -1 is 1.
func mirrored(i, n int) int {
	if n == 1 {
		return 0
	}
	for i < 0 || i >= n {
		if i < 0 {
			i = -i
		} else {
			i = 2*(n-1) - i
		}
	}
	return i
}

// rows calls do for parts of 0..n-1 on several goroutines and waits for all. There are as many parts as threads: do
// allocates its buffers that often.
func rows(n, threads int, do func(from, to int)) {
	threads = min(threads, n)
	if threads <= 1 {
		do(0, n)
		return
	}
	var all sync.WaitGroup
	for i := range threads {
		all.Go(func() { do(i*n/threads, (i+1)*n/threads) })
	}
	all.Wait()
}

// dense is the plane without its padding.
func (p *plane) dense() []float32 {
	out := make([]float32, p.width*p.height)
	p.copyTo(out)
	return out
}

// copyTo writes the plane without its padding.
func (p *plane) copyTo(out []float32) {
	for y := range p.height {
		copy(out[y*p.width:][:p.width], p.row(y))
	}
}

// field joins two planes.
func field(x, y *plane) *video.Field {
	f := video.NewField(x.width, x.height)
	x.copyTo(f.X)
	y.copyTo(f.Y)
	return f
}
