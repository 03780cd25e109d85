package detectors

import (
	"compress/gzip"
	"encoding/json"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// A recording is the answers of transformers' network of a kind, with weights by rule (internal/oracle/detectors.py).
type recording struct {
	Kind     string
	Files    map[string]json.RawMessage
	Texts    map[string]string // other files of the folder
	Weights  map[string][]int
	Pictures [][2]int
	Queries  [][]string
	Answers  map[string]struct {
		Shape  []int
		Every  int
		Values []float64
	}
}

func recorded(t *testing.T, kind string) (r recording) {
	t.Helper()
	f, err := os.Open("testdata/" + kind + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(text).Decode(&r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// byRule is numbers from -1/2 to 1/2 that another program can make again.
func byRule(name string, n int) []float64 {
	out, salt := make([]float64, n), uint64(crc32.ChecksumIEEE([]byte(name)))
	for i := range out {
		x := (uint64(i)*2654435761 + salt*40503) & 0xffffffff
		x ^= x >> 15
		x = x * 0x2c1b3c6d & 0xffffffff
		x ^= x >> 12
		out[i] = float64(x)/(1<<32) - 0.5
	}
	return out
}

func weight(name string, shape []int) safetensors.Tensor {
	n, fan := 1, 1
	for i, d := range shape {
		n *= d
		if i > 0 {
			fan *= d
		}
	}
	x := make([]float32, n)
	for i, u := range byRule(name, n) {
		switch {
		case strings.HasSuffix(name, "running_var"):
			u = 0.75 + 0.5*u
		case len(shape) == 1 && strings.HasSuffix(name, "weight"):
			u = 1 + 0.4*u
		case len(shape) <= 1:
			u *= 0.4
		default:
			u *= math.Sqrt(12 / float64(fan))
		}
		x[i] = float32(u)
	}
	return safetensors.FromF32(name, shape, x)
}

// folder writes the recording's folder, its weights in one file or in two.
func (r recording) folder(t *testing.T, shards bool) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range r.Files {
		put(name, text)
	}
	for name, text := range r.Texts {
		put(name, []byte(text))
	}
	var all []safetensors.Tensor
	for _, name := range slices.Sorted(maps.Keys(r.Weights)) {
		all = append(all, weight(name, r.Weights[name]))
	}
	write := func(name string, part []safetensors.Tensor) {
		if err := safetensors.Write(filepath.Join(dir, name), part, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !shards {
		write("model.safetensors", all)
		return dir
	}
	index := map[string]string{}
	for i, part := range [][]safetensors.Tensor{all[:len(all)/2], all[len(all)/2:]} {
		name := []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}[i]
		write(name, part)
		for _, x := range part {
			index[x.Name] = name
		}
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{}, "weight_map": index})
	if err != nil {
		t.Fatal(err)
	}
	put("model.safetensors.index.json", text)
	return dir
}

// shown are the recording's pictures.
func (r recording) shown() (pictures []*vision.Image) {
	for i, size := range r.Pictures {
		m := vision.New(size[0], size[1])
		for k, u := range byRule("picture "+string(rune('0'+i)), len(m.Pix)) {
			m.Pix[k] = uint8((u + 0.5) * 256)
		}
		pictures = append(pictures, m)
	}
	return pictures
}

// holds compares numbers with those that were recorded.
func (r recording) holds(t *testing.T, name string, got []float32) {
	t.Helper()
	a, n, most := r.Answers[name], 1, 0.0
	for _, d := range a.Shape {
		n *= d
	}
	if len(got) != n {
		t.Fatalf("%s of %s: %d numbers, and %v were recorded", name, r.Kind, len(got), a.Shape)
	}
	for _, v := range a.Values {
		if v > -99 {
			most = max(most, math.Abs(v))
		}
	}
	for i, want := range a.Values {
		if v := float64(got[i*a.Every]); math.Abs(v-want) > 3e-5*most && !(want <= -99 && v <= -99) {
			t.Errorf("%s of %s: number %d is %v, and %v was recorded", name, r.Kind, i*a.Every, v, want)
			return
		}
	}
}

func device(t *testing.T) *features.Device {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	return features.On(tensor.NewPool(be), features.F32)
}
