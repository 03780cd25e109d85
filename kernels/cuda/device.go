package cuda

import (
	"fmt"
	"os"

	"github.com/darkroom-rl/darkroom/kernels/cuda/blas"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// Report is what was found of CUDA on a machine.
type Report struct {
	Driver  string          `json:"driver,omitempty"` // the CUDA version that the driver offers: "12.4"
	Library string          `json:"library,omitempty"`
	Devices []driver.Device `json:"devices"`
	Missing string          `json:"missing,omitempty"` // why there is none
	// What computes products of bf16: "cuBLASLt 13.4.1, libcublasLt.so.13", or "our own kernels: " and why.
	Products string `json:"products,omitempty"`
	// What computes attention, and products of our own, of bf16 where a device is a Hopper, "" elsewhere.
	Attention string `json:"attention,omitempty"`
}

// Probe says what there is. It starts the driver, and takes no memory of a device.
func Probe() Report {
	l, err := driver.OpenLibrary()
	if err != nil {
		return Report{Missing: err.Error()}
	}
	r := Report{Library: l.Path}
	d := driver.New(l)
	v, err := driver.Begin(d)
	if v > 0 {
		r.Driver = driver.VersionText(v)
	}
	if err == nil {
		r.Devices, err = driver.Devices(d)
	}
	if err != nil {
		r.Missing = err.Error()
		return r
	}
	r.Products = probeProducts(v)
	for _, x := range r.Devices {
		if x.Hopper() {
			r.Attention = probeAttention()
			if m, err := modes(os.Getenv(ModeVariable)); err == nil && m.products == "" && !m.mma {
				r.Products = "our own kernels on compute capability 9.0, by wgmma; elsewhere " + probeProducts(v)
			}
		}
	}
	return r
}

// probeProducts says what a backend would take. It opens the library, and uses no device.
func probeProducts(version int) string {
	m, err := modes(os.Getenv(ModeVariable))
	switch {
	case err != nil:
		return err.Error()
	case m.products == "own" || m.products == "exact":
		return "our own kernels: " + ModeVariable + "=" + m.products
	}
	l, err := blas.OpenLibrary(version)
	if err != nil {
		return "our own kernels: " + err.Error()
	}
	v, err := blas.Version(l)
	if err != nil {
		return fmt.Sprintf("our own kernels: %s: %v", l.Path, err)
	}
	return fmt.Sprintf("cuBLASLt %s, %s", blas.VersionText(v), l.Path)
}
