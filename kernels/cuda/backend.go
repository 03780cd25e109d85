package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda/blas"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// Backend computes on one device. Work is queued on one stream and done in order; Download and
// Sync wait for it.
type Backend struct {
	d       *driver.Driver
	device  driver.Device
	dev     int32
	context uintptr
	stream  uintptr
	module  uintptr
	image   string // which image was loaded: "sm_90", "ptx"
	memory  *driver.Memory
	staging *driver.Staging

	lock     sync.Mutex // of the driver, call by call: another rank may check a product here (choice.go)
	products *products  // of cuBLASLt; nil: all products of bf16 are our own
	agreed   *agreement // with the ranks that it works beside, at least itself
	without  string     // why there are none
	mode     mode
	version  int // of CUDA, as the driver offers it

	hopper    wgmma // kernels of attention for compute capability 9.0
	functions map[string]function
	offload   offload
	copies    copies  // that wait for others to start with
	ring      uintptr // small arrays that launches read: lengths, coefficients
	ringUsed  int
	lastSmall []byte   // what lies in the ring's piece that was written last
	lastAt    uintptr  // where
	exact     bool     // bf16 math by its definition, not on tensor cores
	reading   reading  // how products read their operands
	waitEach  bool     // wait after each launch, so that an error names its operation
	profile   *profile // nil: no times are taken
	beside    bool     // a kernel may start beside the end of the one before (after_others of src/device.h)
}

var _ kernels.Backend = (*Backend)(nil)

// OpenAs starts device number index in a mode, as ModeVariable would say it.
func OpenAs(index int, mode string) (*Backend, error) {
	l, err := driver.OpenLibrary()
	if err != nil {
		return nil, err
	}
	return open(driver.New(l), index, mode, (*Backend).chooseHopper)
}

// open starts a device. hopper decides which kernels for Hopper are taken.
func open(d *driver.Driver, index int, mode string, hopper func(*Backend) error) (b *Backend, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The thread may still have the context of a lost device, by whose error every call fails. At first there is no
	// driver to take it from.
	_ = d.Current(0)
	version, err := driver.Begin(d)
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	all, err := driver.Devices(d)
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	if index < 0 || index >= len(all) {
		return nil, fmt.Errorf("cuda: there is no device %d; the driver finds %d, from cuda:0 on", index, len(all))
	}
	b = &Backend{d: d, device: all[index], functions: map[string]function{}, reading: reading{tiles: tiles, most: mostGathered, inPlace: operand.piecewise}}
	if b.mode, err = modes(mode); err != nil {
		return nil, err
	}
	b.agreed = &agreement{ranks: []*Backend{b}}
	b.exact, b.waitEach = b.mode.products == "exact", b.mode.wait
	if b.mode.times {
		b.profile = &profile{sums: map[string]KernelTime{}, first: time.Now()}
	}
	if err = b.begin(version, hopper); err != nil {
		b.Close()
		return nil, fmt.Errorf("cuda:%d (%s): %w", index, b.device.Name, err)
	}
	return b, nil
}

func (b *Backend) begin(version int, hopper func(*Backend) error) (err error) {
	if b.dev, err = b.d.Device(b.device.Index); err != nil {
		return err
	}
	if b.context, err = b.d.Retain(b.dev); err != nil {
		return err
	}
	if err = b.d.Current(b.context); err != nil {
		return err
	}
	if b.stream, err = b.d.Stream(); err != nil {
		return err
	}
	if err = b.loadKernels(); err != nil {
		return err
	}
	if err = b.loadHopper(); err != nil {
		return err
	}
	b.memory = driver.NewMemory(b.d, b.stream, b.startCopies)
	if b.staging, err = driver.NewStaging(b.d, b.stream); err != nil {
		return err
	}
	if b.ring, err = b.memory.Take(ringBytes); err != nil {
		return err
	}
	if err = hopper(b); err != nil {
		return err
	}
	return b.beginProducts(version)
}

