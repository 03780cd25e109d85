package cuda

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/portable"
)

// Measured times of products by wgmma. The times of a tile (hopperTile) are those of a device that computes. Where few
// rows read many weights, or a last wave is all but empty, tiles compare otherwise. So a tile's time for a shape is
// corrected by the times of the shapes nearest to it.

//go:embed hopper_products.csv
var hopperProducts string

// measuredProcessors is how many multiprocessors the devices have that products were measured on.
const measuredProcessors = 132

// A timedProduct is a shape, by the logarithms of its sides, and by a tile's name the logarithm of its measured time
// over the tile's own.
type timedProduct struct {
	at   [3]float64
	over map[string]float64
}

var timedProducts = sync.OnceValue(func() []timedProduct {
	all, err := readTimes(hopperProducts)
	if err != nil {
		panic(fmt.Sprintf("kernels: hopper_products.csv: %v", err)) // it is embedded, and a test reads it
	}
	return all
})

// readTimes reads hopper_products.csv.
func readTimes(text string) (all []timedProduct, err error) {
	r := csv.NewReader(strings.NewReader(text))
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	for _, row := range rows[1:] {
		p := &productArgs{}
		for i, to := range []*int64{&p.m, &p.n, &p.k} {
			if *to, err = strconv.ParseInt(row[1+i], 10, 64); err != nil {
				return nil, err
			}
		}
		x := timedProduct{place(p), map[string]float64{}}
		for i, s := range row[4:] {
			if s == "" {
				continue
			}
			us, err := strconv.ParseFloat(s, 64)
			if err != nil {
				return nil, err
			}
			for j := range hopperTiles {
				if t := &hopperTiles[j]; t.name == rows[0][4+i] {
					x.over[t.name] = portable.Log(us / t.takes(p, measuredProcessors))
				}
			}
		}
		all = append(all, x)
	}
	return all, nil
}

// place is where a shape lies among others; rows count by the least tile's.
func place(p *productArgs) [3]float64 {
	return [3]float64{portable.Log2(float64((p.m + 63) / 64 * 64)), portable.Log2(float64(p.n)), portable.Log2(float64(p.k))}
}

// A measured shape counts for those within a fifth of a doubling of a side. The tiles' own times decide for shapes far
// from all of them.
const (
	measuredNear  = 0.2
	measuredDoubt = 0.15
)

// corrections are the factors of the tiles' times for a shape, in the order of hopperTiles.
func corrections(p *productArgs) []float64 {
	by, weights := make([]float64, len(hopperTiles)), make([]float64, len(hopperTiles))
	at := place(p)
	for _, x := range timedProducts() {
		d := 0.0
		for i := range at {
			d += (x.at[i] - at[i]) * (x.at[i] - at[i])
		}
		if d > 9*measuredNear*measuredNear {
			continue
		}
		w := portable.Exp(-d / (2 * measuredNear * measuredNear))
		for i := range hopperTiles {
			if over, measured := x.over[hopperTiles[i].name]; measured {
				by[i], weights[i] = by[i]+w*over, weights[i]+w
			}
		}
	}
	for i := range by {
		by[i] = portable.Exp(by[i] / (weights[i] + measuredDoubt))
	}
	return by
}
