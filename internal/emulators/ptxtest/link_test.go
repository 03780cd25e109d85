package ptxtest

import (
	"flag"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ulikunitz/xz"
)

// image is the text of an image that ships.
func image(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open("../../../kernels/cuda/images/" + name + ".xz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := xz.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestMostThreads: a launch of more threads than a kernel was compiled for is refused, as a driver does.
func TestMostThreads(t *testing.T) {
	m, err := parse(strings.Replace(opening, ".maxntid 1024", ".maxntid 64", 1) + "\tret;\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.link("k")
	if err != nil {
		t.Fatal(err)
	}
	d := New(80)
	d.entries = append(d.entries, &entry{p, 48 << 10})
	values := [2]uint64{}
	params := []unsafe.Pointer{unsafe.Pointer(&values)}
	for threads, want := range map[uintptr]int32{64: 0, 65: invalidValue} {
		args := []uintptr{1, 1, 1, 1, threads, 1, 1, 0, 0, uintptr(unsafe.Pointer(&params[0])), 0}
		if got := d.launch(args); got != want {
			t.Errorf("%d threads: error %d, want %d; %v", threads, got, want, d.Last)
		}
	}
	runtime.KeepAlive(params)
}

var long = flag.Bool("long", false, "link all kernels of the images")

// TestImagesLink: every kernel of the images is made of instructions that the interpreter knows.
func TestImagesLink(t *testing.T) {
	if !*long {
		t.Skip("all kernels take three seconds: make ptx")
	}
	kernels, places, used := 0, 0, map[string]bool{}
	for _, name := range []string{"ptx", "ptx_90a"} {
		m, err := parse(image(t, name))
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range m.functions {
			if !f.entry {
				continue
			}
			p, err := m.link(name)
			if err != nil {
				t.Error(err)
				continue
			}
			kernels, places = kernels+1, places+len(p.code)
			for i := range p.code {
				used[p.code[i].op] = true
			}
		}
	}
	if t.Logf("%d kernels, %d instructions", kernels, places); kernels < 109 {
		t.Errorf("%d kernels", kernels)
	}
	ours := []string{"bra", "call", "ret.back", "bar.sync.n", "mov.b64.apart", "mov.b64.joined"}
	for name := range rows {
		if !used[name] && !slices.Contains(ours, name) {
			t.Errorf("no image uses %s", name)
		}
	}
}
