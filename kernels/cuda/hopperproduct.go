package cuda

import (
	"cmp"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Products on Hopper by wgmma: src/hopper_product.cu. Whether a product goes there is a function of its layout, n,
// k and types, never of how many rows it has nor of where they lie; what a tensor map cannot describe
// is gathered first. Which tile computes it changes no bit, so it may depend on anything.
//
// A backend takes these kernels where they agree with mma.sync (choice.go).

// leastWhole is the least n and k. Those of adapters are less: most of a tile would be padding, and the mma.sync
// kernels have smaller ones. But a few columns of a long sum go by wgmma where factors are bf16, with pairs: a tile
// that is half padding takes 12 microseconds of 48 slices, and one by mma.sync 34 to 41 (measured on an H100).
const leastWhole = 65

// A hopperTile is what a block computes at a time: rows x cols, 64 rows a warpgroup, from a ring of stages. So many
// blocks have room on a multiprocessor. A product takes start, and for each tile that the busiest multiprocessor
// computes one end, and one slice for every 64 of k: microseconds on an H100, fitted to hopper_products.csv.
// They are not what these parts take apart from each other, and so may be negative.
//
// A thin tile is for decoding, where the weights' bytes are all: twice as many blocks read them, and 64 KiB of them
// are on their way to each. It takes B along k. A slice has the time of its 4 KiB of weights at 3 TB/s, all
// multiprocessors reading, and the rest is that of tiles of 64 x 64; measured times correct both (hoppertimes.go).
//
// A tile on trial has not run on a device, and its times are estimates: it is taken where DARKROOM_CUDA says trial.
type hopperTile struct {
	name                    string
	rows, cols, stages, fit int64
	slice, end, start       float64
	thin, trial             bool
}

var hopperTiles = []hopperTile{
	{"_256", 128, 256, 4, 1, 0.612, 3.09, 1.59, false, false},
	{"_192", 128, 192, 4, 1, 0.470, 2.40, 1.65, false, false},
	{"_128", 128, 128, 6, 1, 0.335, 1.78, 1.73, false, false},
	{"_96", 128, 96, 6, 1, 0.290, 1.40, 1.73, false, true},
	{"_64", 128, 64, 8, 1, 0.305, 0.40, -0.09, false, false},
	{"_few", 64, 64, 5, 2, 0.204, -0.59, 2.78, false, false},
	{"_thin", 64, 32, 16, 1, 0.175, -0.59, 2.78, true, false},
}

// shared is a block's shared memory: stages from a multiple of 1024 on, 4 KiB a warp for the epilogue, barriers.
func (t *hopperTile) shared() int {
	cols := t.cols
	if cols > 64 {
		cols = (cols + 63) / 64 * 64
	}
	return int(1024 + t.stages*((t.rows+cols)*128+16) + t.rows/16*4096)
}

func (t *hopperTile) threads() int { return int(128 + 2*t.rows) }

func (t *hopperTile) over(p *productArgs) (down, across int64) {
	return (p.m + t.rows - 1) / t.rows, (p.n + t.cols - 1) / t.cols
}

// group is how many rows of tiles are gone through together, so that those computed at a time read about as
// many rows as columns.
func (t *hopperTile) group(processors int) int32 {
	return int32(max(1, math.Round(math.Sqrt(float64(processors)*float64(t.fit*t.cols)/float64(t.rows)))))
}

// takes is how many microseconds a product takes with these tiles.
func (t *hopperTile) takes(p *productArgs, processors int64) float64 {
	down, across := t.over(p)
	most := (down*across + processors - 1) / processors
	return t.start + float64(most)*t.one(p.k)
}

// leastMeasured is the least k, in slices, of the products that slice and end were fitted to.
const leastMeasured = 1536 / 64

// one is what a tile takes. A shorter k than was measured takes its share of that: a negative end would make a tile
// take less than nothing.
func (t *hopperTile) one(k int64) float64 {
	slices := float64((k + 63) / 64)
	if slices < leastMeasured {
		return slices / leastMeasured * (leastMeasured*t.slice + t.end)
	}
	return slices*t.slice + t.end
}

// hopperTileFor is the tile with which a product takes the least time, or the one that a check asks for, where it
// computes the product.
func (b *Backend) hopperTileFor(p *productArgs) *hopperTile {
	across, trial := p.b.form != operandRows, b.mode.trial
	for i := range hopperTiles {
		if t := &hopperTiles[i]; t.name == b.hopper.onlyTile && !(t.thin && across) {
			return t
		}
	}
	shape := hopperShape{p.m, p.n, p.k, b.device.Processors, across}
	t := b.hopper.tiles[shape]
	if t == nil {
		if len(b.hopper.tiles) >= mostShapes {
			b.hopper.tiles = nil
		}
		if b.hopper.tiles == nil {
			b.hopper.tiles = map[hopperShape]*hopperTile{}
		}
		t = fastestTile(p, int64(max(b.device.Processors, 1)), across, trial)
		b.hopper.tiles[shape] = t
	}
	return t
}

// A hopperShape has all that the choice of a tile depends on.
type hopperShape struct {
	m, n, k    int64
	processors int
	across     bool
}

// mostShapes is how many choices are remembered.
const mostShapes = 1 << 12

// fastestTile is the tile with which a product takes the least time. across: B lies across k. trial: tiles on trial
// too.
func fastestTile(p *productArgs, processors int64, across, trial bool) (best *hopperTile) {
	var by []float64
	if processors == measuredProcessors {
		by = corrections(p)
	}
	least := 0.0
	for i := range hopperTiles {
		t := &hopperTiles[i]
		if t.thin && across || t.trial && !trial {
			continue
		}
		us := t.takes(p, processors)
		if by != nil {
			us *= by[i]
		}
		if best == nil || us < least {
			best, least = t, us
		}
	}
	return best
}

type hopperProductArgs struct {
	a, b, lowA, lowB           driver.TensorMap
	p                          productArgs
	down, across, group, fours int32
	plain, terms               int32
	factor                     float32
	onto                       int32
	_                          [5]uint64 // C rounds up to multiples of 64 bytes
}

// A lowPair is a pair (kernels.Pair) that goes into a product's sum: terms of k, whose sum counts factor times alpha.
type lowPair struct {
	a, b   operand
	terms  int64
	factor float32
}

// multipliesOnHopper reports whether a product of these sides goes by wgmma.
func (b *Backend) multipliesOnHopper(a *kernels.Gemm, p *productArgs) bool {
	if !b.hopper.products.use || a.Math != kernels.MathBF16 || a.Layout == kernels.TN || p.fold != 0 || p.k < b.hopper.least {
		return false
	}
	return p.n >= b.hopper.least || b.adaptersOnHopper() && p.n >= leastNarrow && p.b.kind == int32(kernels.BF16)
}

// leastNarrow is the least n of a product of an adapter that goes by wgmma.
const leastNarrow = 16

// adaptersOnHopper reports whether products of adapters go by wgmma where they can.
func (b *Backend) adaptersOnHopper() bool { return b.hopper.pairs.use && b.products == nil }

// pairsOnHopper reports whether the sum of a product's pair is the product's own. So it is where wgmma forms that: a
// function of the same things, and of the two factors.
func (b *Backend) pairsOnHopper(a *kernels.Gemm, p *productArgs) bool {
	return b.adaptersOnHopper() && b.multipliesOnHopper(a, p) && usual(float64(p.alpha)) && usual(float64(factorOf(a, p)))
}

// usual numbers are those that a sum may be multiplied by, and divided by, without harm.
func usual(x float64) bool { return math.Abs(x) > 0x1p-40 && math.Abs(x) < 0x1p40 }

// factorOf is the pair's factor over the product's.
func factorOf(a *kernels.Gemm, p *productArgs) float32 {
	return cmp.Or(a.Pair.Alpha, 1) / p.alpha
}

// withPair computes a product and its pair: in one sum, or apart.
func (b *Backend) withPair(a *kernels.Gemm, p *productArgs) {
	const op = "Gemm"
	if !b.pairsOnHopper(a, p) {
		var sums []uintptr
		var u kernels.Mat
		if a.Layout == kernels.NT {
			sums = b.scratch(op, int(4*p.m*p.n))
			u = kernels.NewMat(spanAt(sums[0], int(p.m*p.n), kernels.F32), int(p.m), int(p.n))
		}
		first, second := a.Apart(u)
		b.Gemm(first)
		b.Gemm(second)
		b.giveBack(sums)
		return
	}
	right := a.Pair.B
	if a.Pair.W != nil {
		right = ref.PackedRows(a.Pair.W)
	}
	low := &lowPair{a: operandOf(a.Pair.A, operandRows), b: operandOf(right, p.b.form), terms: int64(a.Pair.A.Cols), factor: factorOf(a, p)}
	b.hopperProduct(a, p, low)
	if pre := a.Pair.Pre; !pre.Empty() { // all is in the product's own
		zero := b.scratch(op, 4)
		from := spanAt(zero[0], 1, kernels.F32)
		b.Fill(from, 0)
		b.Copy(&kernels.Copy{Src: from, Dst: pre.Span, Shape: [5]int{1, 1, 1, pre.Rows, pre.Cols}, DstStride: [5]int{0, 0, 0, pre.Stride, 1}})
		b.giveBack(zero)
	}
}

// hopperProduct computes a product by wgmma, with a pair where there is one, and reports whether it is one that goes
// there.
func (b *Backend) hopperProduct(a *kernels.Gemm, p *productArgs, low *lowPair) bool {
	const op = "Gemm"
	if !b.multipliesOnHopper(a, p) {
		return false
	}
	if p.m == 0 {
		return true
	}
	q := *p
	left, right := p.a.boxed() && b.reading.inPlace(p.a, p), p.b.boxed() && b.reading.inPlace(p.b, p)
	if !right {
		defer b.giveBack(b.gather(op, p, p.b, &q.b, 0, p.n))
	}
	lowLeft := true
	var pair lowPair
	terms := *p // as many as the pair has
	if low != nil {
		pair = *low
		terms.k, terms.run = low.terms, low.terms
		if !low.b.boxed() {
			defer b.giveBack(b.gather(op, &terms, low.b, &pair.b, 0, p.n))
		}
		lowLeft = low.a.boxed()
	}
	rows := min(p.m, mostRows)
	if !left {
		rows = min(rows, max(wholeTile, b.reading.most/2/padded(p.k)/wholeTile*wholeTile))
	}
	if !lowLeft {
		rows = min(rows, max(wholeTile, b.reading.most/2/padded(terms.k)/wholeTile*wholeTile))
	}
	for row := int64(0); row < p.m; row += rows {
		part := q
		part.row0, part.m = row, min(rows, p.m-row)
		var copied []uintptr
		if left {
			part.a.p += uintptr(2 * row * p.a.stride)
		} else {
			copied = b.gather(op, p, p.a, &part.a, row, part.m)
		}
		of := pair
		switch {
		case low == nil:
		case lowLeft:
			of.a.p += uintptr(2 * row * low.a.stride)
		default:
			copied = append(copied, b.gather(op, &terms, low.a, &of.a, row, part.m)...)
		}
		b.hopperLaunch(op, &part, &of)
		b.giveBack(copied)
	}
	return true
}

// mostRows is how many rows of a product one launch takes: rows of boxes are 32-bit numbers.
const mostRows = 1 << 30

// boxed reports whether a tensor map describes an operand as it lies.
func (o operand) boxed() bool {
	return o.kind == int32(kernels.BF16) && o.p%16 == 0 && o.stride%8 == 0 && o.stride > 0 && o.stride < 1<<39
}

func (b *Backend) hopperLaunch(op string, p *productArgs, low *lowPair) {
	b.hopper.launched++
	all := *p
	all.k += (low.terms + 63) / 64 * 64
	t := b.hopperTileFor(&all)
	down, across := t.over(p)
	args := &b.hopper.product
	*args = hopperProductArgs{p: *p, down: int32(down), across: int32(across), group: t.group(b.device.Processors), fours: flag(p.together(4)), plain: flag(p.plain()),
		terms: int32(low.terms), factor: low.factor}
	kernel := "hopper_product_nt"
	if p.b.form == operandColumns {
		kernel = "hopper_product_nn"
	}
	sides := func(a, right *driver.TensorMap, x, y operand, k int64) error {
		left := heads{p: x.p, ss: x.stride, d: int32(k), s: int32(p.m), h: 1, b: 1}
		across, box := heads{p: y.p, ss: y.stride, d: int32(k), s: int32(p.n), h: 1, b: 1}, t.cols
		if y.form == operandColumns {
			across.d, across.s, box = across.s, across.d, 64
		}
		return cmp.Or(b.box(a, &left, t.rows), b.box(right, &across, box))
	}
	b.must(op, func() error {
		err := sides(&args.a, &args.b, p.a, p.b, p.k)
		if low.terms > 0 {
			err = cmp.Or(err, sides(&args.lowA, &args.lowB, low.a, low.b, low.terms))
		}
		return err
	})
	blocks := min(down*across, t.fit*int64(max(b.device.Processors, 1)))
	b.launch(op, kernel+t.name, [2]int{int(blocks), 1}, t.threads(), t.shared(), args)
}

// plain reports whether a result of bf16 is alpha times the sum and no more, in whole pieces of 16 bytes.
func (p *productArgs) plain() bool {
	return p.c.kind == int32(kernels.BF16) && p.bias.p == 0 && p.pre.p == 0 && p.gate.p == 0 && p.residual.p == 0 &&
		p.act == 0 && p.accumulate == 0 && p.together(8)
}

// box describes an operand, of which a box is 64 columns of so many rows.
func (b *Backend) box(to *driver.TensorMap, x *heads, rows int64) error {
	m := b.hopper.scratch()
	err := b.d.Encode(m, x.block(int(rows)))
	*to = *m
	return err
}
