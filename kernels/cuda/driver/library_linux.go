//go:build !nocuda && (amd64 || arm64)

package driver

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/ebitengine/purego"
)

// Where drivers put their library, after the loader's own search.
var libraryPlaces = [...]string{
	"libcuda.so.1",
	"/usr/lib/x86_64-linux-gnu/libcuda.so.1",
	"/usr/lib/aarch64-linux-gnu/libcuda.so.1",
	"/usr/lib64/libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
}

// Library is a shared library, its functions found as they are first called.
type Library struct {
	Path    string
	handle  uintptr
	symbols map[string]uintptr
}

// OpenLibrary opens libcuda.
func OpenLibrary() (*Library, error) {
	return OpenNamed(LibraryVariable, "NVIDIA driver", libraryPlaces[:])
}

// OpenNamed opens what a variable names, or else the first of some places that can be opened.
func OpenNamed(variable, what string, places []string) (*Library, error) {
	if p := os.Getenv(variable); p != "" {
		places = []string{p}
	}
	l, err := openFirst(places)
	if err != nil {
		return nil, fmt.Errorf("no %s: %w", what, err)
	}
	return l, nil
}

func openFirst(places []string) (*Library, error) {
	runtime.LockOSThread() // the loader keeps its last error by thread
	defer runtime.UnlockOSThread()
	why := errors.New("there is none for this driver")
	told := false // the first place is the loader's own search: its words are the best
	for _, p := range places {
		h, err := purego.Dlopen(p, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return &Library{Path: p, handle: h, symbols: map[string]uintptr{}}, nil
		}
		if !told {
			why, told = err, true
		}
	}
	return nil, why
}

// Call is a Caller's.
func (l *Library) Call(name string, args ...uintptr) (int32, error) {
	r, err := l.Pointer(name, args...)
	return int32(r), err
}

// Pointer is Call of a function that returns a pointer.
func (l *Library) Pointer(name string, args ...uintptr) (uintptr, error) {
	if err := l.Find(name); err != nil {
		return 0, err
	}
	r, _, _ := purego.SyscallN(l.symbols[name], args...)
	return r, nil
}

// Find says that there is no such function.
func (l *Library) Find(name string) error {
	if _, ok := l.symbols[name]; ok {
		return nil
	}
	f, err := purego.Dlsym(l.handle, name)
	if err != nil {
		return fmt.Errorf("%s has no %s: it is too old", l.Path, name)
	}
	l.symbols[name] = f
	return nil
}
