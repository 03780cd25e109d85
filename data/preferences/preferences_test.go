package preferences

import (
	"testing"

	"github.com/darkroom-rl/darkroom/rewards/eval"
)

func FuzzPairLine(f *testing.F) {
	f.Add([]byte(`{"prompt": "p", "a": {"turns": [{"text": "x"}]}, "b": "b.png", "better": "a"}`))
	f.Add([]byte(`{"prompt": "p", "a": "../a.png", "b": "/b.png", "better": "tie", "meta": {"answer": 1}, "kind": "x"}`))
	f.Add([]byte(`{"a": 5, "b": [], "better": "b"}`))
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, line []byte) {
		p, of, err := readPair(line, folder)
		if err == nil && (of != eval.Replies || p.A.Open == nil) {
			t.Errorf("%q became %s: there is no file in the folder", line, of)
		}
	})
}
