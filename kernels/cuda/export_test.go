package cuda

import (
	"math"
	"os"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// Open is OpenAs in the mode that the environment says.
func Open(index int) (*Backend, error) { return OpenAs(index, os.Getenv(ModeVariable)) }

// OpenOn starts the first device of a driver that is not the system's.
func OpenOn(c driver.Caller, mode string) (*Backend, error) {
	return open(driver.New(c), 0, mode, (*Backend).chooseHopper)
}

// OpenUnchecked starts the first device, and takes kernels for Hopper without their check: tests open many backends,
// and hold each kernel to ref themselves.
func OpenUnchecked(mode string) (*Backend, error) {
	l, err := driver.OpenLibrary()
	if err != nil {
		return nil, err
	}
	return open(driver.New(l), 0, mode, func(b *Backend) error {
		w := &b.hopper
		there := w.module != 0
		w.attention.use, w.products.use, w.pairs.use, w.gradients.use = there, there, there, there
		return nil
	})
}

// SetMostGathered sets how many bytes of gathered operands a product may hold, for tests.
func (b *Backend) SetMostGathered(n int) { b.reading.most = int64(n) }

// SetReading makes products gather operands that could be read as they lie, and take one tile, for tests.
func (b *Backend) SetReading(gathered bool, name string) {
	b.reading.inPlace, b.reading.tilesAlone = operand.piecewise, gathered || name != ""
	if gathered {
		b.reading.inPlace = func(operand, *productArgs) bool { return false }
	}
	b.reading.tiles = slices.DeleteFunc(slices.Clone(tiles), func(t tile) bool { return name != "" && t.name != name })
}

// SetShared sets the shared memory that a block may have, for tests.
func (b *Backend) SetShared(n int) { b.device.Shared = n }

// Gathered is how many operands were gathered.
func (b *Backend) Gathered() int { return b.reading.gathered }

// AdapterProducts is how many products went by the kernels of adapters.
func (b *Backend) AdapterProducts() int { return b.reading.adapters }

// Tiles are the names of products' tiles, or of those for pictures.
func Tiles(pictures bool) (names []string) {
	for _, t := range tiles {
		if !pictures || !t.plain {
			names = append(names, t.name)
		}
	}
	return names
}

// SetLibrary sets the least side of weights that the library computes, and the rows of its check, for tests.
func (b *Backend) SetLibrary(least, whole int) {
	b.products.least, b.products.whole = int64(least), int64(whole)
}

// HopperRuns says whether attention goes by the kernels for Hopper.
func (b *Backend) HopperRuns() bool { return b.hopper.attention.use }

// UseHopper takes those kernels, or not.
func (b *Backend) UseHopper(use bool) { b.hopper.attention.use = use }

// HopperMultiplies says whether our own products go by the kernels for Hopper.
func (b *Backend) HopperMultiplies() bool { return b.hopper.products.use }

// HopperAdapts says whether products of adapters do, where they can.
func (b *Backend) HopperAdapts() bool { return b.adaptersOnHopper() }

// HopperGradients says whether gradients of weights do.
func (b *Backend) HopperGradients() bool { return b.hopper.gradients.use }

// UseGradients takes them, or not.
func (b *Backend) UseGradients(use bool) { b.hopper.gradients.use = use }

// UseTrial takes kernels on trial where they serve, or not.
func (b *Backend) UseTrial(use bool) {
	b.mode.trial, b.hopper.tiles = use, nil
}

// HopperProducts is how many launches of products went by them.
func (b *Backend) HopperProducts() int { return b.hopper.launched }

// SetHopper sets the tile that products by wgmma take ("": the best), their least n and k, and how many
// multiprocessors there are.
func (b *Backend) SetHopper(tile string, least int64, processors int) {
	b.hopper.onlyTile, b.hopper.least, b.device.Processors = tile, least, processors
}

// HopperTiles are the names of their tiles.
func HopperTiles() (names []string) {
	for _, t := range hopperTiles {
		names = append(names, t.name)
	}
	return names
}

// WideKeys says whether the backward's pass over keys goes by tiles of 96 queries.
func (b *Backend) WideKeys(a *kernels.Attention) bool { return b.keysOf(a).kernel == hopperWide.kernel }

// HopperTrials are the names of those on trial.
func HopperTrials() (names []string) {
	for _, t := range hopperTiles {
		if t.trial {
			names = append(names, t.name)
		}
	}
	return names
}

// FastestTiles are the tiles chosen for some shapes, with those on trial or without.
func FastestTiles(trial bool) (names []string) {
	for _, s := range [][3]int64{{974, 1536, 6144}, {1024, 1536, 6144}, {4352, 1536, 1536}, {32, 3584, 3584}} {
		names = append(names, fastestTile(&productArgs{m: s[0], n: s[1], k: s[2]}, measuredProcessors, false, trial).name)
	}
	return names
}

// GradientTiles are the names of the tiles of gradients of weights.
func GradientTiles() (names []string) {
	for _, t := range gradientTiles {
		names = append(names, t.name)
	}
	return names
}

// LibraryCalls is how many products the library computed.
func (b *Backend) LibraryCalls() int { return b.products.calls }

// Locked runs f while no operation can start.
func (b *Backend) Locked(f func()) {
	b.lock.Lock()
	defer b.lock.Unlock()
	f()
}

// Must runs f as an operation.
func (b *Backend) Must(f func()) {
	b.must("Must", func() error { f(); return nil })
}

// CopiesWaiting is how many boxes wait.
func (b *Backend) CopiesWaiting() int { return len(b.copies.boxes) }

// LetWait lets a copy of bytes wait, of a caller that has the lock.
func (b *Backend) LetWait(dst, src kernels.Span) {
	n := int64(src.Len)
	c := copyArgs{src: at(src), dst: at(dst), outer: n, inner: 1, srcKind: int32(kernels.U8), dstKind: int32(kernels.U8), moveBytes: 1}
	for i := range c.n {
		c.n[i] = 1
	}
	c.n[4], c.from[4], c.to[4] = n, 1, 1
	b.copies.boxes = append(b.copies.boxes, c)
}

// Timed is how many microseconds the device takes for each of n calls of f, queued behind ahead, which keeps the device
// busy until they are all queued.
func (b *Backend) Timed(ahead func(), n int, f func(i int)) float64 {
	const op = "Timed"
	cells := make([]uintptr, 2)
	b.must(op, func() error {
		for i := range cells {
			e, err := driver.TimedEvent(b.d)
			if err != nil {
				return err
			}
			cells[i] = e
		}
		return nil
	})
	record := func(e uintptr) { b.must(op, func() error { return b.d.Record(e, b.stream) }) }
	ahead()
	record(cells[0])
	for i := range n {
		f(i)
	}
	record(cells[1])
	b.Sync()
	var us float64
	b.must(op, func() error {
		bits, err := driver.Elapsed(b.d, cells[0], cells[1])
		us = float64(math.Float32frombits(bits)) * 1e3 / float64(n)
		b.d.EndEvent(cells[0])
		b.d.EndEvent(cells[1])
		return err
	})
	return us
}
