package track

import (
	"encoding/binary"
	"math"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// Histogram counts values between edges, of which there is one more than counts.
type Histogram struct {
	Name   string
	Edges  []float64
	Counts []int
}

// totals is how an iteration's totals are distributed.
func totals(h *ledger.Histogram) Histogram {
	out := Histogram{Name: "sample/totals", Counts: h.Counts}
	for i := range len(h.Counts) + 1 {
		out.Edges = append(out.Edges, h.Low+(h.High-h.Low)*float64(i)/float64(len(h.Counts)))
	}
	return out
}

// binned is a histogram as W&B and trackio write it; they call its kind otherwise.
type binned struct {
	Type   string    `json:"_type"`
	Bins   []float64 `json:"bins"`
	Values []int     `json:"values"`
}

func (h Histogram) binned(kind string) binned { return binned{kind, h.Edges, h.Counts} }

// used is the histogram without the empty bins at its ends: TensorBoard takes them for a part of their neighbours.
func (h Histogram) used() Histogram {
	from, to := 0, len(h.Counts)
	for from < to && h.Counts[from] == 0 {
		from++
	}
	for to > from && h.Counts[to-1] == 0 {
		to--
	}
	return Histogram{h.Name, h.Edges[from : to+1], h.Counts[from:to]}
}

// proto is tensorflow's HistogramProto. Of values only their bins are known, so its sums are of the bins' middles.
func (h Histogram) proto(m *message) {
	h = h.used()
	var n, sum, squares float64
	var limits, counts []byte
	for i, c := range h.Counts {
		middle, of := (h.Edges[i]+h.Edges[i+1])/2, float64(c)
		n, sum, squares = n+of, sum+float64(of*middle), squares+float64(of*float64(middle*middle))
		limits = binary.LittleEndian.AppendUint64(limits, math.Float64bits(h.Edges[i+1]))
		counts = binary.LittleEndian.AppendUint64(counts, math.Float64bits(of))
	}
	m.double(1, h.Edges[0])
	m.double(2, h.Edges[len(h.Counts)])
	m.double(3, n)
	m.double(4, sum)
	m.double(5, squares)
	m.bytes(6, limits)
	m.bytes(7, counts)
}
