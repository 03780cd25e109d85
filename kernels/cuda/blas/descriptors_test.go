//go:build !nocuda && linux && (amd64 || arm64)

package blas

import (
	"errors"
	"os"
	"testing"
	"unsafe"
)

// testWorkspace is what a backend lets algorithms write.
const testWorkspace = 1 << 10

// TestDescriptors makes what a product needs with NVIDIA's own library, where there is one, and reads it
// back: that needs no device, and shows that numbers and sizes of attributes are the header's.
func TestDescriptors(t *testing.T) {
	if unsafe.Sizeof(Candidate{}) != 96 || unsafe.Offsetof(Candidate{}.Workspace) != 64 || unsafe.Offsetof(Candidate{}.State) != 72 {
		t.Error("cublasLtMatmulHeuristicResult_t is 96 bytes, with workspaceSize at 64 and state at 72")
	}
	c, err := OpenLibrary(13000)
	if err != nil {
		t.Skip(err, "; ", LibraryVariable, " can name it")
	}
	v, err := Version(c)
	if err != nil {
		t.Skip(c.Path, ": ", err)
	}
	t.Logf("%s: %s", c.Path, VersionText(v))
	l := &Library{Caller: c, Path: c.Path}
	defer l.Close()
	if err := l.prepare(testWorkspace); err != nil {
		t.Fatal(err)
	}
	at, err := l.Describe(Shape{N: 24, K: 40}, 2048)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Forget(&at)
	if err := l.Fit(&at, 64, 48, 7); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		call   string
		object uintptr
		which  int
		bytes  uintptr
		want   uint64
	}{
		{"MatmulDesc", l.operation[0], 0, 4, computeF32},
		{"MatmulDesc", l.operation[0], 1, 4, typeF32},
		{"MatmulDesc", l.operation[0], operationA, 4, operationT},
		{"MatmulDesc", l.operation[0], 4, 4, 0},
		{"MatmulDesc", l.operation[1], operationA, 4, 0},
		{"MatmulPreference", l.wish, wishWorkspace, 8, testWorkspace},
		{"MatmulPreference", l.wish, wishReduction, 4, 0},
		{"MatmulPreference", l.wish, wishAlignment, 4, 16},
		{"MatmulPreference", l.wish, wishAlignment + 3, 4, 16},
		{"MatrixLayout", at.weight, 0, 4, typeBF16},
		{"MatrixLayout", at.weight, 2, 8, 40},
		{"MatrixLayout", at.weight, layoutCols, 8, 24},
		{"MatrixLayout", at.weight, layoutLD, 8, 64},
		{"MatrixLayout", at.rows, 2, 8, 40},
		{"MatrixLayout", at.rows, layoutCols, 8, 7},
		{"MatrixLayout", at.rows, layoutLD, 8, 48},
		{"MatrixLayout", at.sums, 0, 4, typeF32},
		{"MatrixLayout", at.sums, 2, 8, 24},
		{"MatrixLayout", at.sums, layoutCols, 8, 7},
		{"MatrixLayout", at.sums, layoutLD, 8, 24},
	} {
		l.cells = [2]uint64{}
		if err := l.do("cublasLt"+x.call+"GetAttribute", x.object, uintptr(x.which), l.cell(0), x.bytes, l.cell(1)); err != nil {
			t.Errorf("%s %d: %v", x.call, x.which, err)
		} else if l.cells[0] != x.want || l.cells[1] != uint64(x.bytes) {
			t.Errorf("%s %d: %d in %d bytes, want %d in %d", x.call, x.which, l.cells[0], l.cells[1], x.want, x.bytes)
		}
	}
	failed := new(Error)
	if err := l.set("cublasLtMatmulDescSetAttribute", l.operation[0], operationA, operationT, 8); !errors.As(err, &failed) || failed.Code != 7 {
		t.Errorf("a wrong size: %v", err)
	}
	if _, err := os.Stat("/dev/nvidia0"); err == nil {
		return
	}
	if _, err := Open(c, c.Path, testWorkspace); err == nil {
		t.Error("a library without a device gave a handle")
	} else {
		t.Log(err)
	}
}
