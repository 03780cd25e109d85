package cuda

import (
	"encoding/csv"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// TestHopperTileFor holds the choice of a tile to the times of products on devices with each (TestHopperTimes).
func TestHopperTileFor(t *testing.T) {
	r := csv.NewReader(strings.NewReader(hopperProducts))
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	lost, worst := 0.0, 0.0
	for _, row := range rows[1:] {
		var n [4]int64
		for i, s := range row[1:4] {
			if n[i], err = strconv.ParseInt(s, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		fastest, took := math.Inf(1), map[string]float64{}
		for i, name := range rows[0][4:] {
			if row[4+i] == "" {
				continue
			}
			if took[name], err = strconv.ParseFloat(row[4+i], 64); err != nil {
				t.Fatal(err)
			}
			fastest = min(fastest, took[name])
		}
		best := fastestTile(&productArgs{m: n[0], n: n[1], k: n[2]}, measuredProcessors, row[0] == "NN", false).name
		if took[best] == 0 { // not measured for this shape
			continue
		}
		over := took[best]/fastest - 1
		lost += over / float64(len(rows)-1)
		worst = max(worst, over)
		if over > 0.12 {
			t.Errorf("%v: %s takes %g microseconds, another tile %g", row[:4], best, took[best], fastest)
		}
	}
	t.Logf("%d products: %.2f %% lost on average, %.1f %% at worst", len(rows)-1, 100*lost, 100*worst)
	if lost > 0.002 {
		t.Errorf("%.2f %% are lost on average", 100*lost)
	}
}

// TestHopperTileFarFromMeasured: where nothing near was measured, and on devices of another size, a tile's own times
// decide.
func TestHopperTileFarFromMeasured(t *testing.T) {
	for i, by := range corrections(&productArgs{m: 1 << 20, n: 1 << 20, k: 1 << 20}) {
		if by != 1 {
			t.Errorf("%s: corrected by %g where nothing was measured", hopperTiles[i].name, by)
		}
	}
	p := &productArgs{m: 128, n: 3584, k: 18944}
	if near, own := fastestTile(p, measuredProcessors, false, false).name, fastestTile(p, measuredProcessors-1, false, false).name; near != "_64" || own != "_few" {
		t.Errorf("%s where it was measured, %s elsewhere", near, own)
	}
}

// TestHopperTileOfShortSums: below the least k that was measured, a product of more rows takes longer with every tile.
func TestHopperTileOfShortSums(t *testing.T) {
	for _, tile := range hopperTiles {
		for k := int64(leastWhole); k <= 2048; k += 64 {
			before := 0.0
			for m := int64(2048); m <= 1<<16; m *= 2 {
				us := tile.takes(&productArgs{m: m, n: 1536, k: k}, 132)
				if us <= before {
					t.Fatalf("%s: %d rows of k %d take %g microseconds, half of them %g", tile.name, m, k, us, before)
				}
				before = us
			}
			if less, more := tile.one(k), tile.one(k+64); less >= more {
				t.Errorf("%s: a tile takes %g microseconds of k %d, and %g of one slice more", tile.name, less, k, more)
			}
		}
	}
}

// TestHopperTileThin: a thin tile serves few rows, where twice as many blocks read weights along k.
func TestHopperTileThin(t *testing.T) {
	b := &Backend{device: driver.Device{Processors: 132}}
	for _, c := range []struct {
		m, n, k int64
		form    int32
		want    string
	}{
		{32, 3584, 3584, operandRows, "_thin"}, {1, 512, 3584, operandRows, "_thin"}, {64, 3584, 18944, operandRows, "_thin"},
		{32, 18944, 3584, operandRows, "_few"}, {32, 3584, 3584, operandColumns, "_few"}, {65, 512, 3584, operandRows, "_thin"},
		{128, 3584, 18944, operandRows, "_64"}, {128, 18944, 3584, operandRows, "_192"},
	} {
		p := &productArgs{m: c.m, n: c.n, k: c.k, b: operand{form: c.form}}
		if got := b.hopperTileFor(p).name; got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	b.hopper.onlyTile = "_thin"
	for form, want := range map[int32]bool{operandRows: true, operandColumns: false} {
		if got := b.hopperTileFor(&productArgs{m: 150, n: 280, k: 136, b: operand{form: form}}); (got.name == "_thin") != want {
			t.Errorf("form %d: a check asks for thin tiles and gets %s", form, got.name)
		}
	}
}
