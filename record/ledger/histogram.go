package ledger

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Histogram counts an iteration's totals in bins between Low and High; values beyond are in the bins at the ends. Modes
// is e to the counts' entropy, the number of bins in use: it falls to 1 when all samples come to score alike, whatever
// their mean does.
type Histogram struct {
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Counts []int   `json:"counts"`
	Modes  float64 `json:"modes"`
}

// Bins are a run's, from its first totals, so that histograms can be compared.
type Bins struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

const binCount = 16

// BinsOf leaves half the range of totals free on either side; nil without totals.
func BinsOf(totals []float64) *Bins {
	s := SpreadOf(totals)
	if s.Missing == len(totals) {
		return nil
	}
	free := (s.Most - s.Least) / 2
	if free == 0 {
		free = max(math.Abs(s.Most), 1) / 2
	}
	return &Bins{s.Least - free, s.Most + free}
}

// Count is the histogram of some totals.
func (b *Bins) Count(totals []float64) *Histogram {
	h := &Histogram{Low: b.Low, High: b.High, Counts: make([]int, binCount)}
	n := 0.0
	for _, v := range totals {
		if !math.IsNaN(v) {
			at := math.Floor((v - b.Low) / (b.High - b.Low) * binCount)
			h.Counts[int(min(max(at, 0), binCount-1))]++
			n++
		}
	}
	entropy := 0.0
	for _, c := range h.Counts {
		if c > 0 {
			p := float64(c) / n
			entropy -= float64(p * portable.Log(p))
		}
	}
	h.Modes = portable.Exp(entropy)
	return h
}
