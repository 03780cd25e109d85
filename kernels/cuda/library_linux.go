//go:build !nocuda && (amd64 || arm64)

package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

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

// Where NCCL is installed beside the loader's own search.
var ncclPlaces = [...]string{
	"libnccl.so.2",
	"/usr/lib/x86_64-linux-gnu/libnccl.so.2",
	"/usr/lib/aarch64-linux-gnu/libnccl.so.2",
	"/usr/lib64/libnccl.so.2",
	"/usr/local/lib/libnccl.so.2",
	"/usr/local/cuda/lib64/libnccl.so.2",
}

// library is a shared library, its functions found as they are first called.
type library struct {
	path    string
	handle  uintptr
	symbols map[string]uintptr
}

// openLibrary opens libcuda.
func openLibrary() (*library, error) {
	return openNamed(LibraryVariable, "NVIDIA driver", libraryPlaces[:])
}

// openProducts opens libcublasLt: the newest that the driver's version of CUDA serves.
func openProducts(driver int) (*library, error) {
	return openNamed(ProductsVariable, "cuBLASLt", productPlaces(driver))
}

// openNCCL opens libnccl.
func openNCCL() (*library, error) { return openNamed(NCCLVariable, "NCCL", ncclPlaces[:]) }

// openNamed opens what a variable names, or else the first of some places that can be opened.
func openNamed(variable, what string, places []string) (*library, error) {
	if p := os.Getenv(variable); p != "" {
		places = []string{p}
	}
	l, err := openFirst(places)
	if err != nil {
		return nil, fmt.Errorf("no %s: %w", what, err)
	}
	return l, nil
}

// productPlaces are where toolkits, distributions and the active environment of Python put it.
func productPlaces(driver int) (places []string) {
	for major := 13; major >= oldest/1000; major-- {
		if driver < 1000*major {
			continue
		}
		name := "libcublasLt.so." + strconv.Itoa(major)
		places = append(places, name)
		for _, dir := range []string{
			fmt.Sprintf("/usr/local/cuda-%d*/lib64", major), "/usr/local/cuda/lib64", fmt.Sprintf("/usr/lib/*/libcublas/%d", major),
			"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
		} {
			places = append(places, found(filepath.Join(dir, name))...)
		}
		if env := os.Getenv("VIRTUAL_ENV"); env != "" {
			places = append(places, found(filepath.Join(env, "lib/python3*/site-packages/nvidia", map[int]string{13: "cu13", 12: "cublas"}[major], "lib", name))...)
		}
	}
	return places
}

// found are the files of a pattern.
func found(pattern string) []string {
	files, _ := filepath.Glob(pattern) // only a bad pattern is an error
	return files
}

func openFirst(places []string) (*library, error) {
	why := errors.New("there is none for this driver")
	told := false // the first place is the loader's own search: its words are the best
	for _, p := range places {
		h, err := purego.Dlopen(p, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return &library{path: p, handle: h, symbols: map[string]uintptr{}}, nil
		}
		if !told {
			why, told = err, true
		}
	}
	return nil, why
}

func (l *library) call(name string, args ...uintptr) (int32, error) {
	r, err := l.pointer(name, args...)
	return int32(r), err
}

// pointer is call of a function that returns a pointer.
func (l *library) pointer(name string, args ...uintptr) (uintptr, error) {
	if err := l.find(name); err != nil {
		return 0, err
	}
	r, _, _ := purego.SyscallN(l.symbols[name], args...)
	return r, nil
}

// find says that there is no such function.
func (l *library) find(name string) error {
	if _, ok := l.symbols[name]; ok {
		return nil
	}
	f, err := purego.Dlsym(l.handle, name)
	if err != nil {
		return fmt.Errorf("%s has no %s: it is too old", l.path, name)
	}
	l.symbols[name] = f
	return nil
}
