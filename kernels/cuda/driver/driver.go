package driver

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// A Caller calls a function of libcuda by its name: all that the rest of the package knows of
// where the driver comes from. The result is the driver's code, 0 for success; err says that
// the driver has no such function.
//
// Pointers among the arguments are to memory that does not move and outlives the call: that of
// a driver's cells, of an argument block, or memory that is not Go's.
type Caller interface {
	Call(name string, args ...uintptr) (code int32, err error)
}

// Driver is the driver's interface with types: what a backend does with a device, and no more.
type Driver struct {
	Caller
	// What the driver reads and writes is part of a struct on the heap, where nothing moves: a goroutine's stack
	// is moved when it grows, and Go does not know of addresses that are numbers.
	cells [4]uintptr
	list  [1]uintptr
	block [argumentBytes / 8]uint64 // a launch's argument
	room  [256]byte                 // a name, on its way there or back

	config launchConfig
	beside launchAttribute

	Traffic kernels.Traffic // what was asked of the device so far
	tensor  tensorShape     // what a tensor map is encoded from
}

// New is not inlined: so the struct is on the heap whatever its caller does with it. On a stack that
// grows it would move while the driver has its address.
//
//go:noinline
func New(c Caller) *Driver { return &Driver{Caller: c} }

// do calls and turns a code into an error.
func (d *Driver) Do(name string, args ...uintptr) error {
	code, err := d.Call(name, args...)
	if err != nil {
		return err
	}
	if code != 0 {
		return &CallError{Call: name, Code: code, Name: d.name(code)}
	}
	return nil
}

// get is do for a function that writes one value to its first argument.
func (d *Driver) get(name string, args ...uintptr) (uintptr, error) {
	d.cells[0] = 0
	err := d.Do(name, append([]uintptr{d.cell(0)}, args...)...)
	return d.cells[0], err
}

func (d *Driver) cell(i int) uintptr { return uintptr(unsafe.Pointer(&d.cells[i])) }

// name is the driver's word for a code, "" where it has none.
func (d *Driver) name(code int32) string {
	d.cells[3] = 0
	if c, err := d.Call("cuGetErrorName", uintptr(code), d.cell(3)); c != 0 || err != nil {
		return ""
	}
	return CString(d.cells[3])
}

