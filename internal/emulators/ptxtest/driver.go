package ptxtest

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unsafe"
)

// A Device is a libcuda with one device that runs PTX: a driver.Caller. Streams do their work when it is asked for.
type Device struct {
	Capability int                      // 80 is 8.0
	Last       error                    // why the last launch failed
	Edit       func(text string) string // changes images before they are read
	Blind      bool                     // races go unseen

	memory  *deviceMemory
	pinned  map[uintptr][]byte
	modules []*module
	entries []*entry
	lost    int32
}

// An entry is a kernel that was asked for.
type entry struct {
	p      *program
	shared int
}

// New is a device of a compute capability: 80, 90.
func New(capability int) *Device {
	return &Device{Capability: capability, memory: newMemory(), pinned: map[uintptr][]byte{}}
}

// The driver's own numbers.
const (
	invalidValue  = 1
	noBinary      = 209
	invalidPTX    = 218
	invalidHandle = 400
	notFound      = 500
	illegal       = 700
	launchFailed  = 719
)

// Call is a driver.Caller's.
func (d *Device) Call(name string, args ...uintptr) (int32, error) {
	f, ok := calls[name]
	if !ok {
		return 0, fmt.Errorf("the interpreter's driver has no %s", name)
	}
	if d.lost != 0 {
		return d.lost, nil
	}
	return f(d, args), nil
}

var calls = map[string]func(d *Device, a []uintptr) int32{
	"cuInit":             func(*Device, []uintptr) int32 { return 0 },
	"cuDriverGetVersion": func(_ *Device, a []uintptr) int32 { return put32(a[0], 12000) },
	"cuGetErrorName":     func(*Device, []uintptr) int32 { return invalidValue },
	"cuDeviceGetCount":   func(_ *Device, a []uintptr) int32 { return put32(a[0], 1) },
	"cuDeviceGet":        func(_ *Device, a []uintptr) int32 { return put32(a[0], 0) },
	"cuDeviceGetName": func(_ *Device, a []uintptr) int32 {
		copy(memoryAt(a[0], int(a[1])), "interpreter of PTX\x00")
		return 0
	},
	"cuDeviceTotalMem_v2":  func(_ *Device, a []uintptr) int32 { return put64(a[0], 2<<30) },
	"cuDeviceGetAttribute": func(d *Device, a []uintptr) int32 { return d.attribute(a[0], int(a[1])) },

	"cuDevicePrimaryCtxRetain":     func(_ *Device, a []uintptr) int32 { return put64(a[0], 1) },
	"cuDevicePrimaryCtxRelease_v2": func(*Device, []uintptr) int32 { return 0 },
	"cuCtxSetCurrent":              func(*Device, []uintptr) int32 { return 0 },
	"cuStreamCreate":               func(_ *Device, a []uintptr) int32 { return put64(a[0], 1) },
	"cuStreamDestroy_v2":           func(*Device, []uintptr) int32 { return 0 },
	"cuStreamSynchronize":          func(*Device, []uintptr) int32 { return 0 },
	"cuStreamQuery":                func(*Device, []uintptr) int32 { return 0 },
	"cuEventCreate":                func(_ *Device, a []uintptr) int32 { return put64(a[0], 1) },
	"cuEventDestroy_v2":            func(*Device, []uintptr) int32 { return 0 },
	"cuEventRecord":                func(*Device, []uintptr) int32 { return 0 },
	"cuEventSynchronize":           func(*Device, []uintptr) int32 { return 0 },

	"cuMemGetInfo_v2": func(d *Device, a []uintptr) int32 {
		put64(a[0], uint64(2<<30-d.memory.used))
		return put64(a[1], 2<<30)
	},
	"cuMemAlloc_v2": func(d *Device, a []uintptr) int32 { return put64(a[0], d.memory.take(int(a[1]))) },
	"cuMemFree_v2": func(d *Device, a []uintptr) int32 {
		if !d.memory.give(uint64(a[0])) {
			return invalidValue
		}
		return 0
	},
	"cuMemHostAlloc":       func(d *Device, a []uintptr) int32 { return d.pin(a[0], int(a[1])) },
	"cuMemFreeHost":        func(d *Device, a []uintptr) int32 { delete(d.pinned, a[0]); return 0 },
	"cuMemcpyHtoDAsync_v2": func(d *Device, a []uintptr) int32 { return d.copy(a[0], a[1], int(a[2]), true) },
	"cuMemcpyDtoHAsync_v2": func(d *Device, a []uintptr) int32 { return d.copy(a[1], a[0], int(a[2]), false) },

	"cuModuleLoadData":       func(d *Device, a []uintptr) int32 { return d.load(a[0], a[1]) },
	"cuModuleUnload":         func(*Device, []uintptr) int32 { return 0 },
	"cuModuleGetFunction":    func(d *Device, a []uintptr) int32 { return d.function(a[0], int(a[1]), text(a[2])) },
	"cuFuncSetAttribute":     func(d *Device, a []uintptr) int32 { return d.allow(int(a[0]), int(a[1]), int(a[2])) },
	"cuTensorMapEncodeTiled": func(d *Device, a []uintptr) int32 { return d.encode(a) },
	"cuLaunchKernel":         func(d *Device, a []uintptr) int32 { return d.launch(a) },
}

