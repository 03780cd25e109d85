package pipeline

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// frugal is a backend that gives no piece of memory larger than any part of a small model
// needs.
type frugal struct{ kernels.Backend }

const largest = 1 << 25

func (f frugal) Alloc(n int) *kernels.Buffer {
	if n < 0 || n > largest {
		panic(fmt.Sprintf("%d bytes were asked for", n))
	}
	return f.Backend.Alloc(n)
}

func frugalPool(t testing.TB) *tensor.Pool {
	t.Helper()
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.NewWith(cpu.Options{Threads: 1, Path: path})
	t.Cleanup(be.Close)
	return tensor.NewPool(frugal{be})
}

// absurd are values in the place of a setting, by the setting's type.
func absurd(was any) []any {
	switch was := was.(type) {
	case float64:
		return []any{-1, 0, 3, 1 << 40, 1e300, -1e300, 0.5, "many", []int{1}, nil}
	case bool:
		return []any{!was, "yes", 7, nil}
	case string:
		return []any{"nonsense", "", 7, []string{"a"}, nil}
	case []any:
		return []any{[]any{}, []any{-1}, []any{1 << 40}, []any{"a"}, append(slices.Clone(was), was...), "a", 3, nil}
	}
	return []any{-1, 1 << 40, "a", []any{1}, map[string]any{"a": 1}, true}
}

// Every setting of every part takes absurd values in turn: each is an error that names the part, or is used as it is.
// Nothing panics, and no large memory is asked for. A twelfth of the values is tried; with -long all of them.
func TestAbsurdSettings(t *testing.T) {
	all := *long
	// A message names the setting, or its part, or another part that it does not go with; a
	// size that no picture can have is said of the picture.
	names := func(err error, part, key string) bool {
		text := err.Error()
		return strings.Contains(text, part) || strings.Contains(text, key) || strings.Contains(text, "config.json") || strings.HasPrefix(text, "a picture of")
	}
	for _, name := range small {
		dir := copied(t, name)
		pool := frugalPool(t)
		var paths []string
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			base := filepath.Base(path)
			if strings.HasSuffix(base, "config.json") || base == "special_tokens_map.json" {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil || len(paths) < 5 {
			t.Fatalf("%v: %v", paths, err)
		}
		taken, n := 0, 0
		for _, path := range paths {
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			settings := map[string]any{}
			if err := json.Unmarshal(whole, &settings); err != nil {
				t.Fatal(err)
			}
			for key, was := range settings {
				for i, v := range absurd(was) {
					if !all && (len(key)+i)%12 > 0 {
						continue
					}
					n++
					settings[key] = v
					if v == nil {
						delete(settings, key)
					}
					data, err := json.Marshal(settings)
					if err == nil {
						err = os.WriteFile(path, data, 0o644)
					}
					if err != nil {
						t.Fatal(err)
					}
					err = usedWith(pool, dir)
					part := filepath.Base(filepath.Dir(path))
					switch {
					case err == nil:
						taken++
					case strings.Contains(err.Error(), "a panic"):
						t.Errorf("%s/%s: %s = %v: %v", part, filepath.Base(path), key, v, err)
					case !names(err, part, key), len(err.Error()) > 6000:
						t.Errorf("%s/%s: %s = %v: %.600v", part, filepath.Base(path), key, v, err)
					}
				}
				settings[key] = was
			}
			if err := os.WriteFile(path, whole, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %d of %d values were taken", name, taken, n)
		if taken > n*3/4 {
			t.Errorf("%s: %d of %d absurd values were taken: the test does not test", name, taken, n)
		}
	}
}