// CString is a string of C, of at most 1 KiB.
func CString(p uintptr) string {
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

func (d *Driver) start() error { return d.Do("cuInit", 0) }

func (d *Driver) version() (int, error) {
	v, err := d.get("cuDriverGetVersion")
	return int(int32(v)), err
}

func (d *Driver) count() (int, error) {
	n, err := d.get("cuDeviceGetCount")
	return int(int32(n)), err
}

func (d *Driver) Device(i int) (int32, error) {
	dev, err := d.get("cuDeviceGet", uintptr(i))
	return int32(dev), err
}

func (d *Driver) deviceName(dev int32) (string, error) {
	d.room = [len(d.room)]byte{}
	err := d.Do("cuDeviceGetName", address(d.room[:]), uintptr(len(d.room)-1), uintptr(dev))
	name, _, _ := strings.Cut(string(d.room[:]), "\x00")
	return name, err
}

func (d *Driver) attribute(which int, dev int32) (int, error) {
	v, err := d.get("cuDeviceGetAttribute", uintptr(which), uintptr(dev))
	return int(int32(v)), err
}

func (d *Driver) memoryOf(dev int32) (int, error) {
	n, err := d.get("cuDeviceTotalMem_v2", uintptr(dev))
	return int(n), err
}

func (d *Driver) Retain(dev int32) (context uintptr, err error) {
	return d.get("cuDevicePrimaryCtxRetain", uintptr(dev))
}

func (d *Driver) Release(dev int32) error { return d.Do("cuDevicePrimaryCtxRelease_v2", uintptr(dev)) }

// current makes a context that of the calling thread.
func (d *Driver) Current(context uintptr) error { return d.Do("cuCtxSetCurrent", context) }

func (d *Driver) MemoryLeft() (left int, err error) {
	d.cells[0], d.cells[1] = 0, 0
	err = d.Do("cuMemGetInfo_v2", d.cell(0), d.cell(1))
	return int(d.cells[0]), err
}

func (d *Driver) Alloc(n int) (uintptr, error) { return d.get("cuMemAlloc_v2", uintptr(n)) }
func (d *Driver) Free(p uintptr) error         { return d.Do("cuMemFree_v2", p) }

// Pinned is host memory that copies can go to and from while the program goes on, on every device.
func (d *Driver) Pinned(n int) ([]byte, error) {
	p, err := d.get("cuMemHostAlloc", uintptr(n), hostPortable)
	if err != nil {
		return nil, err
	}
	return foreign(p, n), nil
}

func (d *Driver) Unpin(b []byte) error { return d.Do("cuMemFreeHost", address(b)) }

func (d *Driver) ToDevice(dst uintptr, pinned []byte, stream uintptr) error {
	d.Traffic.Uploads++
	d.Traffic.UploadBytes += int64(len(pinned))
	return d.Do("cuMemcpyHtoDAsync_v2", dst, address(pinned), uintptr(len(pinned)), stream)
}

func (d *Driver) ToHost(pinned []byte, src, stream uintptr) error {
	d.Traffic.Downloads++
	d.Traffic.DownloadBytes += int64(len(pinned))
	return d.Do("cuMemcpyDtoHAsync_v2", address(pinned), src, uintptr(len(pinned)), stream)
}

// hostPortable pins memory for the copies of all contexts.
const hostPortable = 1

// FromPeer copies between two devices' memories. Where neither reaches the other's, the driver goes through the host.
func (d *Driver) FromPeer(dst, context, src, from uintptr, n int, stream uintptr) error {
	return d.Do("cuMemcpyPeerAsync", dst, context, src, from, uintptr(n), stream)
}

// Reach lets the current device read another context's memory itself, where that is possible. Copies work either way.
func (d *Driver) Reach(dev, of int32, context uintptr) error {
	can, err := d.get("cuDeviceCanAccessPeer", uintptr(dev), uintptr(of))
	if err != nil || int32(can) == 0 {
		return err
	}
	if err = d.Do("cuCtxEnablePeerAccess", context, 0); Code(err) == peerReached {
		return nil
	}
	return err
}

// stream makes one that does not wait for the default stream.
func (d *Driver) Stream() (uintptr, error)  { return d.get("cuStreamCreate", 1) }
func (d *Driver) EndStream(s uintptr) error { return d.Do("cuStreamDestroy_v2", s) }

// wait lets the program wait until a stream's work is done.
func (d *Driver) Wait(s uintptr) error {
	d.Traffic.Waits++
	return d.Do("cuStreamSynchronize", s)
}

// idle reports whether a stream has done what was queued on it. It does not wait.
func (d *Driver) Idle(s uintptr) (bool, error) {
	err := d.Do("cuStreamQuery", s)
	if Code(err) == notReady {
		return false, nil
	}
	return err == nil, err
}

// event makes one that takes no time.
func (d *Driver) Event() (uintptr, error)     { return d.get("cuEventCreate", 2) }
func (d *Driver) EndEvent(e uintptr) error    { return d.Do("cuEventDestroy_v2", e) }
func (d *Driver) Record(e, s uintptr) error   { return d.Do("cuEventRecord", e, s) }
func (d *Driver) Unload(module uintptr) error { return d.Do("cuModuleUnload", module) }

// Follow lets later work of a stream wait for an event as it was recorded last. The program goes on.
func (d *Driver) Follow(s, e uintptr) error { return d.Do("cuStreamWaitEvent", s, e, 0) }

func (d *Driver) WaitEvent(e uintptr) error {
	d.Traffic.Waits++
	return d.Do("cuEventSynchronize", e)
}

func (d *Driver) Load(image []byte) (module uintptr, err error) {
	module, err = d.get("cuModuleLoadData", address(image))
	runtime.KeepAlive(image)
	return module, err
}

func (d *Driver) Function(module uintptr, name string) (uintptr, error) {
	if len(name) >= len(d.room) {
		return 0, fmt.Errorf("a kernel's name of %d letters", len(name))
	}
	d.room[copy(d.room[:], name)] = 0
	return d.get("cuModuleGetFunction", module, address(d.room[:]))
}

func (d *Driver) AllowShared(f uintptr, bytes int) error {
	return d.Do("cuFuncSetAttribute", f, functionShared, uintptr(bytes))
}

// functionShared is the function's attribute for shared memory above 48 KiB.
const functionShared = 8

// argumentBytes is the most that a kernel's argument may take: as much as CUDA allows.
const argumentBytes = 4096

// A Launch is how a kernel is started.
type Launch struct {
	Grid            [2]int
	Threads, Shared int
	Stream          uintptr
	Beside          bool // it may start beside the end of what is before it in the stream, for which it waits itself
}

// Launch starts a kernel of one argument, of some bytes that lie at args.
func (d *Driver) Launch(f uintptr, l Launch, args unsafe.Pointer, bytes int) error {
	if bytes > argumentBytes {
		return fmt.Errorf("a kernel's argument of %d bytes; at most %d", bytes, argumentBytes)
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&d.block)), bytes), unsafe.Slice((*byte)(args), bytes))
	d.list[0] = uintptr(unsafe.Pointer(&d.block))
	d.Traffic.Launches++
	list := uintptr(unsafe.Pointer(&d.list))
	if !l.Beside {
		return d.Do("cuLaunchKernel", f, uintptr(l.Grid[0]), uintptr(l.Grid[1]), 1, uintptr(l.Threads), 1, 1, uintptr(l.Shared), l.Stream, list, 0)
	}
	d.config = launchConfig{grid: [3]uint32{uint32(l.Grid[0]), uint32(l.Grid[1]), 1}, block: [3]uint32{uint32(l.Threads), 1, 1},
		shared: uint32(l.Shared), stream: l.Stream, attributes: uintptr(unsafe.Pointer(&d.beside)), count: 1}
	d.beside = launchAttribute{id: programmaticStreamSerialization, value: [16]uint32{1}}
	return d.Do("cuLaunchKernelEx", uintptr(unsafe.Pointer(&d.config)), f, list, 0)
}

