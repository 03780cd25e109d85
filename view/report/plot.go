package report

import (
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Plot is curves over iterations, or over Across.
type Plot struct {
	Title  string  `json:"title"`
	Across string  `json:"across,omitempty"`
	Curves []Curve `json:"curves"`
}

// A Curve is points in order of X. With Low and High it has a band, or with Dots a bar each.
type Curve struct {
	Name      string
	X, Y      []float64
	Low, High []float64
	Dots      bool // measured now and then, and not a line of their own
	Marks     bool // a line with a mark at every point
	Bars      bool // bars from 0, as far apart as the first two points
}

// The drawing's size and margins, in its own units.
const (
	width, height            = 640.0, 276.0
	left, right, top, bottom = 82.0, 16.0, 12.0, 48.0
)

// hues are distinct for colour-blind people, too (Okabe and Ito).
var hues = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#7f7f7f", "#6b4fa0", "#b5b900"}

// SVG is the drawing.
func (p Plot) SVG() template.HTML {
	x, y := p.ranges()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, html.EscapeString(p.Title))
	px := func(v float64) float64 { return left + (v-x.low)/(x.high-x.low)*(width-left-right) }
	py := func(v float64) float64 { return height - bottom - (v-y.low)/(y.high-y.low)*(height-top-bottom) }
	ticks := y.ticks(5)
	for _, v := range ticks {
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="tick" x="%g" y="%.1f" text-anchor="end">%s</text>`, left, width-right, py(v), py(v), left-8, py(v)+5, tick(v, ticks))
	}
	ticks = x.ticks(8)
	if p.whole() { // there is no iteration 1.5
		ticks = slices.DeleteFunc(ticks, func(v float64) bool { return v != math.Trunc(v) })
	}
	for _, v := range ticks {
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%g" text-anchor="middle">%s</text>`, px(v), height-bottom+20, tick(v, ticks))
	}
	if across := p.across(); across != "" {
		fmt.Fprintf(&b, `<text class="tick" x="%g" y="%g" text-anchor="middle">%s</text>`, (left+width-right)/2, height-8, html.EscapeString(across))
	}
	for i, c := range p.Curves {
		hue := hues[i%len(hues)]
		if c.Bars {
			c.bars(&b, px, py, hue)
			continue
		}
		for _, piece := range c.pieces() {
			piece.line(&b, px, py, hue)
		}
	}
	b.WriteString(`</svg><p class="legend">`)
	for i, c := range p.Curves {
		fmt.Fprintf(&b, `<span><i style="background:%s"></i>%s</span> `, hues[i%len(hues)], html.EscapeString(c.Name))
	}
	b.WriteString(`</p>`)
	return template.HTML(b.String()) //nolint:gosec // names are escaped, all else is numbers
}

// line draws a curve without gaps, with its band.
func (c Curve) line(b *strings.Builder, px, py func(float64) float64, hue string) {
	if len(c.Low) == len(c.X) && len(c.X) > 0 && !c.Dots {
		var band strings.Builder
		for k := range c.X {
			fmt.Fprintf(&band, "%.1f,%.1f ", px(c.X[k]), py(c.High[k]))
		}
		for k := len(c.X) - 1; k >= 0; k-- {
			fmt.Fprintf(&band, "%.1f,%.1f ", px(c.X[k]), py(c.Low[k]))
		}
		fmt.Fprintf(b, `<polygon points="%s" fill="%s" opacity="0.15"/>`, strings.TrimSpace(band.String()), hue)
	}
	var line strings.Builder
	for k := range c.X {
		fmt.Fprintf(&line, "%.1f,%.1f ", px(c.X[k]), py(c.Y[k]))
	}
	dash := ""
	if c.Dots {
		dash = ` stroke-dasharray="2 4"`
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.8"%s/>`, strings.TrimSpace(line.String()), hue, dash)
	for k := range c.X {
		if !c.Dots && !c.Marks {
			continue
		}
		if len(c.Low) == len(c.X) && c.Dots {
			fmt.Fprintf(b, `<line x1="%[1]g" x2="%[1]g" y1="%.1[2]f" y2="%.1[3]f" stroke="%[4]s" stroke-width="1.4"/>`, math.Round(10*px(c.X[k]))/10, py(c.Low[k]), py(c.High[k]), hue)
		}
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s at %s: %s</title></circle>`, px(c.X[k]), py(c.Y[k]), hue, html.EscapeString(c.Name), label(c.X[k]), label(c.Y[k]))
	}
}

// pieces are the parts of a curve between its gaps, where it is not a number. A part of one point is marked, for
// it has no line.
func (c Curve) pieces() []Curve {
	var all []Curve
	banded := len(c.Low) == len(c.X)
	for from := 0; from < len(c.X); {
		to := from
		for to < len(c.X) && !math.IsNaN(c.Y[to]) {
			to++
		}
		if to > from {
			p := Curve{Name: c.Name, X: c.X[from:to], Y: c.Y[from:to], Dots: c.Dots, Marks: c.Marks || to == from+1}
			if banded {
				p.Low, p.High = c.Low[from:to], c.High[from:to]
			}
			all = append(all, p)
		}
		from = to + 1
	}
	return all
}

// bars draws a histogram. Several share their places, so that they are seen through.
func (c Curve) bars(b *strings.Builder, px, py func(float64) float64, hue string) {
	half := c.barWidth() / 2
	for k, y := range c.Y {
		if y == 0 {
			continue
		}
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" opacity="0.45"><title>%s near %s: %s</title></rect>`,
			px(c.X[k]-half), py(y), px(c.X[k]+half)-px(c.X[k]-half)-1, py(0)-py(y), hue, html.EscapeString(c.Name), label(c.X[k]), label(y))
	}
}