// loadKernels loads the image made for the device, or else PTX, which the driver compiles.
func (b *Backend) loadKernels() error {
	tried := error(nil)
	for _, name := range imagesFor(b.device.Major) {
		image, err := readImage(name)
		if err != nil {
			return err
		}
		if b.module, err = b.d.Load(image); err == nil {
			b.image = name
			b.beside = !b.mode.apart && (name == "sm_90" || name == "sm_100") // PTX is that of 8.0, which cannot
			return nil
		}
		tried = err
		if !unusable(driver.Code(err)) {
			break
		}
	}
	if note := driver.Explain(driver.Code(tried)); note != "" {
		return fmt.Errorf("%w: %s", tried, note)
	}
	return tried
}

// Close waits for the device and gives everything back. The backend's buffers end with it.
func (b *Backend) Close() (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if b.context == 0 {
		return nil
	}
	err = cmp.Or(b.d.Current(b.context), b.endProfile())
	if b.stream != 0 {
		err = cmp.Or(err, b.d.Wait(b.stream)) // copies that it has not come to read pinned memory
	}
	if b.products != nil {
		err = cmp.Or(err, b.products.close())
	}
	err = cmp.Or(err, b.offload.close(b.d))
	if b.staging != nil {
		err = cmp.Or(err, b.staging.Close())
	}
	if b.memory != nil {
		err = cmp.Or(err, b.memory.Close())
	}
	for _, m := range []uintptr{b.module, b.hopper.module} {
		if m != 0 {
			err = cmp.Or(err, b.d.Unload(m))
		}
	}
	if b.stream != 0 {
		err = cmp.Or(err, b.d.EndStream(b.stream))
	}
	err = cmp.Or(err, b.d.Release(b.dev))
	b.context = 0
	return err
}

// Name says which device, and whether its bits are those of the CPU: "cuda:0", "cuda:0/exact".
func (b *Backend) Name() string {
	if b.exact {
		return fmt.Sprintf("cuda:%d/exact", b.device.Index)
	}
	return fmt.Sprintf("cuda:%d", b.device.Index)
}

// Traffic is what was asked of the device since Open. A product by cuBLASLt counts as one launch.
func (b *Backend) Traffic() kernels.Traffic { return b.d.Traffic }

// Held is how many bytes of the device's memory the backend has, those included that wait to be used again.
func (b *Backend) Held() int { return b.memory.Held() }

// Left is how many bytes of the device's memory nobody has taken.
func (b *Backend) Left() (left int) {
	b.must("Left", func() (err error) {
		left, err = b.d.MemoryLeft()
		return err
	})
	return left
}

// Device describes the GPU.
func (b *Backend) Device() driver.Device { return b.device }

func (b *Backend) String() string { return fmt.Sprintf("%s, %s", b.device, b.computes()) }

// CPUArithmetic is that of ref, and so of every CPU.
const CPUArithmetic = "ref"

// Arithmetic names what the backend's bits depend on: two devices of one arithmetic compute the same.
func (b *Backend) Arithmetic() string {
	if b.exact {
		return CPUArithmetic
	}
	return fmt.Sprintf("%s, compute capability %d.%d, %s", b.device.Name, b.device.Major, b.device.Minor, b.computes())
}

// computes says which kernels there are.
func (b *Backend) computes() string {
	products := "on tensor cores, by our own kernels"
	switch {
	case b.exact:
		products = "exact"
	case b.products != nil:
		products = "by cuBLASLt " + blas.VersionText(b.products.Version)
	}
	return fmt.Sprintf("products of bf16 %s, kernels %s%s", products, b.image, b.hopper.text())
}

// must runs f on a thread that has the device's context, when copies that wait were queued, and panics with an *Error
// if it fails. Nobody else comes between the copies and f: other ranks check products on this stream (choice.go).
func (b *Backend) must(op string, f func() error) {
	b.now(op, func() error {
		if err := b.startCopies(); err != nil {
			return b.failure("Copy", err)
		}
		return f()
	})
}

