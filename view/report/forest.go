package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// A Forest is rows of a name and an interval, one below the other.
type Forest struct {
	Title     string
	Rows      []ForestRow
	Threshold *float64  // a line across all rows
	Ticks     []float64 // where the axis is marked; of Wide, in units of the values
	Wide      bool      // the axis is even near 0 and logarithmic far from it
}

// A ForestRow is one of them.
type ForestRow struct {
	Name, Note       string
	Value, Low, High float64
	Hue              int // of hues
}

// The drawing's sizes, in its own units.
const (
	rowHeight  = 20.0
	nameWidth  = 190.0
	noteWidth  = 120.0
	forestWide = 640.0
)

// SVG is the drawing.
func (f Forest) SVG() template.HTML {
	x := interval{math.Inf(1), math.Inf(-1)}
	for _, r := range f.Rows {
		x.take(f.place(r.Low))
		x.take(f.place(r.High))
	}
	for _, t := range f.Ticks {
		if !f.Wide {
			x.take(t)
		}
	}
	if f.Threshold != nil {
		x.take(f.place(*f.Threshold))
		x.take(0)
	}
	x = x.widened(0.03)
	high := rowHeight*float64(len(f.Rows)) + 30
	at := func(v float64) float64 {
		return nameWidth + (f.place(v)-x.low)/(x.high-x.low)*(forestWide-nameWidth-noteWidth)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, forestWide, high, html.EscapeString(f.Title))
	for _, t := range f.Ticks {
		if p := f.place(t); p < x.low || p > x.high {
			continue
		}
		fmt.Fprintf(&b, `<line class="grid" x1="%.1[1]f" x2="%.1[1]f" y1="2" y2="%[2]g"/><text class="tick" x="%.1[1]f" y="%[3]g" text-anchor="middle">%[4]s</text>`, at(t), high-26, high-8, label(t))
	}
	if f.Threshold != nil {
		fmt.Fprintf(&b, `<line class="threshold" x1="%.1[1]f" x2="%.1[1]f" y1="2" y2="%[2]g"/>`, at(*f.Threshold), high-26)
	}
	for i, r := range f.Rows {
		y := rowHeight*float64(i) + 12
		hue := hues[r.Hue%len(hues)]
		fmt.Fprintf(&b, `<text class="name" x="%g" y="%.1f" text-anchor="end">%s</text>`, nameWidth-10, y+4, html.EscapeString(r.Name))
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1[3]f" y2="%.1[3]f" stroke="%[4]s" stroke-width="2"/>`, at(r.Low), at(r.High), y, hue)
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s: %s (%s to %s)</title></circle>`, at(r.Value), y, hue, html.EscapeString(r.Name), label(r.Value), label(r.Low), label(r.High))
		fmt.Fprintf(&b, `<text class="tick" x="%g" y="%.1f">%s</text>`, forestWide-noteWidth+8, y+4, html.EscapeString(r.Note))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // names are escaped, all else is numbers
}

// place is where a value lies on the axis.
func (f Forest) place(v float64) float64 {
	if !f.Wide {
		return v
	}
	return math.Asinh(4*v) / math.Ln10
}
