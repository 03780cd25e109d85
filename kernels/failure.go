package kernels

import "fmt"

// A DeviceError is what a backend's operation panics with when its device could not do it: out of
// memory, lost, a library's refusal. Operations return nothing, so there is no other way out of them;
// Recover makes it an error again where a caller has one to return.
type DeviceError interface {
	error
	OnDevice() string // "cuda:0"
}

// Recover puts a device's failure into *err, where nothing failed before it. It is deferred. What
// else panics is a mistake in the program, and goes on.
func Recover(err *error) {
	switch r := recover().(type) {
	case nil:
	case DeviceError:
		if *err == nil {
			*err = r
		}
	default:
		panic(r)
	}
}

// NotFinite is an error of numbers that are infinite or none, where arithmetic left the range of its type. The device
// is whole, and what was computed before stands.
type NotFinite struct{ error }

// NotFiniteError says what holds such numbers.
func NotFiniteError(format string, args ...any) NotFinite {
	return NotFinite{fmt.Errorf(format, args...)}
}

func (n NotFinite) Unwrap() error { return n.error }
