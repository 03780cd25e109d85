package cuda

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// Attention on Hopper (compute capability 9.0) has kernels of its own: src/hopper_attention.cu, by wgmma (for
// products see hopperproduct.go). They
// come as images beside the others', and read operands by tensor maps, which are encoded here for each launch.
//
// Which kernel an attention takes is a function of the device and of what is asked for, never of the batch nor
// of how many queries or keys there are: a query gets the same bits alone, in a batch, and as the next
// of a sequence. A backend takes them where they agree with the mma.sync kernels (choice.go).

// wgmma is what a backend has of these kernels.
type wgmma struct {
	module    uintptr // 0: not loaded
	attention family
	products  family                      // our own, of bf16
	pairs     family                      // of adapters, in the sum of one of these
	gradients family                      // of weights
	onlyTile  string                      // of products, for checks
	tiles     map[hopperShape]*hopperTile // chosen for products
	least     int64                       // n and k of products
	maps      [2]driver.TensorMap         // room for one at a multiple of 64
	args      hopperArgs                  // of the launch that is being made: the driver copies them
	product   hopperProductArgs
	launched  int // products, for tests
}

// A family is kernels that are taken together, or left out.
type family struct {
	use  bool
	why  string // not
	told bool
}

// leave leaves all kernels for Hopper out, and so pairs, for which there is no reason of their own.
func (w *wgmma) leave(why string) { w.attention.why, w.products.why = why, why }

type hopperArgs struct {
	q, k, v, dout driver.TensorMap
	a             attentionArgs
	_             [5]uint64 // C rounds up to multiples of 64 bytes
}

// onHopper reports whether the kernels for Hopper serve an attention that tensor cores serve.
func (b *Backend) onHopper(a *kernels.Attention) bool {
	return b.hopper.attention.use && a.Bias.Empty() && a.Scale > 0 && a.K.S > 0
}

// hopperPass is a kernel's geometry: rows of a block, others of a tile, for head dimensions to 64 and to 128.
type hopperPass struct {
	kernel       string
	rows, others [2]int
	threads      [2]int
	own, each    int // tiles of rows, and tiles of others, in shared memory
}

var (
	hopperForward = hopperPass{"hopper_attention", [2]int{192, 128}, [2]int{128, 128}, [2]int{512, 384}, 1, 4}
	hopperTwo     = hopperPass{"hopper_attention_two", [2]int{128}, [2]int{128}, [2]int{384}, 1, 4} // of narrow heads
	hopperFew     = hopperPass{"hopper_attention_few", [2]int{64, 64}, [2]int{128, 128}, [2]int{256, 256}, 1, 4}
	hopperQueries = hopperPass{"hopper_attention_queries", [2]int{128, 128}, [2]int{128, 96}, [2]int{384, 384}, 2, 4}
	hopperKeys    = hopperPass{"hopper_attention_keys", [2]int{128, 128}, [2]int{64, 64}, [2]int{384, 384}, 2, 4}
	hopperWide    = hopperPass{"hopper_attention_keys_wide", [2]int{128}, [2]int{96}, [2]int{384}, 2, 4} // of narrow heads
)

// A copy starts at a multiple of 1024; barriers, and the keys' pass's statistics, lie behind the tiles.
const hopperBeside = 1024 + 4*96*4 + 128

// forwardOf is the forward's pass: for few queries, one that reads keys once for all heads that share them; for narrow
// heads, blocks of 192 or 128 queries, whichever are done sooner. A row's bits are the same in all.
func (b *Backend) forwardOf(a *kernels.Attention) hopperPass {
	if a.K.H > 0 && a.Q.S*(a.Q.H/a.K.H) <= hopperFew.rows[0] {
		return hopperFew
	}
	// Measured on an H100: a turn of all processors with three warpgroups takes 11/9 of one with two.
	turns := func(p hopperPass) int {
		return ceil(ceil(a.Q.S, p.rows[0])*a.Q.B*a.Q.H, max(b.device.Processors, 1))
	}
	if max(a.Q.D, a.V.D) <= 64 && 9*turns(hopperTwo) < 11*turns(hopperForward) {
		return hopperTwo
	}
	return hopperForward
}

// keysOf is the backward's pass over keys. Tiles of 96 queries are for narrow heads and many queries: on an H200 they
// take 4 to 9 % less time from 1178 queries on, as much at 487, and more at 80. A key's bits are the same in both.
func (b *Backend) keysOf(a *kernels.Attention) hopperPass {
	tiles := func(p hopperPass) int { return ceil(a.Q.S, p.others[0]) * p.others[0] }
	if (a.Q.S >= 512 || b.mode.trial) && max(a.Q.D, a.V.D) <= 64 && 9*tiles(hopperWide) <= 10*tiles(hopperKeys) {
		return hopperWide
	}
	return hopperKeys
}

