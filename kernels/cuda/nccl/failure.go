package nccl

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// do calls, and turns a code into an error.
func (n *Wire) do(name string, args ...uintptr) error {
	code, err := n.lib.Call(name, args...)
	if err == nil && code != 0 && code != inProgress {
		err = n.failure(name, code)
	}
	return err
}

// failure is a code with NCCL's words for it, and what its last trouble was.
func (n *Wire) failure(name string, code int32) error {
	e := &driver.CallError{Call: name, Code: code}
	if p, err := n.lib.Pointer("ncclGetErrorString", uintptr(code)); err == nil {
		e.Name = driver.CString(p)
	}
	var err error = e
	if p, missing := n.lib.Pointer("ncclGetLastError", 0); missing == nil { // not there before 2.13
		if trouble := driver.CString(p); trouble != "" {
			err = fmt.Errorf("%w: %s", err, trouble)
		}
	}
	if note := explain(code); note != "" {
		err = fmt.Errorf("%w: %s", err, note)
	}
	return err
}

// explain is what a code means for someone who runs a program.
func explain(code int32) string {
	switch code {
	case unhandled, system:
		return "NCCL_DEBUG=WARN says more; " + LibraryVariable + "=off goes through host memory"
	case usage:
		return "the devices cannot be joined as they were asked to be"
	case remote:
		return "another rank is lost, and the program must be started again"
	}
	return ""
}
