package blas

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// LibraryVariable names a libcublasLt to open in place of the system's.
const LibraryVariable = "DARKROOM_LIBCUBLASLT"

// OpenLibrary opens libcublasLt: the newest that the driver's version of CUDA serves.
func OpenLibrary(version int) (*driver.Library, error) {
	return driver.OpenNamed(LibraryVariable, "cuBLASLt", places(version))
}

// places are where toolkits, distributions and the active environment of Python put it.
func places(version int) (places []string) {
	for major := 13; major >= driver.Oldest/1000; major-- {
		if version < 1000*major {
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
