package pull

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/rewards"
)

// TestReward: a reward's folder has the files of several repositories, earlier ones first, and the state dict of a
// checkpoint that torch.save wrote as safetensors; a second pull finds it complete, and a foreign folder stays.
func TestReward(t *testing.T) {
	pickle, err := os.ReadFile("testdata/state.pth")
	if err != nil {
		t.Fatal(err)
	}
	h := newHub(t, map[string]string{"state.pth": string(pickle), "vocab.json": "{}", "sub/config.json": "{\"a\": 1}", "model.bin": "x"})
	k := rewards.Kind{Name: "made", Published: &rewards.Published{From: []rewards.Repository{
		{Name: "o/m", Files: []string{"state.pth", "vocab.json"}, Saves: rewards.Pickle{From: "state.pth", To: "model.safetensors"}},
		{Name: "o/m", Files: rewards.Texts("sub/config.json", "state.pth")}}}}
	dir := filepath.Join(t.TempDir(), "made")
	o := Options{Endpoint: h.URL, Out: dir}
	r, err := Reward(t.Context(), k, o)
	if err != nil || r.There || r.Files != 5 {
		t.Fatalf("%+v, %v", r, err)
	}
	f, err := safetensors.Open(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := f.Tensor("layers.0.weight")
	if err != nil {
		t.Fatal(err)
	}
	if x, err := w.Float32(nil); err != nil || len(x) != 6 || x[5] != 5 {
		t.Errorf("%v, %v", x, err)
	}
	if ids, err := f.Tensor("position_ids"); err != nil || ids.DType != safetensors.I64 || len(f.Names()) != 3 {
		t.Errorf("%v: %v, %v", f.Names(), ids.DType, err)
	}
	var names []string
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}); err != nil || strings.Join(names, " ") != ".darkroom-pull.json model.safetensors state.pth sub/config.json vocab.json" {
		t.Errorf("%v, %v", names, err)
	}
	if left, _ := filepath.Glob(dir + ".*"); left != nil {
		t.Errorf("%v stay", left)
	}
	if r, err = Reward(t.Context(), k, o); err != nil || !r.There {
		t.Errorf("again: %+v, %v", r, err)
	}
	o.Out = t.TempDir()
	if _, err = Reward(t.Context(), k, o); err == nil || !strings.Contains(err.Error(), "name another folder with --out") {
		t.Error(err)
	}
	if _, err = Reward(t.Context(), rewards.Kind{Name: "rule"}, o); err == nil || !strings.Contains(err.Error(), "darkroom list weights") {
		t.Error(err)
	}
}

// TestUnpickle: a file that asks for more than tensors is refused with the name that it asks for, and nothing is
// written.
func TestUnpickle(t *testing.T) {
	pickle, err := os.ReadFile("testdata/state.pth")
	if err != nil {
		t.Fatal(err)
	}
	from, to := filepath.Join(t.TempDir(), "bad.pth"), filepath.Join(t.TempDir(), "model.safetensors")
	bad := strings.Replace(string(pickle), "ccollections\nOrderedDict", "ccollectionz\nOrderedDict", 1)
	if err := os.WriteFile(from, []byte(bad), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unpickle(to, from); err == nil || !strings.Contains(err.Error(), "collectionz.OrderedDict") && !strings.Contains(err.Error(), "checksum") {
		t.Error(err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("something was written")
	}
}
