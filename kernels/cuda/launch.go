package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// Kernels are queued on the backend's stream, in the shapes that most of them have: a thread an element, a warp a
// row, a thread a column.

type function struct {
	f      uintptr
	shared int // bytes of shared memory that it may have
}

// ringBytes is the device memory for launches' small arrays.
const ringBytes = 1 << 20

// small puts an array where the next launch can read it. Copies and kernels are done in order, so
// the ring's place may be written again while earlier launches wait to read it. An array that is that of the launch
// before is there already: a step's layers have the same lengths.
func (b *Backend) small(op string, data []byte) (p uintptr) {
	if len(data) > 0 && bytes.Equal(data, b.lastSmall) {
		return b.lastAt
	}
	b.must(op, func() error {
		if len(data) > ringBytes {
			return fmt.Errorf("an array of %d bytes beside the operands; at most %d", len(data), ringBytes)
		}
		if b.ringUsed+len(data) > ringBytes {
			b.ringUsed = 0
		}
		p = b.ring + uintptr(b.ringUsed)
		b.ringUsed += (len(data) + 255) / 256 * 256
		b.lastSmall = nil
		if err := b.staging.Upload(p, data); err != nil {
			return err
		}
		b.lastSmall, b.lastAt = data, p
		return nil
	})
	return p
}

// scratch is memory for an operation's own time.
func (b *Backend) scratch(op string, sizes ...int) []uintptr {
	pieces := make([]uintptr, len(sizes))
	b.must(op, func() (err error) {
		for i, n := range sizes {
			if pieces[i], err = b.memory.Take(n); err != nil {
				return err
			}
		}
		return nil
	})
	return pieces
}

func (b *Backend) giveBack(pieces []uintptr) {
	b.lock.Lock()
	defer b.lock.Unlock()
	for _, p := range pieces {
		b.memory.Give(p)
	}
}

// floats refuses operands that there is no arithmetic for.
func (b *Backend) floats(op string, spans ...kernels.Span) {
	for _, s := range spans {
		if !s.Empty() && s.DType != kernels.F32 && s.DType != kernels.BF16 {
			panic(fmt.Sprintf("cuda: %s: arithmetic on %s", op, s.DType))
		}
	}
}

// launch queues a kernel over a grid of blocks; nothing where the grid is empty. args is a
// pointer to the kernel's argument.
func (b *Backend) launch(op, kernel string, grid [2]int, threads, shared int, args any) {
	if grid[0] == 0 || grid[1] == 0 {
		return
	}
	b.must(op, func() error { return b.queue(kernel, grid, threads, shared, args) })
}

// queueCopying queues a kernel on the stream of copies.
func (b *Backend) queueCopying(kernel string, blocks, threads, shared int, args any) error {
	f, err := b.function(kernel, shared)
	if err != nil {
		return err
	}
	v := reflect.ValueOf(args)
	l := driver.Launch{Grid: [2]int{blocks, 1}, Threads: threads, Shared: shared, Stream: b.offload.copies}
	return b.d.Launch(f, l, v.UnsafePointer(), int(v.Type().Elem().Size()))
}

func (b *Backend) queue(kernel string, grid [2]int, threads, shared int, args any) error {
	f, err := b.function(kernel, shared)
	if err != nil {
		return err
	}
	v := reflect.ValueOf(args)
	l := driver.Launch{Grid: grid, Threads: threads, Shared: shared, Stream: b.stream, Beside: b.beside && !b.offload.waited}
	b.offload.waited = false
	if err := b.timed(kernel, func() error { return b.d.Launch(f, l, v.UnsafePointer(), int(v.Type().Elem().Size())) }); err != nil {
		return err
	}
	if b.waitEach {
		return b.d.Wait(b.stream)
	}
	return nil
}

// function finds a kernel, and allows it the shared memory of a launch.
func (b *Backend) function(kernel string, shared int) (uintptr, error) {
	f, ok := b.functions[kernel]
	if !ok {
		var err error
		if f.f, err = b.d.Function(b.moduleOf(kernel), "dk_"+kernel); err != nil {
			return 0, err
		}
		f.shared = 48 << 10
	}
	if shared > f.shared {
		if shared > b.device.Shared {
			return 0, fmt.Errorf("%w: %s needs %d KiB a block, this device has %d", errShared, kernel, shared>>10, b.device.Shared>>10)
		}
		if err := b.d.AllowShared(f.f, shared); err != nil {
			return 0, err
		}
		f.shared = shared
	}
	b.functions[kernel] = f
	return f.f, nil
}

var errShared = errors.New("too little shared memory")

// elements launches a kernel that walks over n elements, as many blocks as keep the device busy.
func (b *Backend) elements(op, kernel string, n int, args any) {
	b.launch(op, kernel, [2]int{b.walkers(n), 1}, 256, 0, args)
}

// walkers is that number of blocks, of 256 threads.
func (b *Backend) walkers(n int) int { return min(ceil(n, 256), 16*b.device.Processors) }

// rows launches a warp for each row.
func (b *Backend) rows(op, kernel string, rows int, args any) {
	b.launch(op, kernel, [2]int{ceil(rows, 4), 1}, 128, 0, args)
}

// columns launches a thread for each column, over a number of samples: in blocks of one warp where
// larger ones would leave processors without work.
func (b *Backend) columns(op, kernel string, cols, samples int, args any) {
	threads := 128
	if ceil(cols, threads)*samples < 2*b.device.Processors {
		threads = 32
	}
	b.launch(op, kernel, [2]int{ceil(cols, threads), samples}, threads, 0, args)
}

// product runs a matrix product on our own kernels.
func (b *Backend) product(op string, m kernels.Math, p *productArgs) {
	if m == kernels.MathBF16 && !b.exact && p.k > 0 {
		b.tensorProduct(op, p)
		return
	}
	b.exactProduct(op, m, p)
}

// The structs of src/device.h, as C lays them out: pointers and 64-bit numbers first, so that
// neither side has gaps. TestArguments holds their sizes to the kernels'.

type vec struct {
	p    uintptr
	n    int64
	kind int32
	_    int32
}

type mat struct {
	p          uintptr
	stride     int64
	rows, cols int32
	kind       int32
	_          int32
}

type heads struct {
	p          uintptr
	sb, ss, sh int64
	b, s, h, d int32
	kind       int32
	_          int32
}

// at is a span's device address, 0 where it is absent.
func at(s kernels.Span) uintptr {
	if s.Empty() {
		return 0
	}
	return s.Buf.Addr + uintptr(s.Off*s.DType.Size())
}

func vecOf(s kernels.Span) vec { return vec{p: at(s), n: int64(s.Len), kind: int32(s.DType)} }

func matOf(m kernels.Mat) mat {
	return mat{p: at(m.Span), stride: int64(m.Stride), rows: int32(m.Rows), cols: int32(m.Cols), kind: int32(m.DType)}
}

func headsOf(x kernels.Heads) heads {
	return heads{p: at(x.Span), sb: int64(x.SB), ss: int64(x.SS), sh: int64(x.SH),
		b: int32(x.B), s: int32(x.S), h: int32(x.H), d: int32(x.D), kind: int32(x.DType)}
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

func ceil(a, b int) int { return (a + b - 1) / b }
