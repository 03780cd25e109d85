package tables

import (
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// TestTEDS: the recorded similarities of upstream, of tables whole and broken.
func TestTEDS(t *testing.T) {
	f, err := os.Open("testdata/teds.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tables []string
		Rows   [][4]float64
	}
	if err := json.NewDecoder(z).Decode(&file); err != nil || len(file.Rows) < 100 {
		t.Fatal(len(file.Rows), err)
	}
	whole := func(i float64) string { return "<html><body>" + file.Tables[int(i)] + "</body></html>" }
	for _, r := range file.Rows {
		for k, structure := range []bool{false, true} {
			got, err := TEDS(whole(r[0]), whole(r[1]), structure)
			if err != nil || math.Abs(got-r[2+k]) > 1e-9 {
				t.Errorf("%q and %q, structure %v: %v, %v; want %v", file.Tables[int(r[0])], file.Tables[int(r[1])], structure, got, err, r[2+k])
			}
		}
	}
	if _, err := TEDS(`<table><td colspan="x">`, whole(0), false); err == nil || !strings.Contains(err.Error(), `colspan of a cell is "x"`) {
		t.Error(err)
	}
	if _, err := TEDS("<table>"+strings.Repeat("<tr>", 5000), whole(0), false); err == nil || !strings.Contains(err.Error(), "more than 4000 elements") {
		t.Error(err)
	}
}
