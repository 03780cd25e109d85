package cuda

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// A caller calls a function of libcuda by its name: all that the rest of the package knows of
// where the driver comes from. The result is the driver's code, 0 for success; err says that
// the driver has no such function.
//
// Pointers among the arguments are to memory that does not move and outlives the call: that of
// a driver's cells, of an argument block, or memory that is not Go's.
type caller interface {
	call(name string, args ...uintptr) (code int32, err error)
}

// driver is the driver's interface with types: what a backend does with a device, and no more.
type driver struct {
	caller
	// What the driver reads and writes is part of a struct on the heap, where nothing moves: a goroutine's stack
	// is moved when it grows, and Go does not know of addresses that are numbers.
	cells [4]uintptr
	list  [1]uintptr
	block [argumentBytes / 8]uint64 // a launch's argument
	room  [256]byte                 // a name, on its way there or back

	traffic kernels.Traffic
	tensor  tensorShape // what a tensor map is encoded from
}

// newDriver is not inlined: so the struct is on the heap whatever its caller does with it. On a stack that
// grows it would move while the driver has its address.
//
//go:noinline
func newDriver(c caller) *driver { return &driver{caller: c} }

// Codes that are told apart; the driver's own numbers.
const (
	codeOutOfMemory     = 2
	codeNoDevice        = 100
	codeInvalidDevice   = 101
	codeInvalidImage    = 200
	codeNoBinary        = 209
	codeInvalidPTX      = 218
	codeUnsupportedPTX  = 222
	codeNotReady        = 600
	codeStub            = 34
	attributeProcessors = 16
	attributeMajor      = 75
	attributeMinor      = 76
	attributeShared     = 97
	functionShared      = 8 // the function's attribute for shared memory above 48 KiB
)

// do calls and turns a code into an error.
func (d *driver) do(name string, args ...uintptr) error {
	code, err := d.call(name, args...)
	if err != nil {
		return err
	}
	if code != 0 {
		return &callError{Call: name, Code: code, Name: d.name(code)}
	}
	return nil
}

// get is do for a function that writes one value to its first argument.
func (d *driver) get(name string, args ...uintptr) (uintptr, error) {
	d.cells[0] = 0
	err := d.do(name, append([]uintptr{d.cell(0)}, args...)...)
	return d.cells[0], err
}

func (d *driver) cell(i int) uintptr { return uintptr(unsafe.Pointer(&d.cells[i])) }

// name is the driver's word for a code, "" where it has none.
func (d *driver) name(code int32) string {
	d.cells[3] = 0
	if c, err := d.call("cuGetErrorName", uintptr(code), d.cell(3)); c != 0 || err != nil {
		return ""
	}
	return cString(d.cells[3])
}

// cString is a string of C, of at most 1 KiB.
func cString(p uintptr) string {
	if p == 0 {
		return ""
	}
	b := foreign(p, 1<<10)
	n := 0
	for n < len(b) && b[n] != 0 {
		n++
	}
	return string(b[:n])
}

