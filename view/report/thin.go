package report

import (
	"encoding/json"
	"math"
	"strconv"
)

// thinned is a curve of at most about n points: of each of n/2 stretches, its least and its greatest point, so that no
// spike is lost. A stretch with a gap keeps it.
func (c Curve) thinned(n int) Curve {
	if len(c.X) <= n {
		return c
	}
	out := Curve{Name: c.Name, Dots: c.Dots, Marks: c.Marks, Bars: c.Bars}
	banded := len(c.Low) == len(c.X)
	take := func(i int) {
		out.X, out.Y = append(out.X, c.X[i]), append(out.Y, c.Y[i])
		if banded {
			out.Low, out.High = append(out.Low, c.Low[i]), append(out.High, c.High[i])
		}
	}
	stretches := max(1, n/2)
	for s := range stretches {
		from, to := s*len(c.X)/stretches, (s+1)*len(c.X)/stretches
		least, most := from, from
		for i := from; i < to; i++ {
			if math.IsNaN(c.Y[i]) {
				least, most = i, i
				break
			}
			if c.Y[i] < c.Y[least] {
				least = i
			}
			if c.Y[i] > c.Y[most] {
				most = i
			}
		}
		take(min(least, most))
		if least != most {
			take(max(least, most))
		}
	}
	return out
}

// MarshalJSON writes null for NaN.
func (c Curve) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name  string  `json:"name"`
		X     numbers `json:"x"`
		Y     numbers `json:"y"`
		Low   numbers `json:"low,omitempty"`
		High  numbers `json:"high,omitempty"`
		Dots  bool    `json:"dots,omitempty"`
		Marks bool    `json:"marks,omitempty"`
		Bars  bool    `json:"bars,omitempty"`
	}{c.Name, c.X, c.Y, c.Low, c.High, c.Dots, c.Marks, c.Bars})
}

// numbers are written to six digits, which are more than a screen has.
type numbers []float64

// MarshalJSON writes null for NaN.
func (n numbers) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, v := range n {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendNumber(out, v)
	}
	return append(out, ']'), nil
}

func appendNumber(out []byte, v float64) []byte {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return append(out, "null"...)
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.AppendInt(out, int64(v), 10)
	}
	return strconv.AppendFloat(out, v, 'g', 6, 64)
}
