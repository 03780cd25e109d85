package edits

import (
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestMatching: ratios are Python's, also of texts with popular letters.
func TestMatching(t *testing.T) {
	f, err := os.Open("testdata/matching.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Rows [][3]any }
	if err := json.NewDecoder(z).Decode(&file); err != nil || len(file.Rows) < 5 {
		t.Fatal(len(file.Rows), err)
	}
	for _, r := range file.Rows {
		if got := Matching(r[0].(string), r[1].(string)); math.Abs(got-r[2].(float64)) > 1e-12 {
			t.Errorf("%q, %q: %v; want %v", r[0], r[1], got, r[2])
		}
	}
	if Matching("", "") != 1 {
		t.Error("two empty texts")
	}
}
