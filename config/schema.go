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

// wrong is the problem of a number; nothing where it is in the range.
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

// A Key is a key that a struct configures, as its tags describe it.
type Key struct {
	Path     string // "loss.clip_range"; of an element of a list "reward[0].weight"
	Table    bool
	Kind     string // "a number", "a list of integers"
	Absent   bool   // a pointer that is nil
	Default  string // the value in the struct, as TOML; "" of a table, and where it is absent
	Required bool
	Range    string
	Enum     []string
	Doc      string
	Of       string // the tag of, whose words are the owner's: who reads the key

	// In is the struct that declares the key. One that is embedded in several tables is the same in all of them.
	In reflect.Type
}

// Keys lists the keys below a struct, tables before their keys. A list of tables without elements and a pointer that
// is nil are described by an element as its SetDefaults leaves it, without an index.
func Keys(v any) []Key {
	return keysBelow(reflect.Indirect(reflect.ValueOf(v)), "")
}

func keysBelow(v reflect.Value, path string) []Key {
	var all []Key
	for _, f := range fields(v.Type()) {
		inner, key := v.FieldByIndex(f.index), join(path, f.name)
		one := Key{Path: key, Absent: f.typ.Kind() == reflect.Pointer && inner.IsNil(), Kind: kindOf(f), Required: f.required, Range: f.limits.tag, Enum: f.enum, Doc: f.doc, Of: f.of, In: f.in}
		if !isTables(f.typ) {
			if !one.Absent {
				one.Default = literal(inner, f.single)
			}
			all = append(all, one)
			continue
		}
		one.Table = true
		all = append(all, one)
		if f.later || f.typ.Kind() == reflect.Map {
			continue
		}
		all = append(all, keysOfTable(inner, key)...)
	}
	return all
}

// keysOfTable lists the keys of a table, or of each of a list of tables.
func keysOfTable(v reflect.Value, path string) []Key {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(v.Type().Elem())
			begin(v)
		}
		return keysOfTable(v.Elem(), path)
	case reflect.Slice, reflect.Array:
		if v.Len() == 0 {
			return keysOfTable(reflect.Zero(reflect.PointerTo(v.Type().Elem())), path)
		}
		var all []Key
		for i := range v.Len() {
			all = append(all, keysOfTable(v.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
		return all
	}
	return keysBelow(v, path)
}

// kindOf is the kind of a field's value.
func kindOf(f field) string {
	t, list := f.typ, ""
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		if t.Kind() != reflect.Pointer {
			list = "list of "
		}
		t = t.Elem()
	}
	kind := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer",
		reflect.Uint64: "integer", reflect.Float64: "number"}[t.Kind()]
	if kind == "" {
		kind = "table"
	}
	if list != "" {
		kind += "s"
	}
	return list + kind
}

// Parent is the path of the table that a key is in.
func Parent(path string) string {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)]
}

// Last is the last name of a path: "clip_range" of "loss.clip_range".
func Last(path string) string { return path[1+strings.LastIndexByte(path, '.'):] }
