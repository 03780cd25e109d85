package quant

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// folder is a recorded folder.
type folder struct {
	Args struct {
		File, Prefix, DType, Format string
		SHA256                      map[string]string
		Shapes                      map[string][]int
		Metadata                    map[string]any
	}
}

var compressed = golden.Folder("quant") + "/"

// open reads the compressed matrices of a folder or a GGUF file.
func open(t *testing.T, path string, d safetensors.DType) map[string]Matrix {
	t.Helper()
	if strings.HasSuffix(path, ".gguf") {
		g, err := OpenGGUF(path)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		all := map[string]Matrix{}
		for _, name := range g.Names() {
			if all[name], err = g.Matrix(name, d); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	all, err := Find(f, f.Metadata, d)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFolders: every compressed matrix of folders as people have them has its values, by their digest.
func TestFolders(t *testing.T) {
	all, err := filepath.Glob(compressed + "*/case.json")
	if err != nil || len(all) < 11 {
		t.Fatalf("%d folders: %v", len(all), err)
	}
	for _, path := range all {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var c folder
			if err := json.Unmarshal(text, &c); err != nil {
				t.Fatal(err)
			}
			d := dtypes[c.Args.DType]
			found := open(t, filepath.Join(dir, c.Args.File), d)
			for name, want := range c.Args.SHA256 {
				m, ok := found[c.Args.Prefix+name]
				if !ok {
					t.Errorf("%s is not found", name)
					continue
				}
				if got := digest(t, m, d); got != want {
					t.Errorf("%s (%s, %v): digest %s, want %s", name, m.Format, m.Shape, got, want)
				}
			}
			for name, want := range c.Args.Shapes {
				if m := found[name]; !slices.Equal(m.Shape, want) {
					t.Errorf("%s has the shape %v, want %v", name, m.Shape, want)
				}
			}
			if c.Args.Metadata != nil {
				compareMetadata(t, filepath.Join(dir, c.Args.File), c.Args.Metadata)
			}
		})
	}
}

// TestCutFile: a mapped file that was cut is a panic of the caller, whichever goroutine reads, and not the end of the
// process.
func TestCutFile(t *testing.T) {
	const rows, columns = 512, 1024
	path := filepath.Join(t.TempDir(), "model.safetensors")
	saving := Bitsandbytes4("nf4", false)
	all := saving.Tensors("a.weight", safetensors.BF16, []int{rows, columns})
	data, _ := saving.Save("a.weight", safetensors.BF16, []int{rows, columns}, slices.Values([][]float32{make([]float32, rows*columns)}))
	for i := range data {
		all[i].Data = data[i]
	}
	if err := safetensors.Write(path, all, nil); err != nil {
		t.Fatal(err)
	}
	m := open(t, path, safetensors.BF16)["a.weight"]
	if got := m.Tensor(); got.Len() != rows*columns {
		t.Fatalf("%d values of the whole file", got.Len())
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, ok := recover().(interface{ Addr() uintptr }); !ok {
			t.Error("nobody was told of the cut file")
		}
	}()
	m.Tensor()
}

// digest is of the values' bytes; those of the case have the precision d.
func digest(t *testing.T, m Matrix, d safetensors.DType) string {
	t.Helper()
	whole := m.Tensor()
	if whole.DType != d {
		t.Errorf("%s is in %s, not in %s", m.Name, whole.DType, d)
	}
	sum := sha256.Sum256(whole.Data)
	return hex.EncodeToString(sum[:])
}

func compareMetadata(t *testing.T, path string, want map[string]any) {
	t.Helper()
	g, err := OpenGGUF(path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for key, w := range want {
		text, err := json.Marshal(g.Metadata[key])
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		a, isNumber := got.(float64)
		if b, ok := w.(float64); ok && isNumber && math.Abs(a-b) <= 1e-7*math.Abs(b) {
			continue
		}
		if !reflect.DeepEqual(got, w) {
			t.Errorf("%s is %v, want %v", key, got, w)
		}
	}
}

// TestTornGGUF: a file that is cut or changed anywhere is refused or read, without a panic and without a large
// allocation.
func TestTornGGUF(t *testing.T) {
	whole, err := os.ReadFile(compressed + "gguf_misc/model.gguf")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.gguf")
	refused := 0
	try := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		g, err := OpenGGUF(path)
		if err != nil {
			if !strings.Contains(err.Error(), "x.gguf") {
				t.Errorf("no file's name in %v", err)
			}
			refused++
			return
		}
		for _, name := range g.Names() {
			if m, err := g.Matrix(name, safetensors.BF16); err == nil {
				m.Tensor()
			}
		}
		g.Close()
	}
	for n := 0; n < len(whole); n += max(1, n/40) {
		try(whole[:n])
	}
	if refused < 100 {
		t.Errorf("%d of the cut files were refused", refused)
	}
	for i := range 400 {
		data := slices.Clone(whole)
		data[i*5] ^= byte(1 << (i % 8))
		data[(i*37)%2000] ^= 0x80
		try(data)
	}
}

// TestStrips: a matrix that comes in strips of its rows is compressed as in one piece, and a model that is compressed
// as it is read never has a matrix in fp32.
func TestStrips(t *testing.T) {
	const rows, columns = 300, 130
	values := make([]float32, rows*columns)
	for i := range values {
		values[i] = float32(i%97-48) * float32(i%13) / 64
	}
	in := func(each int) iter.Seq[[]float32] {
		return func(yield func([]float32) bool) {
			for from := 0; from < rows && yield(values[from*columns:min(from+each, rows)*columns]); from += each {
			}
		}
	}
	for name, s := range map[string]Saving{"nf4": Bitsandbytes4("nf4", true), "fp4": Bitsandbytes4("fp4", false), "llm.int8": BitsandbytesInt8(), "fp8": ComfyFloat8(), "int8": ComfyInt8(), "blocks": BlockFloat8()} {
		want, whole := s.Save("a.weight", safetensors.BF16, []int{rows, columns}, in(rows))
		for _, each := range []int{StripRows, 2 * StripRows} {
			data, m := s.Save("a.weight", safetensors.BF16, []int{rows, columns}, in(each))
			if !reflect.DeepEqual(data, want) || !slices.Equal(m.Fingerprint(), whole.Fingerprint()) {
				t.Errorf("%s: strips of %d rows give other bytes", name, each)
			}
		}
	}
	path, dir := filepath.Join(t.TempDir(), "model.safetensors"), t.TempDir()
	const large = 8 << 20
	wide := safetensors.Tensor{Name: "a.0.b.weight", DType: safetensors.BF16, Shape: []int{2048, large / 2048}, Data: make([]byte, 2*large)}
	if err := errors.Join(safetensors.Write(path, []safetensors.Tensor{wide}, nil), os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"_class_name": "X"}`), 0o644)); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, kind := range Kinds() {
		q, err := Quantize(f, kind, dir)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, _, ok, err := q.(Coded).Codes("a.0.b.weight")
		runtime.ReadMemStats(&after)
		if most := uint64(2*c.Size() + 3*4*stripValues); err != nil || !ok || after.TotalAlloc-before.TotalAlloc > most {
			t.Errorf("%s: %d bytes for codes of %d: %v", kind, after.TotalAlloc-before.TotalAlloc, c.Size(), err)
		}
	}
}
