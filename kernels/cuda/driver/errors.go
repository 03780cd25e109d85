package driver

import (
	"errors"
	"fmt"
)

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
	case 700, 714, 715, 716, 717, 718, 719:
		return "a kernel failed; the device's context is lost, and the program must be started again"
	}
	return ""
}