// now is must that leaves the copies waiting.
func (b *Backend) now(op string, f func() error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.lock.Lock()
	defer b.lock.Unlock()
	err := b.d.Current(b.context)
	if err == nil {
		err = f()
	}
	if err != nil {
		panic(b.failure(op, err))
	}
}

func (b *Backend) failure(op string, err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e // of copies that waited
	}
	e := &Error{Device: b.device.Index, Op: op, Err: err, Note: driver.Explain(driver.Code(err))}
	if errors.As(err, new(*blas.Error)) {
		e.Note = "cuBLASLt refuses a product that it computed before with other rows, and no other kernel may go on in its place, with other bits; " +
			ModeVariable + "=own computes without it from the beginning"
	}
	if driver.Code(err) == driver.OutOfMemory {
		left, _ := b.d.MemoryLeft()
		e.Note = fmt.Sprintf("the program holds %.1f GiB, and %.1f of %.1f GiB are free; a smaller batch or group needs less",
			float64(b.memory.Held())/(1<<30), float64(left)/(1<<30), float64(b.device.Memory)/(1<<30))
	}
	return e
}

// Memory of the device, and copies to and from it.

// Alloc takes device memory.
func (b *Backend) Alloc(n int) *kernels.Buffer {
	buf := &kernels.Buffer{Bytes: n}
	b.lock.Lock()
	p, ok := b.memory.Find(n)
	b.lock.Unlock()
	if ok {
		buf.Addr = p
		return buf
	}
	b.now("Alloc", func() (err error) {
		buf.Addr, err = b.memory.Take(n)
		return err
	})
	return buf
}

// Joins reports that freed pieces are joined with free neighbours and cut anew. A pool that keeps pieces for others of
// their size would only take more.
func (b *Backend) Joins() bool { return true }

// Free gives a buffer back; what is queued may still read it.
func (b *Backend) Free(buf *kernels.Buffer) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.memory.Give(buf.Addr)
	buf.Addr = 0
}

// Upload copies bytes into a span; src may be changed when it returns.
func (b *Backend) Upload(dst kernels.Span, src []byte) {
	n := dst.Len * dst.DType.Size()
	if len(src) < n {
		panic("cuda: Upload: fewer bytes than the span holds")
	}
	b.must("Upload", func() error { return b.staging.Upload(at(dst), src[:n]) })
}

// Download copies a span's bytes out, when everything before it is done.
func (b *Backend) Download(dst []byte, src kernels.Span) {
	n := src.Len * src.DType.Size()
	if len(dst) < n {
		panic("cuda: Download: the span holds more bytes than asked for")
	}
	b.must("Download", func() error { return b.staging.Download(dst[:n], at(src)) })
}

// Sync waits for everything that was queued.
func (b *Backend) Sync() {
	b.must("Sync", func() error { return b.d.Wait(b.stream) })
}

// Stream is the device's stream, on which everything is queued.
func (b *Backend) Stream() uintptr {
	b.must("Copy", func() error { return nil })
	return b.stream
}

// Idle reports whether everything that was queued is done, without waiting for it.
func (b *Backend) Idle() (done bool, err error) {
	defer kernels.Recover(&err)
	b.must("Wait", func() (err error) {
		done, err = b.d.Idle(b.stream)
		return err
	})
	return done, nil
}

// Error is an operation that a device could not do. A Backend's methods return nothing, so they
// panic with it; kernels.Recover turns that into an error where one can be returned.
type Error struct {
	Device int
	Op     string // the operation: "Gemm", "Upload"
	Err    error
	Note   string // what the numbers mean for the user, "" where the driver's words say it all
}

func (e *Error) Error() string {
	s := fmt.Sprintf("cuda:%d: %s: %v", e.Device, e.Op, e.Err)
	if e.Note != "" {
		s += ": " + e.Note
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// OnDevice makes it a kernels.DeviceError.
func (e *Error) OnDevice() string { return fmt.Sprintf("cuda:%d", e.Device) }

// MemoryIsOut reports whether the device has no memory left; the operation may be tried again once some was given back.
func (e *Error) MemoryIsOut() bool { return driver.Code(e.Err) == driver.OutOfMemory }
