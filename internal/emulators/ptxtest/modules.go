package ptxtest

import (
	"encoding/binary"
	"strings"
)

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
