package cuda

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

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

// Report is what was found of CUDA on a machine.
type Report struct {
	Driver  string   `json:"driver,omitempty"` // the CUDA version that the driver offers: "12.4"
	Library string   `json:"library,omitempty"`
	Devices []Device `json:"devices"`
	Missing string   `json:"missing,omitempty"` // why there is none
	// What computes products of bf16: "cuBLASLt 13.4.1, libcublasLt.so.13", or "our own kernels: " and why.
	Products string `json:"products,omitempty"`
	// What computes attention, and products of our own, of bf16 where a device is a Hopper, "" elsewhere.
	Attention string `json:"attention,omitempty"`
}

// Oldest is the least CUDA version of a driver: PTX 8.0.
const oldest = 12000

// Probe says what there is. It starts the driver, and takes no memory of a device.
func Probe() Report {
	l, err := openLibrary()
	if err != nil {
		return Report{Missing: err.Error()}
	}
	r := Report{Library: l.path}
	d := newDriver(l)
	v, err := begin(d)
	if v > 0 {
		r.Driver = versionText(v)
	}
	if err == nil {
		r.Devices, err = devices(d)
	}
	if err != nil {
		r.Missing = err.Error()
		return r
	}
	r.Products = probeProducts(v)
	for _, x := range r.Devices {
		if x.hopper() {
			r.Attention = probeAttention()
		}
	}
	return r
}

// probeProducts says what a backend would take. It opens the library, and uses no device.
func probeProducts(driver int) string {
	m, err := modes(os.Getenv(ModeVariable))
	switch {
	case err != nil:
		return err.Error()
	case m.products == "own" || m.products == "exact":
		return "our own kernels: " + ModeVariable + "=" + m.products
	}
	l, err := openProducts(driver)
	if err != nil {
		return "our own kernels: " + err.Error()
	}
	v, err := blasVersion(l)
	if err != nil {
		return fmt.Sprintf("our own kernels: %s: %v", l.path, err)
	}
	return fmt.Sprintf("cuBLASLt %s, %s", blasVersionText(v), l.path)
}

func versionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// begin starts the driver and returns its version.
func begin(d *driver) (version int, err error) {
	if err = d.start(); err != nil {
		if note := explain(code(err)); note != "" {
			return 0, errors.New(note)
		}
		return 0, err
	}
	if version, err = d.version(); err != nil {
		return 0, err
	}
	if version < oldest {
		return version, fmt.Errorf("the driver offers CUDA %s; %s or later is needed (driver 525)", versionText(version), versionText(oldest))
	}
	return version, nil
}

func devices(d *driver) ([]Device, error) {
	n, err := d.count()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New(explain(codeNoDevice))
	}
	all := make([]Device, n)
	for i := range all {
		if all[i], err = describe(d, i); err != nil {
			return nil, fmt.Errorf("cuda:%d: %w", i, err)
		}
	}
	return all, nil
}

func describe(d *driver, i int) (Device, error) {
	x := Device{Index: i}
	dev, err := d.device(i)
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

// LibraryVariable names a libcuda to open in place of the system's, ProductsVariable a libcublasLt.
const (
	LibraryVariable  = "DARKROOM_LIBCUDA"
	ProductsVariable = "DARKROOM_LIBCUBLASLT"
)
