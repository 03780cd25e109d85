package preflight

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/diffusion/single"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// A readable is a kind of file that strangers write: a whole one, and how the program reads it.
type readable struct {
	whole string // a file, or a folder of few
	one   string // which of the folder's files is changed
	read  func(path string) error
}

// readables are all of them; the single-file checkpoint is made in dir.
func readables(t *testing.T, dir string) map[string]readable {
	adapter := func(path string) error {
		a, err := peft.Open(path, "transformer")
		if err != nil {
			return err
		}
		defer a.Close()
		return a.Copy(filepath.Join(t.TempDir(), "copy"))
	}
	return map[string]readable{
		"adapter settings": {recorded + "sd3_lora/peft", "adapter_config.json", adapter},
		"adapter tensors":  {recorded + "sd3_lora/peft", "adapter_model.safetensors", adapter},
		"safetensors": {recorded + "vae_tiny/diffusion_pytorch_model.safetensors", "", func(path string) error {
			f, err := safetensors.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return everyTensor(f)
		}},
		"tokenizer": {recorded + "tok_clip/tokenizer.json", "", func(path string) error {
			k, err := tokenizer.ReadFile(path)
			if err == nil {
				if ids, err := k.Framed("a <|endoftext|> red circle é"); err == nil {
					k.Decode(ids)
				}
			}
			return err
		}},
		"chat template": {"../../assets/tiny-vlm/chat_template.jinja", "", func(path string) error {
			_, err := vlm.TemplateOf(filepath.Dir(path), path)
			return err
		}},
		"single file": {checkpoint(t, dir), "", func(path string) error {
			f, err := single.Open(path, single.Settings{LayersPerBlock: 2})
			if err != nil {
				return err
			}
			defer f.Close()
			for _, part := range f.Parts() {
				if err := everyTensor(f.Part(part)); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
			return nil
		}},
		"Parquet": {"../../data/prompts/testdata/dataset/data/train-00000-of-00002.parquet", "", func(path string) error {
			list, err := prompts.Open(path)
			for _, p := range list {
				_, _ = p.Pictures(filepath.Dir(path))
			}
			return err
		}},
	}
}

// everyTensor reads all of a file.
func everyTensor(src nn.Source) error {
	for _, name := range src.Names() {
		x, err := src.Tensor(name)
		if err != nil {
			return err
		}
		_, _ = x.Float32(nil)
	}
	return nil
}

// checkpoint is a small single-file checkpoint of Stable Diffusion 1.5.
func checkpoint(t *testing.T, dir string) string {
	t.Helper()
	file, err := os.Open("../../diffusion/single/testdata/converted.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var recorded struct {
		Kinds map[string]struct {
			File map[string][]int `json:"file"`
		} `json:"kinds"`
	}
	text, err := gzip.NewReader(file)
	if err == nil {
		err = json.NewDecoder(text).Decode(&recorded)
	}
	if err != nil {
		t.Fatal(err)
	}
	var all []safetensors.Tensor
	for name, shape := range recorded.Kinds["sd15"].File {
		n := 1
		for _, d := range shape {
			n *= d
		}
		all = append(all, safetensors.FromF32(name, shape, make([]float32, n)))
	}
	slices.SortFunc(all, func(a, b safetensors.Tensor) int { return strings.Compare(a.Name, b.Name) })
	path := filepath.Join(dir, "checkpoint.safetensors")
	if err := safetensors.Write(path, all, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

var numbers = regexp.MustCompile(`[0-9]+`)

// changedFile is a file after one to four changes: bytes, a piece that is gone, doubled or moved, a number in its text,
// where it begins or ends, as lengths do.
func changedFile(r *rand.Rand, whole []byte) []byte {
	text := slices.Clone(whole)
	head := len(text)
	if len(text) > 8 {
		if n := binary.LittleEndian.Uint64(text); n < uint64(len(text)-8) {
			head = 8 + int(n) // of safetensors
		}
	}
	for range 1 + r.IntN(4) {
		head = min(head, len(text))
		if head < 16 {
			break
		}
		switch at := r.IntN(head); r.IntN(8) {
		case 0:
			text = text[:at]
		case 1:
			n := min(r.IntN(200), len(text)-at)
			text = slices.Insert(text, r.IntN(head), slices.Clone(text[at:at+n])...)
		case 2:
			text = slices.Delete(text, at, min(len(text), at+r.IntN(40)))
		case 3, 4:
			if all := numbers.FindAllIndex(text[:head], -1); len(all) > 0 {
				one := all[r.IntN(len(all))]
				with := []string{"0", "-1", "1", "2147483648", "9223372036854775807", "1e308", "null", "[]", `"x"`, "68719476736"}[r.IntN(10)]
				text = slices.Replace(text, one[0], one[1], []byte(with)...)
			}
		case 5:
			for range 4 {
				text[max(0, len(text)-1-r.IntN(min(2000, len(text))))] = byte(r.IntN(256))
			}
		default:
			text[at] = byte(r.IntN(256))
		}
	}
	if n := len(text) - (len(whole) - head); head < len(whole) && n > 8 && r.IntN(2) == 0 { // the header's length, as it is now
		binary.LittleEndian.PutUint64(text, uint64(max(0, n-8)))
	}
	return text
}

// TestChangedFiles: no change of a file that strangers write panics or hangs, takes much more memory than the whole
// one, or is refused without the file's name. -attacks says how many of each kind, in place of 40.
func TestChangedFiles(t *testing.T) {
	all := 40
	if *attacks > 0 {
		all = *attacks
	}
	for kind, one := range readables(t, t.TempDir()) {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			path, changed := filepath.Join(dir, filepath.Base(one.whole)), ""
			if changed = path; one.one != "" {
				changed = filepath.Join(path, one.one)
				if err := os.CopyFS(path, os.DirFS(one.whole)); err != nil {
					t.Fatal(err)
				}
			}
			whole, err := os.ReadFile(filepath.Join(one.whole, one.one))
			if err != nil {
				t.Fatal(err)
			}
			read := func(text []byte) (took uint64, err error) {
				if err := os.WriteFile(changed, text, 0o644); err != nil {
					t.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err = within(time.Minute, func() error { return one.read(path) })
				runtime.ReadMemStats(&after)
				return after.TotalAlloc - before.TotalAlloc, err
			}
			usual, err := read(whole)
			if err != nil {
				t.Fatalf("the whole file: %v", err)
			}
			refused, most := 0, uint64(0)
			for seed := range uint64(all) {
				took, err := read(changedFile(rand.New(rand.NewPCG(seed, 39)), whole))
				if err != nil {
					refused++
				}
				if p, panics := err.(panicked); panics {
					t.Errorf("seed %d: %v", seed, p)
				} else if err != nil && !strings.Contains(err.Error(), filepath.Base(changed)) {
					t.Errorf("seed %d: no file's name: %v", seed, err)
				}
				if took > usual+64<<20 {
					t.Errorf("seed %d: %d MiB, and %d for the whole file: %v", seed, took>>20, usual>>20, err)
				}
				most = max(most, took)
			}
			t.Logf("%d changed files, %d refused, at most %.1f MiB allocated, %.1f for the whole one", all, refused, float64(most)/(1<<20), float64(usual)/(1<<20))
			if refused == 0 {
				t.Errorf("none of %d changed files is refused", all)
			}
		})
	}
}
