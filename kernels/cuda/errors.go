package cuda

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

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