// launchConfig is CUlaunchConfig, launchAttribute CUlaunchAttribute.
type launchConfig struct {
	grid, block        [3]uint32
	shared             uint32
	stream, attributes uintptr
	count              uint32
}

type launchAttribute struct {
	id, _ uint32
	value [16]uint32
}

const programmaticStreamSerialization = 6

// Codes that are told apart; the driver's own numbers.
const (
	OutOfMemory    = 2
	NoDevice       = 100
	InvalidDevice  = 101
	InvalidImage   = 200
	NoBinary       = 209
	InvalidPTX     = 218
	UnsupportedPTX = 222
	notReady       = 600
	peerReached    = 704
	stub           = 34
)

func (e *CallError) Error() string {
	name := e.Name
	if name == "" {
		name = "error"
	}
	return fmt.Sprintf("%s: %s (%d)", e.Call, name, e.Code)
}

// CallError is a call of the driver that failed.
type CallError struct {
	Call, Name string
	Code       int32
}

// Code is the driver's code of an error, 0 where it has none.
func Code(err error) int32 {
	if e := new(CallError); errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// Explain is what a code means for someone who runs a program.
func Explain(code int32) string {
	switch code {
	case NoDevice:
		return "the driver finds no device (CUDA_VISIBLE_DEVICES may hide it)"
	case stub:
		return "this libcuda is a toolkit's stub; the one that comes with the driver is needed"
	case InvalidPTX, UnsupportedPTX:
		return "the driver is too old for the program's kernels; it needs one of CUDA 12.0 (525) or later"
	case NoBinary:
		return "the program has no kernels for this device"
	case 46:
		return "the device is in use by another program that has it to itself (nvidia-smi -q -d COMPUTE shows the mode)"
	case 214:
		return "the device's memory had an error that it could not correct; nvidia-smi -q -d ECC counts them, and the machine must be restarted"
	case 220:
		return "the link between two devices had an error that it could not correct; nvidia-smi nvlink -e counts them"
	case 702:
		return "a kernel took longer than the system allows: the device also drives a display; use another device, or stop the display's server"
	case 802:
		return "the devices' switches are not ready: nvidia-fabricmanager must run, of the driver's version"
	case 803:
		return "the driver's library and its kernel module are of different versions: restart the machine, or load the module anew"
	case 804:
		return "this libcuda is of CUDA's forward compatibility, which this device does not have; use the library that came with the driver"
	case 805, 806, 807, 808, 809, 810:
		return "the multi-process service does not take this program; see nvidia-cuda-mps-control"
	case 999:
		return "the driver cannot say what failed; dmesg may (Xid); after a suspend, load the module nvidia_uvm anew"
	case 700, 714, 715, 716, 717, 718, 719, 721:
		return "a kernel failed; the device's context is lost, and the program must be started again"
	}
	return ""
}

// TimedEvent makes an event that takes the time.
func TimedEvent(d *Driver) (uintptr, error) { return d.get("cuEventCreate", 0) }

// Elapsed is the milliseconds between two events that were waited for, as the bits of an fp32.
func Elapsed(d *Driver, from, to uintptr) (uint32, error) {
	ms, err := d.get("cuEventElapsedTime", from, to)
	return uint32(ms), err
}

// A TensorMap is a CUtensorMap: 128 bytes, opaque, at a multiple of 64.
type TensorMap [16]uint64

// A Block of bf16 in device memory, as a tensor map describes it: numbers of four dimensions, the innermost first,
// the distances in bytes of the other three, and how much of each one copy brings.
type Block struct {
	Addr    uintptr
	Dims    [4]uint64
	Strides [3]uint64
	Box     [4]uint32
}

// What cuTensorMapEncodeTiled is asked for: bf16, no interleave, the swizzle of 128 bytes, whole lines of the
// second cache, zeros beyond.
const (
	mapBF16       = 9
	mapSwizzle128 = 3
	mapPromote256 = 3
)

// tensorShape is what the driver reads when it encodes a map: part of the driver's struct, where nothing moves.
type tensorShape struct {
	Block
	steps [4]uint32
}

// Encode writes the map of a block.
func (d *Driver) Encode(to *TensorMap, x Block) error {
	a := &d.tensor
	a.Block, a.steps = x, [4]uint32{1, 1, 1, 1}
	return d.Do("cuTensorMapEncodeTiled", uintptr(unsafe.Pointer(to)), mapBF16, 4, x.Addr,
		uintptr(unsafe.Pointer(&a.Dims)), uintptr(unsafe.Pointer(&a.Strides)),
		uintptr(unsafe.Pointer(&a.Box)), uintptr(unsafe.Pointer(&a.steps)), 0, mapSwizzle128, mapPromote256, 0)
}