// hopperAttention launches a pass. q to dout are the operands as p describes them: rows are queries,
// or keys in the keys' pass.
func (b *Backend) hopperAttention(op string, pass hopperPass, a *kernels.Attention, p *attentionArgs) {
	size, d := 0, 64
	if a.Q.D > d || a.V.D > d {
		size, d = 1, mostHead
	}
	rows, others := pass.rows[size], pass.others[size]
	blocks, h := ceil(a.Q.S, rows)*a.Q.B, a.Q.H
	together, queries, keys := 1, rows, others // heads and queries, and keys, of a box
	switch pass.kernel {
	case hopperFew.kernel:
		blocks, h, together, queries = a.Q.B, a.K.H, a.Q.H/a.K.H, a.Q.S
	case hopperKeys.kernel, hopperWide.kernel:
		blocks, h, queries, keys = ceil(a.K.S, rows)*a.K.B, a.K.H, others, rows
	}
	if blocks == 0 || h == 0 || queries == 0 {
		return
	}
	args := &b.hopper.args
	*args = hopperArgs{a: *p}
	b.must(op, func() error {
		for _, m := range []struct {
			to          *driver.TensorMap
			x           *heads
			heads, rows int
		}{{&args.q, &p.q, together, queries}, {&args.k, &p.k, 1, keys}, {&args.v, &p.v, 1, keys}, {&args.dout, &p.dout, 1, queries}} {
			if m.x.p == 0 {
				continue
			}
			box := m.x.block(m.rows)
			box.Box[1] = uint32(m.heads)
			if err := b.d.Encode(b.hopper.scratch(), box); err != nil {
				return err
			}
			*m.to = *b.hopper.scratch()
		}
		return nil
	})
	shared := hopperBeside + 2*d*(pass.own*rows+pass.each*others)
	// A block goes from piece to piece, so that one's operands come while another's results are written. Causal pieces
	// differ in length: a block each, so that who is done begins another.
	pieces := blocks * h
	if !a.Causal {
		pieces = min(pieces, max(b.device.Processors, 1))
	}
	b.launch(op, fmt.Sprintf("%s_%d", pass.kernel, d), [2]int{pieces, 1}, pass.threads[size], shared, args)
}

// scratch is a map at a multiple of 64, as the driver writes it.
func (w *wgmma) scratch() *driver.TensorMap {
	first := uintptr(unsafe.Pointer(&w.maps))
	return (*driver.TensorMap)(unsafe.Add(unsafe.Pointer(&w.maps), (64-first%64)%64))
}

// mappable reports whether a tensor map describes an operand as it lies; others are copied first.
func (x *heads) mappable() bool {
	for _, d := range [][2]int64{{int64(x.h), x.sh}, {int64(x.s), x.ss}, {int64(x.b), x.sb}} {
		if d[0] > 1 && (d[1] <= 0 || d[1] >= 1<<39) {
			return false
		}
	}
	return true
}

// block describes heads as [b, s, h, d], and a box of 64 elements of some rows of one head.
func (x *heads) block(rows int) driver.Block {
	a := driver.Block{Addr: x.p, Dims: [4]uint64{uint64(x.d), uint64(x.h), uint64(x.s), uint64(x.b)},
		Strides: [3]uint64{2 * uint64(x.sh), 2 * uint64(x.ss), 2 * uint64(x.sb)}, Box: [4]uint32{64, 1, uint32(rows), 1}}
	for i, n := range a.Dims[1:] {
		if n == 1 { // never gone along, but the driver wants a number
			a.Strides[i] = 16
		}
	}
	return a
}

// loadHopper loads the kernels where the device is a Hopper. Without them attention goes on by mma.sync.
func (b *Backend) loadHopper() error {
	w := &b.hopper
	w.least = leastWhole
	switch {
	case !b.device.Hopper():
		return nil
	case b.mode.mma:
		w.leave(ModeVariable + " says mma")
		return nil
	case b.exact:
		return nil
	}
	tried := error(nil)
	for _, name := range hopperImages {
		image, err := readImage(name)
		if err != nil {
			return err
		}
		if w.module, err = b.d.Load(image); err == nil {
			return nil
		}
		tried = err
		if !unusable(driver.Code(err)) {
			break
		}
	}
	w.leave(tried.Error())
	return nil
}

// hopper reports whether a device has the units of these kernels.
// probeAttention says what a backend of a Hopper would take for attention and its own products, if they pass.
func probeAttention() string {
	if m, err := modes(os.Getenv(ModeVariable)); err == nil && (m.mma || m.products == "exact") {
		return "without wgmma: " + os.Getenv(ModeVariable)
	}
	return "by wgmma on compute capability 9.0, if it agrees with mma.sync when a device opens (" + ModeVariable + "=mma leaves it out)"
}

// unusable are the codes of a driver that takes no such image.
func unusable(c int32) bool {
	return c == driver.NoBinary || c == driver.InvalidImage || c == driver.InvalidPTX || c == driver.UnsupportedPTX
}

// moduleOf is where a kernel was loaded from.
func (b *Backend) moduleOf(kernel string) uintptr {
	if strings.HasPrefix(kernel, "hopper_") {
		return b.hopper.module
	}
	return b.module
}

// text says which kernels are taken on a Hopper, "" elsewhere.
func (w *wgmma) text() (s string) {
	for _, f := range []struct {
		name string
		*family
	}{{"attention", &w.attention}, {"our own products", &w.products}, {"adapters within them", &w.pairs}, {"gradients of weights", &w.gradients}} {
		switch {
		case f.use:
			s += ", " + f.name + " by wgmma"
		case f.why != "":
			s += ", " + f.name + " by mma.sync (" + f.why + ")"
		}
	}
	return s
}

var errHopper = errors.New("the kernels for Hopper fail on this device; " + ModeVariable + "=mma computes without them")
