package driver

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// LibraryVariable names a libcuda to open in place of the system's.
const LibraryVariable = "DARKROOM_LIBCUDA"

// A Device is what the driver says of one.
type Device struct {
	Index      int    `json:"index"`
	Name       string `json:"name"`
	Major      int    `json:"major"` // compute capability
	Minor      int    `json:"minor"`
	Processors int    `json:"processors"`
	Memory     int    `json:"memory"` // bytes
	Shared     int    `json:"shared"` // bytes of shared memory that one block may ask for
}

func (d Device) String() string {
	return fmt.Sprintf("cuda:%d %s, compute capability %d.%d, %.0f GiB", d.Index, d.Name, d.Major, d.Minor, float64(d.Memory)/(1<<30))
}

// Hopper says that the device is of compute capability 9.0, whose wgmma and copy engine other devices have not.
func (d Device) Hopper() bool { return d.Major == 9 && d.Minor == 0 }

// Verified says that the conformance suite has passed on a device of this compute capability (LOG.md, CUDA on
// hardware). Others have to be named.
func (d Device) Verified() bool { return d.Hopper() }

// Oldest is the least CUDA version of a driver: PTX 8.0.
const Oldest = 12000

// What is asked of a device.
const (
	attributeProcessors = 16
	attributeMajor      = 75
	attributeMinor      = 76
	attributeShared     = 97
)

// VersionText is a version as people write it: 12.4.
func VersionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// Begin starts the driver and returns its version.
func Begin(d *Driver) (version int, err error) {
	if err = d.start(); err != nil {
		if note := Explain(Code(err)); note != "" {
			return 0, errors.New(note)
		}
		return 0, err
	}
	if version, err = d.version(); err != nil {
		return 0, err
	}
	if version < Oldest {
		return version, fmt.Errorf("the driver offers CUDA %s; %s or later is needed (driver 525)", VersionText(version), VersionText(Oldest))
	}
	return version, nil
}

// Devices describes all that the driver finds.
func Devices(d *Driver) ([]Device, error) {
	n, err := d.count()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New(Explain(NoDevice))
	}
	all := make([]Device, n)
	for i := range all {
		if all[i], err = describe(d, i); err != nil {
			return nil, fmt.Errorf("cuda:%d: %w", i, err)
		}
	}
	return all, nil
}

func describe(d *Driver, i int) (Device, error) {
	x := Device{Index: i}
	dev, err := d.Device(i)
	if err != nil {
		return x, err
	}
	if x.Name, err = d.deviceName(dev); err != nil {
		return x, err
	}
	if x.Memory, err = d.memoryOf(dev); err != nil {
		return x, err
	}
	for _, a := range []struct {
		which int
		to    *int
	}{{attributeMajor, &x.Major}, {attributeMinor, &x.Minor}, {attributeProcessors, &x.Processors}, {attributeShared, &x.Shared}} {
		if *a.to, err = d.attribute(a.which, dev); err != nil {
			return x, err
		}
	}
	return x, nil
}

// ParseDevice is the number in "cuda:0"; "cuda" is the first.
func ParseDevice(s string) (int, error) {
	rest, ok := strings.CutPrefix(s, "cuda")
	if !ok {
		return 0, fmt.Errorf("%q is no CUDA device; write cuda:0", s)
	}
	if rest == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(strings.TrimPrefix(rest, ":"))
	if err != nil || n < 0 || rest[0] != ':' {
		return 0, fmt.Errorf("%q is no CUDA device; write cuda:0", s)
	}
	return n, nil
}
