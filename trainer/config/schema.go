package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// A field is a configured field of a struct, as its tags say.
type field struct {
	name     string
	index    []int
	typ      reflect.Type
	required bool // must be written, and not empty
	single   bool // a list that may be written as one value
	later    bool // known, but decoded by its owner
	enum     []string
	limits   limits
	doc      string
	of       string       // who reads it: for its owner
	in       reflect.Type // the struct that declares it
}

// fields lists a struct's, those of embedded structs in their place. A wrong tag
// is a programmer's mistake.
func fields(t reflect.Type) []field {
	var all []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("toml")
		if tag == "-" {
			continue
		}
		if !tagged {
			if f.Anonymous {
				for _, inner := range fields(f.Type) {
					inner.index = append([]int{i}, inner.index...)
					all = append(all, inner)
				}
			}
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		one := field{name: name, index: f.Index, typ: f.Type, doc: f.Tag.Get("doc"), of: f.Tag.Get("of"), in: t, limits: parseLimits(f.Tag.Get("range"))}
		for o := range strings.SplitSeq(options, ",") {
			switch o {
			case "required":
				one.required = true
			case "single":
				one.single = true
			case "later":
				one.later = true
			case "":
			default:
				panic(fmt.Sprintf("config: %s.%s has the unknown option %q", t, f.Name, o))
			}
		}
		if e := f.Tag.Get("enum"); e != "" {
			one.enum = strings.Split(e, ",")
		}
		all = append(all, one)
	}
	return all
}

// limits is the range of a number; the zero value is every finite one.
type limits struct {
	tag        string
	given      bool
	low, high  float64
	over, less bool // low and high are not in it
}

// parseLimits reads lo,hi with a bracket on either side that may be left out.
func parseLimits(tag string) limits {
	if tag == "" {
		return limits{low: math.Inf(-1), high: math.Inf(1), over: true, less: true}
	}
	l := limits{tag: tag, given: true, over: tag[0] == '(', less: tag[len(tag)-1] == ')'}
	low, high, ok := strings.Cut(strings.Trim(tag, "[]()"), ",")
	var err1, err2 error
	l.low, err1 = strconv.ParseFloat(strings.TrimSpace(low), 64)
	l.high, err2 = strconv.ParseFloat(strings.TrimSpace(high), 64)
	if !ok || err1 != nil || err2 != nil {
		panic(fmt.Sprintf("config: range %q is not lo,hi", tag))
	}
	return l
}

// wrong says what is wrong with a number; nothing where it is in the range.
func (l limits) wrong(x float64, raw string) string {
	switch {
	case math.IsNaN(x):
		return "must be a number, is " + raw
	case x > l.low && x < l.high, x == l.low && !l.over, x == l.high && !l.less:
		return ""
	case !l.given:
		return "must be finite, is " + raw
	}
	var s string
	switch low, high := number(l.low), number(l.high); {
	case math.IsInf(l.high, 1) && l.over:
		s = "above " + low
	case math.IsInf(l.high, 1):
		s = "at least " + low
	case math.IsInf(l.low, -1) && l.less:
		s = "below " + high
	case math.IsInf(l.low, -1):
		s = "at most " + high
	case l.over && l.less:
		s = fmt.Sprintf("above %s and below %s", low, high)
	case l.over:
		s = fmt.Sprintf("above %s, at most %s", low, high)
	case l.less:
		s = fmt.Sprintf("at least %s, below %s", low, high)
	default:
		s = fmt.Sprintf("between %s and %s", low, high)
	}
	if math.IsInf(x, 0) {
		s += " and finite"
	}
	return fmt.Sprintf("must be %s, is %s", s, raw)
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// keysOf lists all keys below a struct, tables included: "loss", "loss.clip_range".
func keysOf(t reflect.Type, prefix string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var all []string
	for _, f := range fields(t) {
		key := join(prefix, f.name)
		all = append(all, key)
		all = append(all, keysOf(f.typ, key)...)
	}
	return all
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}