// foreign is memory that is not Go's.
func foreign(p uintptr, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func (d *driver) start() error { return d.do("cuInit", 0) }

func (d *driver) version() (int, error) {
	v, err := d.get("cuDriverGetVersion")
	return int(int32(v)), err
}

func (d *driver) count() (int, error) {
	n, err := d.get("cuDeviceGetCount")
	return int(int32(n)), err
}

func (d *driver) device(i int) (int32, error) {
	dev, err := d.get("cuDeviceGet", uintptr(i))
	return int32(dev), err
}

func (d *driver) deviceName(dev int32) (string, error) {
	d.room = [len(d.room)]byte{}
	err := d.do("cuDeviceGetName", address(d.room[:]), uintptr(len(d.room)-1), uintptr(dev))
	name, _, _ := strings.Cut(string(d.room[:]), "\x00")
	return name, err
}

func (d *driver) attribute(which int, dev int32) (int, error) {
	v, err := d.get("cuDeviceGetAttribute", uintptr(which), uintptr(dev))
	return int(int32(v)), err
}

func (d *driver) memoryOf(dev int32) (int, error) {
	n, err := d.get("cuDeviceTotalMem_v2", uintptr(dev))
	return int(n), err
}

func (d *driver) retain(dev int32) (context uintptr, err error) {
	return d.get("cuDevicePrimaryCtxRetain", uintptr(dev))
}

func (d *driver) release(dev int32) error { return d.do("cuDevicePrimaryCtxRelease_v2", uintptr(dev)) }

// current makes a context that of the calling thread.
func (d *driver) current(context uintptr) error { return d.do("cuCtxSetCurrent", context) }

func (d *driver) memoryLeft() (left int, err error) {
	d.cells[0], d.cells[1] = 0, 0
	err = d.do("cuMemGetInfo_v2", d.cell(0), d.cell(1))
	return int(d.cells[0]), err
}

func (d *driver) alloc(n int) (uintptr, error) { return d.get("cuMemAlloc_v2", uintptr(n)) }
func (d *driver) free(p uintptr) error         { return d.do("cuMemFree_v2", p) }

// pinned is host memory that copies can go to and from while the program goes on.
func (d *driver) pinned(n int) ([]byte, error) {
	p, err := d.get("cuMemHostAlloc", uintptr(n), 0)
	if err != nil {
		return nil, err
	}
	return foreign(p, n), nil
}

func (d *driver) unpin(b []byte) error { return d.do("cuMemFreeHost", address(b)) }

func (d *driver) toDevice(dst uintptr, pinned []byte, stream uintptr) error {
	d.traffic.Uploads++
	d.traffic.UploadBytes += int64(len(pinned))
	return d.do("cuMemcpyHtoDAsync_v2", dst, address(pinned), uintptr(len(pinned)), stream)
}

func (d *driver) toHost(pinned []byte, src, stream uintptr) error {
	d.traffic.Downloads++
	d.traffic.DownloadBytes += int64(len(pinned))
	return d.do("cuMemcpyDtoHAsync_v2", address(pinned), src, uintptr(len(pinned)), stream)
}

// stream makes one that does not wait for the default stream.
func (d *driver) stream() (uintptr, error)  { return d.get("cuStreamCreate", 1) }
func (d *driver) endStream(s uintptr) error { return d.do("cuStreamDestroy_v2", s) }

// wait lets the program wait until a stream's work is done.
func (d *driver) wait(s uintptr) error {
	d.traffic.Waits++
	return d.do("cuStreamSynchronize", s)
}

// idle reports whether a stream has done what was queued on it. It does not wait.
func (d *driver) idle(s uintptr) (bool, error) {
	err := d.do("cuStreamQuery", s)
	if code(err) == codeNotReady {
		return false, nil
	}
	return err == nil, err
}

// event makes one that takes no time.
func (d *driver) event() (uintptr, error)     { return d.get("cuEventCreate", 2) }
func (d *driver) endEvent(e uintptr) error    { return d.do("cuEventDestroy_v2", e) }
func (d *driver) record(e, s uintptr) error   { return d.do("cuEventRecord", e, s) }
func (d *driver) unload(module uintptr) error { return d.do("cuModuleUnload", module) }

func (d *driver) waitEvent(e uintptr) error {
	d.traffic.Waits++
	return d.do("cuEventSynchronize", e)
}

func (d *driver) load(image []byte) (module uintptr, err error) {
	module, err = d.get("cuModuleLoadData", address(image))
	runtime.KeepAlive(image)
	return module, err
}

func (d *driver) function(module uintptr, name string) (uintptr, error) {
	if len(name) >= len(d.room) {
		return 0, fmt.Errorf("a kernel's name of %d letters", len(name))
	}
	d.room[copy(d.room[:], name)] = 0
	return d.get("cuModuleGetFunction", module, address(d.room[:]))
}

func (d *driver) allowShared(f uintptr, bytes int) error {
	return d.do("cuFuncSetAttribute", f, functionShared, uintptr(bytes))
}

// argumentBytes is the most that a kernel's argument may take: as much as CUDA allows.
const argumentBytes = 4096

// launch starts a kernel of one argument, of some bytes that lie at args.
func (d *driver) launch(f uintptr, grid [2]int, threads, shared int, stream uintptr, args unsafe.Pointer, bytes int) error {
	if bytes > argumentBytes {
		return fmt.Errorf("a kernel's argument of %d bytes; at most %d", bytes, argumentBytes)
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&d.block)), bytes), unsafe.Slice((*byte)(args), bytes))
	d.list[0] = uintptr(unsafe.Pointer(&d.block))
	d.traffic.Launches++
	return d.do("cuLaunchKernel", f, uintptr(grid[0]), uintptr(grid[1]), 1, uintptr(threads), 1, 1, uintptr(shared), stream,
		uintptr(unsafe.Pointer(&d.list)), 0)
}

func (e *callError) Error() string {
	name := e.Name
	if name == "" {
		name = "error"
	}
	return fmt.Sprintf("%s: %s (%d)", e.Call, name, e.Code)
}

// callError is a call of the driver that failed.
type callError struct {
	Call, Name string
	Code       int32
}
