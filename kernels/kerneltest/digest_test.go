package kerneltest

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

var update = flag.Bool("update", false, "write testdata/digests.json anew")

// TestDigests holds ref to its recorded bits. It runs in builds for several
// instruction sets (make check), where the compiler makes other code of it.
func TestDigests(t *testing.T) {
	got, err := Digests(ref.Backend{})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		b, err := json.MarshalIndent(got, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("testdata/digests.json", append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return // the test binary holds the earlier recording
	}
	want, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	for name, sum := range got {
		switch w, ok := want[name]; {
		case !ok:
			t.Errorf("%s has no recorded digest (go test ./kernels/kerneltest -update)", name)
		case w != sum:
			t.Errorf("%s: the bits changed: %s, recorded %s", name, sum, w)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is recorded, but no such case exists", name)
		}
	}
}

// TestOffloaderOfRef holds the cases of an Offloader to the backend that copies nothing.
func TestOffloaderOfRef(t *testing.T) { RunOffloader(t, ref.Backend{}, kernels.Home{}) }
