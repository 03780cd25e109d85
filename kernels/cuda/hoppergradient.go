package cuda

import (
	"cmp"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Gradients of weights on Hopper by wgmma: src/hopper_gradient.cu. Whether a gradient goes there is a function of the
// weight's shape alone. Each sample's sum is formed alone and starts at its first row, and a gradient goes on from
// sample to sample: its bits depend neither on how many samples a product has, nor on the tile, nor on how operands
// lie.
//
// They are taken where DARKROOM_CUDA says dw, or where a run was begun with them, if they agree with mma.sync.

// A gradientTile computes sums of one run of k alone, or adds up those of several.
type gradientTile struct {
	hopperTile
	single bool
}

// Microseconds are those of products with the same tiles: none was measured.
var gradientTiles = []gradientTile{
	{hopperTile{"_256", 128, 256, 4, 1, 0.612, 3.09, 1.59, false, false}, true},
	{hopperTile{"_192", 128, 192, 4, 1, 0.470, 2.40, 1.65, false, false}, true},
	{hopperTile{"_128", 128, 128, 6, 1, 0.335, 1.78, 1.73, false, false}, false},
	{hopperTile{"_64", 128, 64, 8, 1, 0.305, 0.40, -0.09, false, false}, false},
	{hopperTile{"_few", 64, 64, 5, 2, 0.204, -0.59, 2.78, false, false}, false},
}

func slicesOf(k int64) int64 { return (k + 63) / 64 }

// gradientsOnHopper reports whether a gradient of a weight goes by wgmma.
func (b *Backend) gradientsOnHopper(a *kernels.Gemm, p *productArgs) bool {
	return b.hopper.gradients.use && a.Layout == kernels.TN && a.Math == kernels.MathBF16 && p.m >= b.hopper.least && p.n >= b.hopper.least && p.k > 0 && p.k < mostRows
}

// hopperGradient computes the gradient of a weight by wgmma, and reports whether it is one that goes there. p is a
// product without a list of runs.
func (b *Backend) hopperGradient(a *kernels.Gemm, p *productArgs) bool {
	const op = "Gemm"
	if !b.gradientsOnHopper(a, p) {
		return false
	}
	q := *p
	runs, slices := []int64{0}, int64(0)
	for _, n := range a.Segments {
		if n > 0 {
			runs, slices = append(runs, runs[len(runs)-1]+int64(n)), slices+slicesOf(int64(n))
		}
	}
	if len(a.Segments) == 0 {
		runs, slices = append(runs, p.k), slicesOf(p.k)
	}
	if q.runs = int64(len(runs) - 1); q.runs > 1 {
		b.list(op, &q, runs)
	} else {
		q.run = p.k
	}
	left, right := p.a.boxed() && b.reading.inPlace(p.a, p), p.b.boxed() && b.reading.inPlace(p.b, p)
	if !right {
		defer b.giveBack(b.gather(op, p, p.b, &q.b, 0, p.n))
	}
	rows := p.m
	if !left {
		rows = min(rows, max(wholeTile, b.reading.most/2/p.k/wholeTile*wholeTile))
	}
	for row := int64(0); row < p.m; row += rows {
		part := q
		part.row0, part.m = row, min(rows, p.m-row)
		var copied []uintptr
		if left {
			part.a.p += uintptr(2 * row)
		} else {
			copied = b.gather(op, p, p.a, &part.a, row, part.m)
		}
		b.gradientLaunch(op, &part, slices)
		b.giveBack(copied)
	}
	return true
}

// gradientTileFor is the tile with which a gradient of so many slices of k takes the least time, or the one that a
// check asks for, where it computes the gradient.
func (b *Backend) gradientTileFor(p *productArgs, slices int64) (best *gradientTile) {
	least, processors := 0.0, int64(max(b.device.Processors, 1))
	whole := *p
	whole.k = slices * 64
	for i := range gradientTiles {
		t := &gradientTiles[i]
		switch us := t.takes(&whole, processors); {
		case t.single && p.runs > 1:
		case t.name == b.hopper.onlyTile:
			return t
		case best == nil || us < least:
			best, least = t, us
		}
	}
	return best
}

func (b *Backend) gradientLaunch(op string, p *productArgs, slices int64) {
	b.hopper.launched++
	t := b.gradientTileFor(p, slices)
	down, across := t.over(p)
	args := &b.hopper.product
	*args = hopperProductArgs{p: *p, down: int32(down), across: int32(across), group: t.group(b.device.Processors)}
	if !t.single { // the kernel adds up totals, and its epilogue stores them
		args.factor, args.onto = p.alpha, p.accumulate
		args.p.alpha, args.p.accumulate = 1, 0
	}
	args.p.paired = flag(p.together(2))
	args.fours, args.plain = flag(p.together(4)), flag(args.p.plain())
	b.must(op, func() error {
		left := heads{p: p.a.p, ss: p.a.stride, d: int32(p.m), s: int32(p.k), h: 1, b: 1}
		right := heads{p: p.b.p, ss: p.b.stride, d: int32(p.n), s: int32(p.k), h: 1, b: 1}
		return cmp.Or(b.box(&args.a, &left, 64), b.box(&args.b, &right, 64))
	})
	blocks := min(down*across, t.fit*int64(max(b.device.Processors, 1)))
	b.launch(op, "hopper_gradient"+t.name, [2]int{int(blocks), 1}, t.threads(), t.shared(), args)
}
