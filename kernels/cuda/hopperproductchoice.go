package cuda

import (
	"bytes"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Whether our own products go by wgmma on a Hopper, decided when a backend opens, as attention is
// (hopperchoice.go): a product of each layout is computed by each tile, and must be near that of the mma.sync kernels,
// the same bits from every tile and the second time, and a row of it alone the bits that it has in the whole.

// The check's product ends inside tiles and slices, and goes round the ring of stages of each tile.
const checkM, checkN, checkK = 66, 136, 584

// checkHopperProduct says what is wrong with a layout, "" where nothing is.
func (b *Backend) checkHopperProduct(layout kernels.Layout) string {
	const op = "Open"
	defer func(tile string) { b.hopper.onlyTile = tile }(b.hopper.onlyTile)
	room := b.scratch(op, 2*checkM*checkK, 2*checkN*checkK, 4*checkM*checkN)
	defer b.giveBack(room)
	for i, n := range []int{checkM * checkK, checkN * checkK} {
		b.Normal(&kernels.Normal{Key: 0x40bbe5, Stream: uint64(i), Y: spanAt(room[i], n, kernels.BF16)})
	}
	product := func(use bool, tile string, from, rows int) []byte {
		out := spanAt(room[2], rows*checkN, kernels.F32)
		g := &kernels.Gemm{Layout: layout, Math: kernels.MathBF16, A: kernels.NewMat(spanAt(room[0], checkM*checkK, kernels.BF16).Slice(from*checkK, (from+rows)*checkK), rows, checkK),
			B: kernels.NewMat(spanAt(room[1], checkN*checkK, kernels.BF16), checkN, checkK), C: kernels.NewMat(out, rows, checkN)}
		if layout == kernels.NN {
			g.B = kernels.NewMat(g.B.Span, checkK, checkN)
		}
		b.hopper.products.use, b.hopper.onlyTile = use, tile
		b.Gemm(g)
		raw := make([]byte, 4*rows*checkN)
		b.Download(raw, out)
		return raw
	}
	near := product(false, "", 0, checkM)
	var whole []byte
	for _, t := range hopperTiles {
		got := product(true, t.name, 0, checkM)
		if at := unlike(got, near, productNear); at >= 0 {
			return fmt.Sprintf("C[%d,%d] is %g and not %g (layout %s, tiles of %d x %d)", at/checkN, at%checkN, number(got, at), number(near, at), layout, t.rows, t.cols)
		}
		if whole == nil {
			whole = got
		}
		if !bytes.Equal(got, whole) {
			return fmt.Sprintf("tiles of %d x %d have other bits than those of %d x %d", t.rows, t.cols, hopperTiles[0].rows, hopperTiles[0].cols)
		}
		if from, n := 43, 4*checkN; !bytes.Equal(product(true, t.name, from, 1), whole[from*n:(from+1)*n]) {
			return fmt.Sprintf("a row alone has other bits (tiles of %d x %d)", t.rows, t.cols)
		}
	}
	if !bytes.Equal(product(true, hopperTiles[0].name, 0, checkM), whole) {
		return "the same product has other bits the second time"
	}
	return ""
}

// productNear is what the order of sums may change, of numbers about 24.
const productNear = 1e-3

// The check's pairs have fewer terms than a slice, and more; its products more columns than leastWhole, and fewer.
var checkPairs = []struct{ n, terms int }{{checkN, 24}, {40, 72}}

// checkHopperPair says what is wrong with products of adapters in a layout, "" where nothing is: each must be near the
// products apart, by mma.sync where there are few columns, with the same bits from every tile and for a row alone, and
// a pair of zeros must change no bit.
func (b *Backend) checkHopperPair(layout kernels.Layout, checkN, r int) string {
	const op, factor = "Open", 1.375
	defer func(tile string) { b.hopper.onlyTile, b.hopper.pairs.use = tile, false }(b.hopper.onlyTile)
	numbers := []int{checkM * checkK, checkN * checkK, checkM * r, checkN * r, checkN * r}
	room := b.scratch(op, 2*numbers[0], 2*numbers[1], 2*numbers[2], 2*numbers[3], 2*numbers[4], 4*checkM*checkN)
	defer b.giveBack(room)
	for i, n := range numbers[:4] {
		b.Normal(&kernels.Normal{Key: 0x40bbe5, Stream: uint64(i), Y: spanAt(room[i], n, kernels.BF16)})
	}
	b.Fill(spanAt(room[4], numbers[4], kernels.BF16), 0)
	side := func(i, rows, cols int) kernels.Mat {
		if layout == kernels.NN && (i == 1 || i > 2) {
			rows, cols = cols, rows
		}
		return kernels.NewMat(spanAt(room[i], rows*cols, kernels.BF16), rows, cols)
	}
	product := func(use bool, tile string, from, rows, factors int) []byte {
		out := spanAt(room[5], rows*checkN, kernels.F32)
		g := &kernels.Gemm{Layout: layout, Math: kernels.MathBF16, A: side(0, checkM, checkK).RowRange(from, from+rows), B: side(1, checkN, checkK), C: kernels.NewMat(out, rows, checkN)}
		if factors > 0 {
			g.Pair = &kernels.Pair{A: side(2, checkM, r).RowRange(from, from+rows), B: side(factors, checkN, r), Alpha: factor}
		}
		b.hopper.pairs.use, b.hopper.onlyTile = use, tile
		b.Gemm(g)
		raw := make([]byte, 4*rows*checkN)
		b.Download(raw, out)
		return raw
	}
	near := product(false, "", 0, checkM, 3)
	var whole []byte
	for _, t := range hopperTiles {
		got := product(true, t.name, 0, checkM, 3)
		if at := unlike(got, near, productNear); at >= 0 {
			return fmt.Sprintf("with a pair, C[%d,%d] is %g and not %g (layout %s, tiles of %d x %d)", at/int64(checkN), at%int64(checkN), number(got, at), number(near, at), layout, t.rows, t.cols)
		}
		if whole == nil {
			whole = got
		}
		if !bytes.Equal(got, whole) {
			return fmt.Sprintf("with a pair, tiles of %d x %d have other bits than those of %d x %d", t.rows, t.cols, hopperTiles[0].rows, hopperTiles[0].cols)
		}
		if from, n := 43, 4*checkN; !bytes.Equal(product(true, t.name, from, 1, 3), whole[from*n:(from+1)*n]) {
			return fmt.Sprintf("with a pair, a row alone has other bits (tiles of %d x %d)", t.rows, t.cols)
		}
	}
	if !bytes.Equal(product(true, "", 0, checkM, 4), product(true, "", 0, checkM, 0)) {
		return "a pair of zeros changes a product"
	}
	return ""
}
