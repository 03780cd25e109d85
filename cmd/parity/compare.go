package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A tolerance allows |got - want| <= Abs + Rel |want|, or, where Norm is set, that of
// a whole array's length: |got - want| <= Norm |want|.
type tolerance struct{ Abs, Rel, Norm float64 }

// tolerances are a case's, and those of single names: of an output, or of a
// field somewhere inside one.
type tolerances struct {
	all    tolerance
	byName map[string]tolerance
}

// of is the tolerance for a value at a path of names, outermost first: the
// innermost name that has one decides.
func (t tolerances) of(path []string) tolerance {
	for _, name := range slices.Backward(path) {
		if own, ok := t.byName[name]; ok {
			return own
		}
	}
	return t.all
}

// A comparison walks a recorded value beside the computed one.
type comparison struct {
	tols  tolerances
	names []string // the way to the value: names of fields
	at    string   // the same with indices, for people
	worst float64  // largest error as a fraction of its tolerance; +Inf where no fraction says it
	first string   // the first differing value of the output with the largest share
}

// compare judges all outputs of a case. Computed outputs that are not recorded
// are ignored: an op may offer more than a case asks for.
func compare(want, got map[string]any, tols tolerances) (worst float64, first string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		c := &comparison{tols: tols}
		c.inside(name, name, func() {
			v, ok := got[name]
			if !ok {
				c.differ("is not computed")
				return
			}
			c.value(want[name], v)
		})
		if c.first != "" && (first == "" || c.worst > worst) {
			first = c.first
		}
		worst = max(worst, c.worst)
	}
	return worst, first
}

// inside runs judge one step further down.
func (c *comparison) inside(name, at string, judge func()) {
	names, before := c.names, c.at
	if name != "" {
		c.names = append(c.names, name)
	}
	c.at += at
	judge()
	c.names, c.at = names, before
}

func (c *comparison) differ(format string, args ...any) {
	c.worst = math.Inf(1)
	c.note(format, args...)
}

func (c *comparison) note(format string, args ...any) {
	if c.first == "" {
		c.first = c.at + " " + fmt.Sprintf(format, args...)
	}
}

func (c *comparison) value(want, got any) {
	switch want := want.(type) {
	case nil:
		if !isNull(got) {
			c.differ("is %s, want null", show(got))
		}
	case string:
		if got != want {
			c.differ("is %s, want %q", show(got), want)
		}
	case bool, json.Number:
		c.scalar(want, got)
	case Array:
		c.array(want, got)
	case []any:
		c.list(want, got)
	case map[string]any:
		c.object(want, got)
	default:
		c.differ("is recorded as a %T, which cannot be compared", want)
	}
}

func isNull(v any) bool {
	x, isFloat := v.(float64)
	return v == nil || isFloat && math.IsNaN(x)
}

// scalar compares numbers and bools; an integer that was computed as one must be
// exact.
func (c *comparison) scalar(want, got any) {
	v := reflect.ValueOf(got)
	literal := fmt.Sprint(want)
	wanted, _ := float(want)
	switch {
	case got == want:
	case v.CanInt() && wholeLiteral(literal):
		if strconv.FormatInt(v.Int(), 10) != literal {
			c.differ("is %d, want %s", v.Int(), literal)
		}
	case v.CanUint() && wholeLiteral(literal):
		if strconv.FormatUint(v.Uint(), 10) != literal {
			c.differ("is %d, want %s", v.Uint(), literal)
		}
	default:
		x, ok := number(got)
		if !ok {
			c.differ("is %s, want %s", show(got), literal)
			return
		}
		c.number(wanted, x)
	}
}

func wholeLiteral(s string) bool { return strings.Trim(s, "-0123456789") == "" }

func (c *comparison) number(want, got float64) {
	if want == got || math.IsNaN(want) && math.IsNaN(got) {
		return
	}
	tol := c.tols.of(c.names)
	allowed := tol.Abs + tol.Rel*math.Abs(want)
	off := math.Abs(got - want)
	switch fraction := off / allowed; {
	case math.IsNaN(fraction) || math.IsInf(fraction, 0):
		c.differ("is %v, want %v", got, want)
	default:
		c.worst = max(c.worst, fraction)
		if fraction > 1 {
			c.note("is %v, want %v: off by %.3g, allowed %.3g", got, want, off, allowed)
		}
	}
}

