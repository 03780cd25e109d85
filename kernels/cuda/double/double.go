// Package double builds a libcuda.so.1 for tests: a driver over host memory (host/fakecuda.cpp) that
// runs the kernels of kernels/cuda/src, compiled by the host's C++ compiler through host/shim.h. Products
// adds a libcublasLt.
//
// Start with Library. It is stricter than a device about memory, barriers and waits, returns the
// bits that a device must return, and says nothing about speed.
package double

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cuda/blas"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// Library builds the double, once for each state of its sources, and makes the test's process
// open it as the driver. Where it cannot be built the test is skipped, with the reason.
func Library(t testing.TB) string {
	t.Helper()
	path, why, err := build()
	if err != nil {
		t.Fatal(err)
	}
	if why != "" {
		t.Skip("the mock of the driver cannot be built: " + why)
	}
	t.Setenv(driver.LibraryVariable, path)
	t.Setenv(blas.LibraryVariable, path+".none") // a real one must not meet it
	return path
}

// Products is Library with a cuBLASLt beside the driver (host/fakecublaslt.h), in the same file.
func Products(t testing.TB) string {
	t.Helper()
	path := Library(t)
	t.Setenv(blas.LibraryVariable, path)
	return path
}

// flags keep every operation as it is written: no product fused with a sum, fma as one instruction.
var flags = []string{"-std=c++17", "-O2", "-mavx2", "-mfma", "-ffp-contract=off", "-DDK_HOST", "-fPIC", "-shared", "-Wall", "-Wno-unknown-pragmas", "-Wno-unused-function", "-pthread"}

// sources is the folder of this package: what the compiler recorded, or with -trimpath, which takes that away, below
// the module that the test runs in.
func sources() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	if filepath.IsAbs(here) {
		return filepath.Dir(here), nil
	}
	root, err := os.Getwd()
	for err == nil && filepath.Dir(root) != root {
		dir := filepath.Join(root, "kernels/cuda/double")
		if _, missing := os.Stat(filepath.Join(dir, "host")); missing == nil {
			return dir, nil
		}
		root = filepath.Dir(root)
	}
	return "", fmt.Errorf("the sources of the driver's double are not found: build the test without -trimpath (%v)", err)
}

func build() (path, why string, err error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", "it is for linux/amd64", nil
	}
	compiler := ""
	for _, name := range []string{os.Getenv("CXX"), "g++", "clang++"} {
		if name == "" {
			continue
		}
		if p, err := exec.LookPath(name); err == nil {
			compiler = p
			break
		}
	}
	if compiler == "" {
		return "", "there is no C++ compiler (CXX, g++ or clang++)", nil
	}
	dir, err := sources()
	if err != nil {
		return "", "", err
	}
	sum, err := hash(dir, compiler)
	if err != nil {
		return "", "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	path = filepath.Join(cache, "darkroom-double", sum, "libcuda.so.1")
	if _, err := os.Stat(path); err == nil {
		return path, "", nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", "", err
	}
	// Built aside and renamed: other tests may build the same.
	aside, err := os.CreateTemp(filepath.Dir(path), "libcuda-*.so")
	if err != nil {
		return "", "", err
	}
	aside.Close()
	defer os.Remove(aside.Name())
	args := append(append([]string{}, flags...), filepath.Join(dir, "host", "fakecuda.cpp"), "-o", aside.Name())
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("%s: %w\n%s", compiler, err, out)
	}
	return path, "", os.Rename(aside.Name(), path)
}

// hash is of everything that the double is made of.
func hash(dir, compiler string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, compiler, flags)
	for _, pattern := range []string{"host/*", "../src/*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return "", err
			}
			fmt.Fprintln(h, filepath.Base(f), len(b))
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}