func (c Curve) barWidth() float64 {
	if len(c.X) < 2 {
		return 1
	}
	return c.X[1] - c.X[0]
}

// across is the unit of the horizontal axis.
func (p Plot) across() string {
	if p.Across == "" && p.whole() {
		return "iteration"
	}
	return p.Across
}

// whole reports whether all that is drawn is at whole numbers, as iterations are.
func (p Plot) whole() bool {
	for _, c := range p.Curves {
		for _, v := range c.X {
			if v != math.Trunc(v) {
				return false
			}
		}
	}
	return true
}

// An interval is the range of an axis.
type interval struct{ low, high float64 }

// ranges are the axes', a little wider than the points.
func (p Plot) ranges() (x, y interval) {
	x, y = interval{math.Inf(1), math.Inf(-1)}, interval{math.Inf(1), math.Inf(-1)}
	for _, c := range p.Curves {
		for k := range c.X {
			x.take(c.X[k])
			y.take(c.Y[k])
			if c.Bars {
				x.take(c.X[k] - c.barWidth()/2)
				x.take(c.X[k] + c.barWidth()/2)
				y.take(0)
			}
			if len(c.Low) == len(c.X) {
				y.take(c.Low[k])
				y.take(c.High[k])
			}
		}
	}
	return x.widened(0), y.widened(0.06)
}

// take widens the interval to a number, and ignores NaN.
func (i *interval) take(v float64) {
	if !math.IsNaN(v) {
		i.low, i.high = min(i.low, v), max(i.high, v)
	}
}

func (i interval) widened(share float64) interval {
	if i.low > i.high {
		return interval{0, 1}
	}
	if i.low == i.high {
		d := math.Abs(i.low) / 10
		if d == 0 {
			d = 1e-3
		}
		return interval{i.low - d, i.high + d}
	}
	d := share * (i.high - i.low)
	return interval{i.low - d, i.high + d}
}

// ticks are about n round numbers.
func (i interval) ticks(n int) []float64 {
	raw := (i.high - i.low) / float64(n)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * unit
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= raw {
			step = m * unit
			break
		}
	}
	var all []float64
	for k := math.Ceil(i.low / step); k*step <= i.high && len(all) < 50; k++ {
		all = append(all, k*step)
	}
	return all
}

// tick is a number of an axis, with as many decimals as make its neighbours distinct.
func tick(v float64, all []float64) string {
	step := 0.0
	if len(all) > 1 {
		step = all[1] - all[0]
	}
	if step < 1e-6 || math.Abs(v) >= 1e6 {
		return label(v)
	}
	decimals := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	if s := strconv.FormatFloat(v, 'f', decimals, 64); strings.Trim(s, "-0.") != "" {
		return s
	}
	return "0"
}

// label is a number without the digits that no reader needs.
func label(v float64) string {
	if v == 0 || math.Abs(v) < 1e-12 {
		return "0"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

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