// array compares with an Array, or with a slice, which has no shape: it is held
// to the data in row-major order.
func (c *comparison) array(want Array, got any) {
	a, isArray := got.(Array)
	if isArray && !sameShape(a.Shape, want.Shape) {
		c.differ("has shape %v, want %v", a.Shape, want.Shape)
		return
	}
	data := a.Data
	if !isArray {
		var ok bool
		if data, ok = flatten(got); !ok {
			c.differ("is %s, want an array of shape %v", show(got), want.Shape)
			return
		}
	}
	if len(data) != len(want.Data) {
		c.differ("has %d elements, want shape %v", len(data), want.Shape)
		return
	}
	if tol := c.tols.of(c.names); tol.Norm > 0 {
		c.whole(want.Data, data, tol.Norm)
		return
	}
	for i, w := range want.Data {
		if w != data[i] { // the rest costs a name
			c.inside("", index(want.Shape, i), func() { c.number(w, data[i]) })
		}
	}
}

// whole compares the lengths of arrays' difference and of the wanted array.
func (c *comparison) whole(want, got []float64, allowed float64) {
	var off, length float64
	for i, w := range want {
		off += (got[i] - w) * (got[i] - w)
		length += w * w
	}
	off = math.Sqrt(off / length)
	switch {
	case length == 0 || math.IsNaN(off):
		c.differ("has lengths that cannot be compared")
	default:
		c.worst = max(c.worst, off/allowed)
		if off > allowed {
			c.note("is off by %.3g of its length, allowed %.3g", off, allowed)
		}
	}
}

// index names element i of a shape: [1,0,2].
func index(shape []int, i int) string {
	parts := make([]string, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		parts[d] = strconv.Itoa(i % shape[d])
		i /= shape[d]
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (c *comparison) list(want []any, got any) {
	v := reflect.ValueOf(got)
	if a, ok := got.(Array); ok {
		v = reflect.ValueOf(rows(a))
	}
	if v.Kind() != reflect.Slice {
		c.differ("is %s, want a list", show(got))
		return
	}
	if v.Len() != len(want) {
		c.differ("has %d elements, want %d", v.Len(), len(want))
		return
	}
	for i, w := range want {
		c.inside("", fmt.Sprintf("[%d]", i), func() { c.value(w, v.Index(i).Interface()) })
	}
}

func (c *comparison) object(want map[string]any, got any) {
	m, ok := got.(map[string]any)
	if !ok {
		c.differ("is %s, want an object", show(got))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		c.inside(name, "."+name, func() {
			v, ok := m[name]
			if !ok {
				c.differ("is not computed")
				return
			}
			c.value(want[name], v)
		})
	}
}

// Values of ops' Put, in any Go type.

// number reads a computed scalar.
func number(got any) (float64, bool) {
	if a, ok := got.(Array); ok && len(a.Shape) == 0 && len(a.Data) == 1 {
		return a.Data[0], true
	}
	if b, ok := got.(bool); ok {
		return float(b)
	}
	v := reflect.ValueOf(got)
	switch {
	case v.CanFloat():
		return v.Float(), true
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	}
	return 0, false
}

// flatten reads a number, or slices of numbers at any depth.
func flatten(got any) ([]float64, bool) {
	if data, ok := got.([]float64); ok {
		return data, true
	}
	if a, ok := got.(Array); ok {
		return a.Data, true
	}
	if x, ok := number(got); ok {
		return []float64{x}, true
	}
	v := reflect.ValueOf(got)
	if v.Kind() != reflect.Slice {
		return nil, false
	}
	data := []float64{}
	for i := range v.Len() {
		part, ok := flatten(v.Index(i).Interface())
		if !ok {
			return nil, false
		}
		data = append(data, part...)
	}
	return data, true
}

// rows splits an array along its first axis.
func rows(a Array) []any {
	if len(a.Shape) == 0 {
		return nil
	}
	list := make([]any, a.Shape[0])
	for i := range list {
		size := len(a.Data) / a.Shape[0]
		row := a.Data[i*size : (i+1)*size]
		if len(a.Shape) == 1 {
			list[i] = row[0]
		} else {
			list[i] = Array{a.Shape[1:], row}
		}
	}
	return list
}

// show is a computed value for people, not longer than a line.
func show(v any) string {
	if a, ok := v.(Array); ok {
		return fmt.Sprintf("an array of shape %v", a.Shape)
	}
	text := fmt.Sprint(v)
	if s, ok := v.(string); ok {
		text = strconv.Quote(s)
	}
	if len(text) > 80 {
		text = text[:80] + "..."
	}
	return text
}
