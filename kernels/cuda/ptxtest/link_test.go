package ptxtest

import (
	"io"
	"os"
	"slices"
	"testing"

	"github.com/ulikunitz/xz"
)

// image is the text of an image that ships.
func image(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open("../images/" + name + ".xz")
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

// TestImagesLink: every kernel of the images is made of instructions that the interpreter knows.
func TestImagesLink(t *testing.T) {
	if os.Getenv("DARKROOM_PTX") == "" {
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