// memoryAt is memory outside the interpreter, passed by the backend by its address.
func memoryAt(p uintptr, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

func put32(to uintptr, v uint32) int32 { binary.LittleEndian.PutUint32(memoryAt(to, 4), v); return 0 }
func put64(to uintptr, v uint64) int32 { binary.LittleEndian.PutUint64(memoryAt(to, 8), v); return 0 }

// text is a string that ends with a zero.
func text(p uintptr) string {
	n := 0
	for memoryAt(p+uintptr(n), 1)[0] != 0 {
		n++
	}
	return string(memoryAt(p, n))
}

// attribute is an attribute of a device: multiprocessors, compute capability, shared memory of a block.
func (d *Device) attribute(to uintptr, which int) int32 {
	switch which {
	case 16:
		return put32(to, 2)
	case 75:
		return put32(to, uint32(d.Capability/10))
	case 76:
		return put32(to, uint32(d.Capability%10))
	case 97:
		return put32(to, d.mostShared())
	}
	return invalidValue
}

func (d *Device) mostShared() uint32 {
	if d.Capability == 90 {
		return 227 << 10
	}
	return 163 << 10
}

func (d *Device) pin(to uintptr, n int) int32 {
	b := make([]byte, n)
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	d.pinned[p] = b
	return put64(to, uint64(p))
}

func (d *Device) copy(device, host uintptr, n int, up bool) int32 {
	at := d.memory.bytes(uint64(device), n)
	switch {
	case at == nil:
		return illegal
	case up:
		copy(at, memoryAt(host, n))
	default:
		copy(memoryAt(host, n), at)
	}
	return 0
}

// Images and their kernels, as the driver has them: a handle is a place in a list, from 1 on.

func (d *Device) load(to, image uintptr) int32 {
	if string(memoryAt(image, 4)) == "\x7fELF" {
		return noBinary // machine code
	}
	source := text(image)
	if strings.Contains(source, ".target sm_90a") && d.Capability != 90 {
		return invalidPTX
	}
	if d.Edit != nil {
		source = d.Edit(source)
	}
	m, err := parse(source)
	if err != nil {
		d.Last = err
		return invalidPTX
	}
	d.modules = append(d.modules, m)
	return put64(to, uint64(len(d.modules)))
}

func (d *Device) function(to uintptr, module int, name string) int32 {
	if module < 1 || module > len(d.modules) {
		return invalidHandle
	}
	p, err := d.modules[module-1].link(name)
	if err != nil {
		d.Last = err
		return notFound
	}
	d.entries = append(d.entries, &entry{p, 48 << 10})
	return put64(to, uint64(len(d.entries)))
}

func (d *Device) allow(f, attribute, n int) int32 {
	if f < 1 || f > len(d.entries) || attribute != 8 || n > int(d.mostShared()) {
		return invalidValue
	}
	d.entries[f-1].shared = n
	return 0
}

// launch is cuLaunchKernel: the grid and the block in three dimensions, shared memory, the stream, the arguments.
func (d *Device) launch(a []uintptr) int32 {
	if a[0] < 1 || int(a[0]) > len(d.entries) {
		return invalidHandle
	}
	e := d.entries[a[0]-1]
	l := launch{p: e.p, grid: [2]int{int(a[1]), int(a[2])}, threads: int(a[4]), shared: int(a[7])}
	if l.grid[0] < 1 || l.grid[1] < 1 || l.grid[1] > 65535 || a[3] != 1 || a[5] != 1 || a[6] != 1 {
		return invalidValue
	}
	if l.threads < 1 || l.threads > l.p.threads || l.shared > e.shared {
		return invalidValue
	}
	first := binary.LittleEndian.Uint64(memoryAt(a[9], 8))
	l.args = append([]byte{}, memoryAt(uintptr(first), l.p.paramBytes)...)
	d.memory.blind = d.Blind
	if err := d.memory.run(l); err != nil {
		d.Last = err
		d.lost = launchFailed
		return d.lost
	}
	return 0
}

// Coverage says which instructions of the kernels that were asked for have run: by name, how many places of how many.
func (d *Device) Coverage() map[string][2]int {
	c := map[string][2]int{}
	for _, m := range d.modules {
		for _, p := range m.kernels {
			for i := range p.code {
				in := &p.code[i]
				n := c[in.op]
				n[1]++
				if in.runs > 0 {
					n[0]++
				}
				c[in.op] = n
			}
		}
	}
	return c
}

// Kernels are the names of those that were launched, and how often.
func (d *Device) Kernels() map[string]int {
	k := map[string]int{}
	for _, m := range d.modules {
		for name, p := range m.kernels {
			if p.launches > 0 {
				k[name] += p.launches
			}
		}
	}
	return k
}

// Ran is how many instructions of warps have run.
func (d *Device) Ran() (n uint64) {
	for _, m := range d.modules {
		for _, p := range m.kernels {
			for i := range p.code {
				n += p.code[i].runs
			}
		}
	}
	return n
}

// Again lets the device be used after a launch that failed.
func (d *Device) Again() { d.lost, d.Last = 0, nil }
