package pipeline

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// adapted puts an adapter with drawn numbers on a pipeline, and writes it.
func adapted(t *testing.T, p *Pipeline, dir string) {
	t.Helper()
	params, err := p.Denoiser()
	if err != nil {
		t.Fatal(err)
	}
	set, err := params.AddLoRA(nn.LoRA{Rank: 3, Alpha: 6, Targets: []string{"to_q", "to_v", "to_out.0", "proj_out", "conv_in"}, Key: rng.New(5)})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range set.Params() {
		x := make([]float32, w.Value.Len())
		rng.New(6).With(rng.Purpose(w.Name)).Normal(x, 0)
		for i := range x {
			x[i] *= 0.1
		}
		w.Value.UploadF32(x)
		w.Updated()
	}
	if err := peft.Write(dir, set, peft.Settings{Rank: 3, Alpha: 6}); err != nil {
		t.Fatal(err)
	}
}

// mergeInto writes a copy of a pipeline's folder with an adapter folded into the denoiser, as darkroom export does.
func mergeInto(dir, adapter, out string, pool *tensor.Pool) (layers int, err error) {
	component, err := ComponentOf(dir)
	if err != nil {
		return 0, err
	}
	a, err := peft.Open(adapter, component)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	return len(a.Modules()), Changed(dir, out, peft.Fold{Adapter: a, Pool: pool})
}

// An adapter that was written and read gives the same bits; merged into the folder it gives
// the same pictures but for rounding, and the base folder others.
func TestAdapterAndMerge(t *testing.T) {
	for _, name := range small {
		dir := t.TempDir()
		lora, merged := filepath.Join(dir, "lora"), filepath.Join(dir, "merged")
		base := open(t, filepath.Join(recorded, name), Options{})
		pics := pictures(t, base, 1)
		s := stochastic(t, base, Guidance{Scale: 2, Embedded: 2})
		plain := sample(t, base, pics, s)
		adapted(t, base, lora)
		want := sample(t, base, pics, s)

		again := open(t, filepath.Join(recorded, name), Options{})
		if err := again.AddLoRA(lora); err != nil {
			t.Fatal(err)
		}
		same(t, name+" read again", sample(t, again, pics, s), want)

		layers, err := mergeInto(filepath.Join(recorded, name), lora, merged, pool(t, 2))
		if err != nil {
			t.Fatal(err)
		}
		if layers < 4 {
			t.Errorf("%s: %d layers", name, layers)
		}
		got := sample(t, open(t, merged, Options{}), pics, s)
		far := 0.0
		for i, v := range want[0].Final {
			if d := math.Abs(got[0].Final[i] - v); !(d <= 1e-4*(1+math.Abs(v))) {
				t.Fatalf("%s: latent %d is %v, want %v", name, i, got[0].Final[i], v)
			}
			far = max(far, math.Abs(plain[0].Final[i]-v))
		}
		if far < 0.01 {
			t.Errorf("%s: the adapter changes latents by at most %v", name, far)
		}
		if _, err := mergeInto(filepath.Join(recorded, name), lora, merged, pool(t, 2)); err == nil || !strings.Contains(err.Error(), "exists already") {
			t.Errorf("a second merge: %v", err)
		}
	}
}

// What cannot be merged leaves nothing behind.
func TestMergeOfAnotherModel(t *testing.T) {
	dir := t.TempDir()
	lora, merged := filepath.Join(dir, "lora"), filepath.Join(dir, "merged")
	adapted(t, open(t, filepath.Join(recorded, "pipe_flux"), Options{}), lora)
	if _, err := mergeInto(filepath.Join(recorded, "pipe_sd3"), lora, merged, pool(t, 1)); err == nil || !strings.Contains(err.Error(), "no such layer") && !strings.Contains(err.Error(), "do not fit") {
		t.Errorf("%v", err)
	}
	for _, path := range []string{merged, merged + ".part"} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left", path)
		}
	}
}
