package ledger

import (
	"encoding/json"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Spread is how numbers are distributed; missing ones are counted and left out. Where all are missing it has
// none: NaN here, null in a file.
type Spread struct {
	Mean, Std   float64
	Least, Most float64
	Missing     int
}

// SpreadOf is the spread of x, in which NaN is missing.
func SpreadOf(x []float64) Spread {
	var s Spread
	n, sum := 0.0, 0.0
	for _, v := range x {
		if math.IsNaN(v) {
			s.Missing++
			continue
		}
		if n == 0 {
			s.Least, s.Most = v, v
		}
		n, sum = n+1, sum+v
		s.Least, s.Most = min(s.Least, v), max(s.Most, v)
	}
	if n == 0 {
		if s.Missing > 0 {
			s.Mean, s.Std, s.Least, s.Most = math.NaN(), math.NaN(), math.NaN(), math.NaN()
		}
		return s
	}
	s.Mean = sum / n
	squares := 0.0
	for _, v := range x {
		if !math.IsNaN(v) {
			squares += float64((v - s.Mean) * (v - s.Mean))
		}
	}
	s.Std = math.Sqrt(squares / n)
	return s
}

// stored is a spread in a file.
type stored struct {
	Mean    *float64 `json:"mean"`
	Std     *float64 `json:"std"`
	Least   *float64 `json:"min"`
	Most    *float64 `json:"max"`
	Missing int      `json:"missing,omitempty"`
}

// MarshalJSON writes null for an unknown number.
func (s Spread) MarshalJSON() ([]byte, error) {
	return json.Marshal(stored{Number(s.Mean), Number(s.Std), Number(s.Least), Number(s.Most), s.Missing})
}

// UnmarshalJSON reads the form of MarshalJSON.
func (s *Spread) UnmarshalJSON(text []byte) error {
	var f stored
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	known := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	*s = Spread{known(f.Mean), known(f.Std), known(f.Least), known(f.Most), f.Missing}
	return nil
}

// Within is how many groups have one total alone, and the mean deviation inside groups.
func Within(groups [][]int, totals []float64) (dead int, spread float64) {
	for _, g := range groups {
		var x []float64
		for _, i := range g {
			x = append(x, totals[i])
		}
		s := SpreadOf(x)
		if s.Missing == len(x) {
			continue
		}
		spread += s.Std / float64(len(groups))
		if s.Least == s.Most {
			dead++
		}
	}
	return dead, spread
}

// Measure is a mean over held-out prompts with its 95 % interval, from the prompts' own means.
type Measure struct {
	Mean    float64 `json:"mean"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Prompts int     `json:"prompts"`
	Missing int     `json:"missing,omitempty"`
}

// MeasureOf is of samples' numbers by prompt: mean ± t(n-1) standard errors over prompts.
func MeasureOf(byPrompt [][]float64) Measure {
	var m Measure
	var means []float64
	for _, x := range byPrompt {
		s := SpreadOf(x)
		m.Missing += s.Missing
		if s.Missing < len(x) {
			means = append(means, s.Mean)
		}
	}
	s := SpreadOf(means)
	m.Mean, m.Low, m.High, m.Prompts = s.Mean, s.Mean, s.Mean, len(means)
	if n := float64(len(means)); n > 1 {
		half := student(len(means)-1) * s.Std / math.Sqrt(n-1)
		m.Low, m.High = s.Mean-half, s.Mean+half
	}
	return m
}

// student is the 97.5 % quantile of Student's t: the table's for few degrees of freedom, and
// Cornish and Fisher's expansion beyond.
func student(df int) float64 {
	table := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228}
	if df <= len(table) {
		return table[df-1]
	}
	const z = 1.959964
	n := float64(df)
	cube := float64(z * z * z)
	return z + (cube+z)/(4*n) + (float64(5*portable.Pow(z, 5))+16*cube+float64(3*z))/(96*n*n)
}

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
