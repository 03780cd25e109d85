//go:build !nocuda && linux && (amd64 || arm64)

package double

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/darkroom-rl/darkroom/kernels/cuda/nccl"
)

// Control makes the double behave as drivers and devices do.
type Control struct {
	t      testing.TB
	handle uintptr
	path   string
}

// New builds the double and puts it back to its first state, now and when the test ends.
func New(t testing.TB) *Control {
	t.Helper()
	path := Library(t)
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	c := &Control{t, h, path}
	c.call("fakecuda_reset")
	t.Cleanup(func() { c.call("fakecuda_reset") })
	return c
}

func (c *Control) call(name string, args ...uintptr) uintptr {
	f, err := purego.Dlsym(c.handle, name)
	if err != nil {
		c.t.Fatal(err)
	}
	r, _, _ := purego.SyscallN(f, args...)
	return r
}

// text is a zero-terminated copy on the heap, where nothing moves.
//
//go:noinline
func text(s string) []byte { return append([]byte(s), 0) }

// Fail makes the nth call of a function from now on return a code.
func (c *Control) Fail(function string, nth, code int) {
	name := text(function)
	c.call("fakecuda_fail", uintptr(unsafe.Pointer(unsafe.SliceData(name))), uintptr(nth), uintptr(code))
	runtime.KeepAlive(name)
}

// Lose loses a device with a code at the nth call of a function for it from now on; of "", at once.
func (c *Control) Lose(device int, function string, nth, code int) {
	name := text(function)
	c.call("fakecuda_lose", uintptr(device), uintptr(unsafe.Pointer(unsafe.SliceData(name))), uintptr(nth), uintptr(code))
	runtime.KeepAlive(name)
}

// Set says what the driver finds: its version (12040 is CUDA 12.4), how many devices, their compute
// capability (80 is 8.0), and their memory in bytes.
func (c *Control) Set(version, devices, capability, memory int) {
	c.call("fakecuda_set", uintptr(version), uintptr(devices), uintptr(capability), uintptr(memory))
}

// Idle makes the double take kernels and not run them; what is read back is zeros. So what a program asks of a
// device can be counted at sizes that a host cannot compute.
func (c *Control) Idle() { c.call("fakecuda_idle") }

// Wrong makes wgmma leave out so many of the 16 terms of each product.
func (c *Control) Wrong(terms int) { c.call("fakecuda_wrong", uintptr(terms)) }

// Used is the device memory that is taken.
func (c *Control) Used() int { return int(c.call("fakecuda_used")) }

// Host is the limit of further bytes of pinned host memory.
func (c *Control) Host(bytes int) { c.call("fakecuda_host", uintptr(bytes)) }

// Apart lets no device reach another's memory; copies between them work still.
func (c *Control) Apart() { c.call("fakecuda_peers", 0) }

// Resident is the limit of the bytes of weights on a device that came on a stream of their own; 0: no limit.
func (c *Control) Resident(bytes int) { c.call("fakecuda_resident", uintptr(bytes)) }

// Peak is the most bytes of such weights that did.
func (c *Control) Peak() int { return int(c.call("fakecuda_peak")) }

// A Disorder is a fault of the order in which streams use one memory; host/fakeorder.h. The device is lost then.
type Disorder int

const (
	Unawaited  Disorder = iota // a copy's memory was read by work that does not wait for it
	StillRead                  // memory was filled that queued work reads
	CopiedBack                 // a weight was
	TooMany                    // more weights than Resident says
)

// Disorders counts one.
func (c *Control) Disorders(d Disorder) int { return int(c.call("fakecuda_faults", uintptr(d))) }

// A Fault is a promise that the double's cuBLASLt breaks; host/fakecublaslt.h says what each is.
type Fault int

const (
	ByBatch Fault = 1 << iota
	ByPlace
	Wrong
	Unsteady
	Split
	None
	Refuses
	Late
	Greedy
	ByAddress
	ByDevice
)

// SetProducts says what cuBLASLt is like: its version (130401 is 13.4.1), and which promises its first
// so many algorithms, of three, break.
func (c *Control) SetProducts(version int, faults Fault, faulty int) {
	c.call("fakelt_set", uintptr(version), uintptr(faults), uintptr(faulty))
}

// OnlyOn lets the faults that were set be those of one device's library.
func (c *Control) OnlyOn(device int) { c.call("fakelt_only", uintptr(device)) }

// Objects is how many handles and descriptors of cuBLASLt there are.
func (c *Control) Objects() int { return int(c.call("fakelt_objects")) }

// NCCL makes the test's process open the double as NCCL, too, of a version as it writes it: 22105.
func (c *Control) NCCL(version int) {
	c.t.Setenv(nccl.LibraryVariable, c.path)
	c.call("fakenccl_set", uintptr(version))
}

// Absent makes the gatherings of a rank vanish from now on, so that the others wait for it; -1 is none.
func (c *Control) Absent(rank int) { c.call("fakenccl_fault", uintptr(rank), 0) }

// Stuck makes NCCL not come back from a gathering until it is aborted.
func (c *Control) Stuck() { c.call("fakenccl_fault", ^uintptr(0), 1) }
