package experiment

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// FuzzParse: no file and no override panics or hangs; an accepted file can be planned and written.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.toml")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "sampler.steps=7")
	}
	for _, m := range allMistaken(f) {
		f.Add(m.text, "")
	}
	f.Add([]byte(least), "sampler.window={kind='sliding', size=3, stride=9223372036854775807}")
	f.Add([]byte(least), "sampler.window={kind='sliding', size=3, every=4611686018427387904}")
	f.Add([]byte(least), "sampler.noise=10")
	f.Add([]byte(least), "run.iterations=1000000000")
	f.Fuzz(func(t *testing.T, text []byte, set string) {
		e, err := Parse("a.toml", text, []string{set})
		if err != nil {
			_ = err.Error()
			return
		}
		if _, err := e.Plan(); err != nil {
			t.Errorf("%v\nfor %s with %s", err, text, set)
		}
		if err := e.Write(io.Discard); err != nil {
			t.Error(err)
		}
	})
}
