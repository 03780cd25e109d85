package cuda

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda/blas"
)

// The measured half of choice.go: an algorithm is run on normals at the rows it was asked for and at
// fewer, and is taken only if
//
//   - every part has the bits that its rows have in the whole: 1, 2 and 8 rows, a part that ends inside
//     a tile and one of several tiles, at other places (and so at other alignments) than in the whole;
//   - the last of them has these bits at an address that is a multiple of 16 bytes and no more, too;
//   - the whole, computed again, has the same bits;
//   - the library says that it supports the algorithm at many other numbers of rows, in the same workspace;
//   - the numbers are those of our own kernel, within what the order of sums may change: a weight that was
//     read the wrong way about, or a tail of k that was dropped, is off by about 1 (libraries had
//     such tails: facebookexperimental/triton pull request 2767).
//
// It costs a dozen products of each shape, once a process, and room for the operands while it runs.

// part is so many rows from a row on.
type part struct{ from, rows int64 }

// parts of a whole; the last is compared again at the end, and with our own kernel.
func parts(whole int64) []part {
	return []part{{0, 1}, {whole - 1, 1}, {whole/2 + 1, 2}, {3, 8}, {whole / 3, 77 * whole / wholeRows}, {whole/4 + 5, whole / 4}}
}

// A digest is of a product's bits.
type digest [sha256.Size]byte

// selfCheck says why an algorithm may not compute a shape; nil is that it may. The digest is what another
// device must have, too.
func (b *Backend) selfCheck(op string, c *choice, a *blas.Algorithm) (sum digest, refused error) {
	whole, ld := b.products.wholeOf(c.Shape), blas.SumsWide(c.N)
	most := whole / 4
	room := b.scratch(op, int(2*whole*c.K), int(2*c.N*c.K), int(4*whole*ld), int(4*max(most, 8)*ld), int(2*most*c.K)+16)
	defer b.giveBack(room)
	rows, weight, sums, few, moved := room[0], room[1], room[2], room[3], room[4]+16
	for i, n := range []int64{whole * c.K, c.N * c.K} {
		b.Normal(&kernels.Normal{Key: 0x5eed, Stream: uint64(i), Y: spanAt(room[i], int(n), kernels.BF16)})
	}
	right := operand{p: weight, stride: c.K, kind: int32(kernels.BF16), form: operandRows}
	if c.Turned {
		right.stride, right.form = c.N, operandColumns
	}
	left := func(row int64) operand {
		return operand{p: rows + uintptr(2*row*c.K), stride: c.K, kind: int32(kernels.BF16), form: operandRows}
	}
	multiply := func(row, m int64, to uintptr) error { return b.multiply(op, c, a, right, left(row), m, to) }
	if err := multiply(0, whole, sums); err != nil {
		return sum, err
	}
	read := func(from uintptr, n int64) []byte {
		raw := make([]byte, 4*n*ld)
		b.Download(raw, spanAt(from, int(n*ld), kernels.F32))
		return raw
	}
	var last part
	for _, last = range parts(whole) {
		if last.rows = max(last.rows, 1); last.from+last.rows > whole {
			last.from = whole - last.rows
		}
		if err := multiply(last.from, last.rows, few); err != nil {
			return sum, fmt.Errorf("%d rows: %w", last.rows, err)
		}
		if at := differs(read(sums+uintptr(4*last.from*ld), last.rows), read(few, last.rows), c.N, ld); at >= 0 {
			return sum, fmt.Errorf("a row's bits depend on its batch (row %d of %d has others among %d)", last.from+at, whole, last.rows)
		}
	}
	n := int(last.rows * c.K)
	b.Copy(&kernels.Copy{Src: spanAt(left(last.from).p, n, kernels.BF16), Dst: spanAt(moved, n, kernels.BF16),
		Shape: [5]int{1, 1, 1, 1, n}, SrcStride: [5]int{4: 1}, DstStride: [5]int{4: 1}})
	elsewhere := left(last.from)
	elsewhere.p = moved
	if err := b.multiply(op, c, a, right, elsewhere, last.rows, few); err != nil {
		return sum, err
	}
	if differs(read(sums+uintptr(4*last.from*ld), last.rows), read(few, last.rows), c.N, ld) >= 0 {
		return sum, errors.New("a row's bits depend on its address")
	}
	if err := multiply(0, whole, sums); err != nil {
		return sum, err
	}
	again := read(sums+uintptr(4*last.from*ld), last.rows)
	if at := differs(again, read(few, last.rows), c.N, ld); at >= 0 {
		return sum, errors.New("the same product has other bits the second time")
	}
	if err := b.nearOwn(op, c, left(last.from), right, few, again); err != nil {
		return sum, err
	}
	h := sha256.New()
	for at := int64(0); at < last.rows*4*ld; at += 4 * ld {
		h.Write(again[at : at+4*c.N]) // what lies between rows was never written
	}
	return digest(h.Sum(nil)), b.supported(op, c, a)
}

// supported asks about numbers of rows that were not run.
func (b *Backend) supported(op string, c *choice, a *blas.Algorithm) (refused error) {
	p := b.products
	for m := int64(1); m <= 1<<17 && refused == nil; m = max(m+1, m*9/8) {
		b.must(op, func() error {
			if err := p.Fit(&c.at, c.at.LDWeight, c.at.LDRows, m); err != nil {
				return err
			}
			if need, err := p.Supports(c.Shape, &c.at, a); err != nil {
				refused = fmt.Errorf("%d rows: %w", m, err)
			} else if need > workspaceBytes {
				refused = fmt.Errorf("%d rows need a workspace of %d bytes", m, need)
			}
			return nil
		})
	}
	return refused
}

// differs is the first row whose n numbers are not the same bits, -1 where there is none.
func differs(x, y []byte, n, ld int64) int64 {
	for row := int64(0); row*4*ld < int64(len(x)); row++ {
		if at := row * 4 * ld; !bytes.Equal(x[at:at+4*n], y[at:at+4*n]) {
			return row
		}
	}
	return -1
}

// nearOwn compares some rows of sums with our own kernel's.
func (b *Backend) nearOwn(op string, c *choice, rows, weight operand, to uintptr, sums []byte) error {
	ld := blas.SumsWide(c.N)
	m := min(8, int64(len(sums))/4/ld)
	b.tensorProduct(op, &productArgs{a: rows, b: weight, m: m, n: c.N, k: c.K, run: c.K, runs: 1, alpha: 1, gateRows: 1,
		c: mat{p: to, stride: ld, rows: int32(m), cols: int32(c.N), kind: int32(kernels.F32)}})
	own := make([]byte, 4*m*ld)
	b.Download(own, spanAt(to, int(m*ld), kernels.F32))
	most := 1e-3 * math.Sqrt(float64(c.K))
	for row := range m {
		for i := row * ld; i < row*ld+c.N; i++ {
			x, y := float64(number(sums, i)), float64(number(own, i))
			if !(math.Abs(x-y) <= most) {
				return fmt.Errorf("the library's product is wrong: %g where our own kernel has %g", x, y)
			}
		}
	}
	return nil
}

func number(raw []byte, i int64) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
}

// spanAt is device memory as a span.
func spanAt(p uintptr, n int, d kernels.DType) kernels.Span {
	return kernels.Span{Buf: &kernels.Buffer{Addr: p, Bytes: n * d.Size()}, Len: n, DType: d}
}
