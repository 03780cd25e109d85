package cpu

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Copies: a box's axes are first merged where both sides are contiguous, which leaves
// few kinds of work along the last two:
//
//	runs    both sides contiguous along the last axis: moved as bytes, or cast or added
//	        by the kernels of element-wise operations
//	tiles   one type, and each side contiguous along an axis of its own: transposed by
//	        tiles that fit L1
//
// The rest goes element by element.

// axis is one of a box, outermost first.
type axis struct{ n, src, dst int }

// merged are the axes longer than one, merged where the next one continues them.
func merged(a *kernels.Copy) (axes []axis, empty bool) {
	for i, n := range a.Shape {
		switch x := (axis{n, a.SrcStride[i], a.DstStride[i]}); {
		case n == 0:
			return nil, true
		case n == 1:
		case len(axes) > 0 && axes[len(axes)-1].src == x.src*n && axes[len(axes)-1].dst == x.dst*n:
			axes[len(axes)-1] = axis{axes[len(axes)-1].n * n, x.src, x.dst}
		default:
			axes = append(axes, x)
		}
	}
	if len(axes) == 0 {
		axes = []axis{{1, 1, 1}}
	}
	return axes, false
}

// Copy moves a box.
func (b *Backend) Copy(a *kernels.Copy) {
	axes, empty := merged(a)
	if empty {
		return
	}
	for _, x := range axes {
		if x.dst == 0 { // elements that are written more than once, in order
			ref.Copy(a, 0, ref.CopyRows(a))
			return
		}
	}
	moves := a.Src.DType == a.Dst.DType && !a.Accumulate
	half := a.Src.DType == kernels.F16 || a.Dst.DType == kernels.F16
	last := axes[len(axes)-1]
	switch size := a.Src.DType.Size(); {
	case last.src == 1 && last.dst == 1 && (moves || !half):
		if len(axes) == 1 { // cut one long run
			b.pool.rows(last.n, pieceElements, func(lo, hi int) { b.copyRun(a, moves, lo, lo, hi-lo) })
			return
		}
		b.over(axes[:len(axes)-1], last.n, func(src, dst, _ int) { b.copyRun(a, moves, src, dst, last.n) })
	case moves && last.dst == 1 && size == 4:
		b.transpose(axes, func(src, dst int, rows axis) { tile[uint32](a, src, dst, rows, last) })
	case moves && last.dst == 1 && size == 2:
		b.transpose(axes, func(src, dst int, rows axis) { tile[uint16](a, src, dst, rows, last) })
	default:
		n := ref.CopyRows(a)
		b.pool.rows(n, max(1, pieceElements/32*n/boxSize(axes)), func(lo, hi int) { ref.Copy(a, lo, hi) })
	}
}

func boxSize(axes []axis) int {
	n := 1
	for _, x := range axes {
		n *= x.n
	}
	return n
}

// over calls f with the offsets of every index of the axes, and with the last of it;
// each stands for some elements.
func (b *Backend) over(axes []axis, elements int, f func(src, dst, last int)) {
	b.pool.rows(boxSize(axes), max(1, pieceElements/elements), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			src, dst, left := 0, 0, i
			last := i % axes[len(axes)-1].n
			for j := len(axes) - 1; j >= 0; j-- {
				at := left % axes[j].n
				left /= axes[j].n
				src, dst = src+at*axes[j].src, dst+at*axes[j].dst
			}
			f(src, dst, last)
		}
	})
}

// copyRun moves, casts or adds n contiguous elements.
func (b *Backend) copyRun(a *kernels.Copy, moves bool, src, dst, n int) {
	from, to := a.Src.Slice(src, src+n), a.Dst.Slice(dst, dst+n)
	switch {
	case moves:
		copy(to.Raw(), from.Raw())
	case a.Accumulate:
		b.rows.Binary(&kernels.Binary{Op: kernels.Add, X: to, Y: from, Z: to}, 0, n)
	default:
		b.rows.Unary(&kernels.Unary{Op: kernels.Identity, X: from, Y: to}, 0, n)
	}
}

// tileSide is the side of a transposed tile.
const tileSide = 32

// transpose cuts a box into tiles of rows of the axis along which src is contiguous
// (or else the last but one), by all of the last axis.
func (b *Backend) transpose(axes []axis, f func(src, dst int, rows axis)) {
	outer := append([]axis(nil), axes[:len(axes)-1]...)
	if len(outer) == 0 {
		outer = []axis{{1, 1, 1}}
	}
	pick := len(outer) - 1
	for i, x := range outer {
		if x.src == 1 {
			pick = i
		}
	}
	rows := outer[pick]
	tiles := axis{(rows.n + tileSide - 1) / tileSide, tileSide * rows.src, tileSide * rows.dst}
	outer = append(append(outer[:pick:pick], outer[pick+1:]...), tiles)
	b.over(outer, tileSide*axes[len(axes)-1].n, func(src, dst, i int) {
		f(src, dst, axis{min(tileSide, rows.n-i*tileSide), rows.src, rows.dst})
	})
}

// tile moves up to tileSide rows; last is contiguous in dst.
func tile[T uint16 | uint32](a *kernels.Copy, src, dst int, rows, last axis) {
	from, to := elements[T](a.Src), elements[T](a.Dst)
	for c0 := 0; c0 < last.n; c0 += tileSide {
		c1 := min(c0+tileSide, last.n)
		for r := range rows.n {
			line := to[dst+r*rows.dst+c0:][:c1-c0]
			at := src + r*rows.src + c0*last.src
			for c := range line {
				line[c] = from[at]
				at += last.src
			}
		}
	}
}

// elements are a span's, as bits.
func elements[T uint16 | uint32](s kernels.Span) []T {
	raw := s.Raw()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), len(raw)/int(unsafe.Sizeof(T(0))))
}
