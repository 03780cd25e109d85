package config

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Write writes a struct as the TOML that Decode reads back into an equal one. note,
// if it is not nil, gives a comment for the line of a key. Lists of tables that are
// empty and pointers that are nil are left out, and so are fields for later.
func Write(w io.Writer, v any, note func(key string) string) error {
	out := &writer{w: bufio.NewWriter(w), note: note}
	out.table(reflect.Indirect(reflect.ValueOf(v)), "", "")
	return out.w.Flush()
}

type writer struct {
	w    *bufio.Writer
	note func(key string) string
	some bool // something is written
}

// table writes a struct: keys that fit on lines, then the tables in it. header is its name in the file, path the key
// of it, with numbers of lists.
func (o *writer) table(v reflect.Value, header, path string) {
	var tables []field
	for _, f := range fields(v.Type()) {
		inner := v.FieldByIndex(f.index)
		switch {
		case f.later:
		case isTables(f.typ):
			tables = append(tables, f)
		case f.typ.Kind() == reflect.Pointer && inner.IsNil():
		default:
			o.line(join(path, f.name), f.name, literal(inner, f.single))
		}
	}
	for _, f := range tables {
		inner := v.FieldByIndex(f.index)
		name, key := join(header, f.name), join(path, f.name)
		switch inner.Kind() {
		case reflect.Struct:
			o.header("[" + name + "]")
			o.table(inner, name, key)
		case reflect.Pointer:
			if !inner.IsNil() {
				o.header("[" + name + "]")
				o.table(inner.Elem(), name, key)
			}
		case reflect.Map:
			o.mapping(inner, name, key)
		default:
			for i := range inner.Len() {
				o.header("[[" + name + "]]")
				o.table(inner.Index(i), name, fmt.Sprintf("%s[%d]", key, i))
			}
		}
	}
}

// WriteTables writes the tables of a list at a key as they were written, for fields
// that are left for later. Nested tables become dotted keys.
func WriteTables(w io.Writer, d *Document, key string) error {
	out := &writer{w: bufio.NewWriter(w), some: true}
	if e := d.root.lookup(key); e != nil {
		for _, item := range e.value.items {
			out.header("[[" + key + "]]")
			out.raw(d, item.table, "")
		}
	}
	return out.w.Flush()
}

func (o *writer) raw(d *Document, t *table, prefix string) {
	if t == nil {
		return
	}
	for _, e := range t.entries {
		key, v := join(prefix, bare(e.name)), e.value
		switch {
		case v.kind == aTable && len(v.table.entries) > 0: // by keys: --set may have changed one of them
			o.raw(d, v.table, key)
		case v.kind == aString:
			o.line("", key, quote(v.text))
		case v.isAppended(): // nothing that is configured so nests deeper
		default:
			o.line("", key, string(d.sources[v.source].text[v.at:v.to]))
		}
	}
}

// bare is a name without quotation marks where it needs none.
func bare(name string) string {
	if name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" {
		return name
	}
	return quote(name)
}

// isTables reports whether a type is written under headers.
func isTables(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return true
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return isTables(t.Elem())
	}
	return false
}

func (o *writer) mapping(v reflect.Value, header, path string) {
	if v.Len() == 0 {
		return
	}
	o.header("[" + header + "]")
	names := v.MapKeys()
	slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, n := range names {
		o.line(join(path, n.String()), quote(n.String()), literal(v.MapIndex(n), false))
	}
}

func (o *writer) header(s string) {
	if o.some {
		o.w.WriteByte('\n')
	}
	o.some = true
	o.w.WriteString(s + "\n")
}

func (o *writer) line(key, name, text string) {
	o.some = true
	line := name + " = " + text
	if o.note != nil {
		if n := o.note(key); n != "" {
			line = fmt.Sprintf("%-36s # %s", line, n)
		}
	}
	o.w.WriteString(line + "\n")
}

// literal is a value as TOML writes it.
func literal(v reflect.Value, single bool) string {
	v = reflect.Indirect(v)
	switch v.Kind() {
	case reflect.String:
		return quote(v.String())
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Float64:
		return decimal(v.Float())
	case reflect.Slice, reflect.Array:
		if single && v.Len() == 1 {
			return literal(v.Index(0), false)
		}
		var items []string
		for i := range v.Len() {
			items = append(items, literal(v.Index(i), false))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	panic(fmt.Sprintf("config: a %s cannot be written", v.Type()))
}

// decimal writes a number so that it is read as one again, and not as an integer.
func decimal(x float64) string {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(x, 'g', -1, 64), "+"))
	}
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// quote writes a basic string of TOML.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
