//go:build !nocuda && (amd64 || arm64)

package cuda

import (
	"fmt"
	"os"

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

// library is libcuda, its functions found as they are first called.
type library struct {
	path    string
	handle  uintptr
	symbols map[string]uintptr
}

func openLibrary() (*library, error) {
	places := libraryPlaces[:]
	if p := os.Getenv(LibraryVariable); p != "" {
		places = []string{p}
	}
	var why error // the first place is the loader's own search: its words are the best
	for _, p := range places {
		h, err := purego.Dlopen(p, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return &library{path: p, handle: h, symbols: map[string]uintptr{}}, nil
		}
		why = first(why, err)
	}
	return nil, fmt.Errorf("no NVIDIA driver: %w", why)
}

func (l *library) call(name string, args ...uintptr) (int32, error) {
	f, ok := l.symbols[name]
	if !ok {
		var err error
		if f, err = purego.Dlsym(l.handle, name); err != nil {
			return 0, fmt.Errorf("the driver is too old: %s has no %s", l.path, name)
		}
		l.symbols[name] = f
	}
	r, _, _ := purego.SyscallN(f, args...)
	return int32(r), nil
}
