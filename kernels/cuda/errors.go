package cuda

import (
	"errors"
	"fmt"
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

// code is the driver's code of an error, 0 where it has none.
func code(err error) int32 {
	if e := new(callError); errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// explain is what a code means for someone who runs a program.
func explain(code int32) string {
	switch code {
	case codeNoDevice:
		return "the driver finds no device (CUDA_VISIBLE_DEVICES may hide it)"
	case codeStub:
		return "this libcuda is a toolkit's stub; the one that comes with the driver is needed"
	case codeInvalidPTX, codeUnsupportedPTX:
		return "the driver is too old for the program's kernels; it needs one of CUDA 12.0 (525) or later"
	case codeNoBinary:
		return "the program has no kernels for this device"
	case 700, 714, 715, 716, 717, 718, 719:
		return "a kernel failed; the device's context is lost, and the program must be started again"
	}
	return ""
}
