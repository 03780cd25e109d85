package pull

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
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
	if err := os.Remove(filepath.Join(dir, "vocab.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Reward(t.Context(), k, o); err == nil || !strings.Contains(err.Error(), "vocab.json is missing") {
		t.Errorf("a folder without one of its files: %v", err)
	}
	o.Out = t.TempDir()
	if _, err = Reward(t.Context(), k, o); err == nil || !strings.Contains(err.Error(), "name another folder with --out") {
		t.Error(err)
	}
	if _, err = Reward(t.Context(), rewards.Kind{Name: "rule"}, o); err == nil || !strings.Contains(err.Error(), "darkroom list weights") {
		t.Error(err)
	}
}

// TestRewardGoesOn: a pull that fails keeps its downloads, beside folders of others, and the same command finishes it.
func TestRewardGoesOn(t *testing.T) {
	pickle, err := os.ReadFile("testdata/state.pth")
	if err != nil {
		t.Fatal(err)
	}
	h := newHub(t, map[string]string{"state.pth": string(pickle), "broken.pth": "no pickle", "vocab.json": "{}"})
	kind := func(file string) rewards.Kind {
		return rewards.Kind{Name: "made", Published: &rewards.Published{From: []rewards.Repository{
			{Name: "o/m", Files: []string{"vocab.json"}},
			{Name: "o/m", Files: []string{file}, Saves: rewards.Pickle{From: file, To: "model.safetensors"}}}}}
	}
	dir := filepath.Join(t.TempDir(), "made")
	other := filepath.Join(dir+".part", "weights")
	if err := errors.Join(os.MkdirAll(dir+".part", 0o755), os.WriteFile(other, []byte("another pull's"), 0o644)); err != nil {
		t.Fatal(err)
	}
	o := Options{Endpoint: h.URL, Out: dir}
	if _, err := Reward(t.Context(), kind("broken.pth"), o); err == nil || !strings.Contains(err.Error(), "the same command continues there") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir+".from", "0", "vocab.json")); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(filepath.Join(dir+".from", "1")); err != nil {
		t.Fatal(err)
	}
	if r, err := Reward(t.Context(), kind("state.pth"), o); err != nil || r.Fetched != int64(len(pickle)) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
	mine := filepath.Join(t.TempDir(), "mine")
	if err := errors.Join(os.MkdirAll(mine+".from", 0o755), os.WriteFile(filepath.Join(mine+".from", "a"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	o.Out = mine
	if _, err := Reward(t.Context(), kind("state.pth"), o); err == nil || !strings.Contains(err.Error(), "was not made by pull") {
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
	archive, err := zip.NewReader(bytes.NewReader(pickle), int64(len(pickle)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, part := range archive.File {
		r, err := part.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		into, err := w.CreateHeader(&zip.FileHeader{Name: part.Name, Method: zip.Store})
		if err == nil {
			_, err = into.Write(bytes.ReplaceAll(text, []byte("ccollections\nOrderedDict"), []byte("ccollectionz\nOrderedDict")))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), os.WriteFile(from, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := unpickle(to, from); err == nil || !strings.Contains(err.Error(), "collectionz.OrderedDict") {
		t.Error(err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("something was written")
	}
}
