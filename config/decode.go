package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Decode fills a struct from the table at a key, "" for the whole document. Missing keys stay as they are in into, a
// pointer to a struct. Err returns the mistakes.
func (d *Document) Decode(key string, into any) {
	v := reflect.ValueOf(into).Elem()
	c := decoder{doc: d, keys: sync.OnceValue(func() []string { return keysOf(v.Type(), key) })}
	if key == "" {
		c.table(d.root, span{}, "", v)
		return
	}
	if e := d.root.lookup(key); e != nil {
		c.value(e, field{typ: v.Type(), limits: parseLimits("")}, key, v)
	} else {
		c.table(nil, span{}, key, v)
	}
}

type decoder struct {
	doc  *Document
	keys func() []string // that there are; only a mistake needs them
}

// setDefaults are the defaults of an element of a list of tables.
type setDefaults interface{ SetDefaults() }

// table fills a struct from a table, nil where it is not written. at is its header.
func (c *decoder) table(t *table, at span, path string, into reflect.Value) {
	all := fields(into.Type())
	known := map[string]bool{}
	for _, f := range all {
		known[f.name] = true
		var e *entry
		if t != nil {
			e = t.byName[f.name]
		}
		key, v := join(path, f.name), into.FieldByIndex(f.index)
		switch {
		case f.later:
		case e != nil:
			c.value(e, f, key, v)
		case f.required && v.IsZero():
			c.missing(at, key)
		case f.typ.Kind() == reflect.Struct:
			c.table(nil, at, key, v)
		}
	}
	if t == nil {
		return
	}
	for _, e := range t.entries {
		if !known[e.name] {
			c.unknown(e, path, all)
		}
	}
}

func (c *decoder) missing(at span, key string) {
	if !c.doc.broken && !c.doc.fragment { // it may be in the unreadable part
		c.doc.add(at, key, fmt.Sprintf("missing key %q", key), "")
	}
}

// unknown reports a name that the table has not; the hint is one that it has, or
// the same name where it belongs.
func (c *decoder) unknown(e *entry, path string, all []field) {
	key, what, hint := join(path, e.name), "key", ""
	if e.value.kind == aTable && e.value.table.how != inline || e.value.isAppended() {
		what = "table"
	}
	if len(c.doc.mistakes) <= mostTold { // more are counted, not listed
		hint = c.hint(e.name, what == "table", all)
	}
	c.doc.add(e.key, key, fmt.Sprintf("unknown %s %q", what, key), hint)
}

// hint is a similar name, or the same one elsewhere. Tables are never misplaced keys.
func (c *decoder) hint(name string, table bool, all []field) string {
	misplaced := func() bool {
		return slices.ContainsFunc(c.keys(), func(key string) bool { return key[1+strings.LastIndexByte(key, '.'):] == name })
	}
	if c.doc.Hint != nil && (table || !misplaced()) {
		if says := c.doc.Hint(name); says != "" {
			return says
		}
	}
	var here []string
	for _, f := range all {
		here = append(here, f.name)
	}
	if n := Near(name, here); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	const few = 8 // names, which are read at a glance
	there := "there are " + strings.Join(here, ", ")
	switch n := c.elsewhere(name); {
	case n == "":
		return there
	case len(here) <= few:
		return fmt.Sprintf("%s; or did you mean %q?", there, n)
	default:
		return fmt.Sprintf("did you mean %q?", n)
	}
}

// elsewhere is the first key of another table that ends with a name, or with one that begins alike and differs in a
// quarter of the letters: among that many keys any word is near to some.
func (c *decoder) elsewhere(name string) string {
	keys := c.keys()
	var last []string // parts
	for _, k := range keys {
		last = append(last, k[1+strings.LastIndexByte(k, '.'):])
	}
	i := slices.Index(last, name)
	if i < 0 {
		alike := slices.DeleteFunc(slices.Clone(last), func(other string) bool { return name == "" || other[0] != name[0] })
		i = slices.Index(last, nearest(name, alike, len(name)/4))
	}
	if i < 0 {
		return ""
	}
	return keys[i]
}

// value fills a field from an entry.
func (c *decoder) value(e *entry, f field, key string, into reflect.Value) {
	v := e.value
	if v.kind == nothing {
		return
	}
	switch f.typ.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(f.typ.Elem())
		begin(fresh)
		if !into.IsNil() {
			fresh.Elem().Set(into.Elem())
		}
		into.Set(fresh)
		f.typ = f.typ.Elem()
		c.value(e, f, key, fresh.Elem())
	case reflect.Struct:
		if v.kind != aTable {
			hint := fmt.Sprintf("write [%s] on a line of its own, and its keys below", key)
			if v.isAppended() {
				hint = fmt.Sprintf("write [%s]: there is only one", key)
			}
			c.wrongType(e, key, "a table", hint)
			return
		}
		c.table(v.table, e.key, key, into)
	case reflect.Slice, reflect.Array:
		c.list(e, f, key, into)
	case reflect.Map:
		c.mapping(e, f, key, into)
	default:
		c.scalar(e, f, key, into)
	}
}

func begin(pointer reflect.Value) {
	if s, ok := pointer.Interface().(setDefaults); ok {
		s.SetDefaults()
	}
}

// list fills a slice or an array.
func (c *decoder) list(e *entry, f field, key string, into reflect.Value) {
	v := e.value
	one := f
	one.typ = f.typ.Elem()
	if v.kind != aList && v.kind != aTable && f.single {
		into.Set(reflect.MakeSlice(f.typ, 1, 1))
		c.value(e, one, key, into.Index(0))
		return
	}
	if v.kind != aList {
		hint := ""
		if one.typ.Kind() == reflect.Struct {
			hint = fmt.Sprintf("write [[%s]]: there may be several", key)
		}
		c.wrongType(e, key, "a list", hint)
		return
	}
	switch n := len(v.items); {
	case f.required && n == 0:
		c.wrong(e, key, "must not be empty", "")
		return
	case f.typ.Kind() == reflect.Array && n != f.typ.Len():
		c.wrong(e, key, fmt.Sprintf("must have %d elements, has %d", f.typ.Len(), n), "")
		return
	case n == 0:
		into.SetZero()
	case f.typ.Kind() == reflect.Slice:
		into.Set(reflect.MakeSlice(f.typ, n, n))
	}
	for i := range v.items {
		item := into.Index(i)
		begin(item.Addr())
		c.value(element(e, i), one, fmt.Sprintf("%s[%d]", key, i), item)
	}
}

// mapping fills a map from names to scalars.
func (c *decoder) mapping(e *entry, f field, key string, into reflect.Value) {
	if e.value.kind != aTable {
		c.wrongType(e, key, "a table", "")
		return
	}
	into.Set(reflect.MakeMap(f.typ))
	f.typ = f.typ.Elem()
	for _, inner := range e.value.table.entries {
		v := reflect.New(f.typ).Elem()
		c.value(inner, f, join(key, inner.name), v)
		into.SetMapIndex(reflect.ValueOf(inner.name), v)
	}
}

func (c *decoder) wrong(e *entry, key, problem, hint string) {
	c.doc.add(e.value.span, key, fmt.Sprintf("%q %s", key, problem), hint)
}

func (c *decoder) wrongType(e *entry, key, want, hint string) {
	at := e.value.span
	if e.value.kind == aTable && e.value.table.how != inline || e.value.isAppended() {
		at = e.key
	}
	is := e.value.kind.String()
	if e.value.isAppended() {
		is = "a list of tables"
	}
	c.doc.add(at, key, fmt.Sprintf("%q must be %s, not %s", key, want, is), hint)
}

func (c *decoder) scalar(e *entry, f field, key string, into reflect.Value) {
	v := e.value
	switch kind := into.Kind(); kind {
	case reflect.String:
		c.text(e, f, key, into)
	case reflect.Bool:
		if v.kind != aBool {
			c.wrongType(e, key, "true or false", "")
			return
		}
		into.SetBool(v.truth)
	case reflect.Int, reflect.Int64, reflect.Uint64:
		if v.kind != anInteger {
			hint := ""
			if v.kind == aFloat && v.real == math.Trunc(v.real) && math.Abs(v.real) < 1<<53 {
				hint = fmt.Sprintf("write %d", int64(v.real))
			}
			c.wrongType(e, key, "an integer", hint)
			return
		}
		if kind == reflect.Uint64 && v.whole < 0 {
			c.wrong(e, key, "must be at least 0, is "+v.raw, "")
			return
		}
		if problem := f.limits.wrong(v.real, v.raw); problem != "" {
			c.wrong(e, key, problem, "")
			return
		}
		if kind == reflect.Uint64 {
			into.SetUint(uint64(v.whole))
			return
		}
		if into.OverflowInt(v.whole) {
			c.wrong(e, key, v.raw+" is too large", "")
			return
		}
		into.SetInt(v.whole)
	case reflect.Float64:
		if v.kind != aFloat && v.kind != anInteger {
			c.wrongType(e, key, "a number", "")
			return
		}
		if problem := f.limits.wrong(v.real, v.raw); problem != "" {
			c.wrong(e, key, problem, "")
			return
		}
		into.SetFloat(v.real)
	default:
		panic(fmt.Sprintf("config: %s: a %s cannot be configured", key, into.Type()))
	}
}

// text fills a string. On a command line 7 may be meant as one.
func (c *decoder) text(e *entry, f field, key string, into reflect.Value) {
	v := e.value
	text := v.text
	if v.kind != aString {
		if !c.doc.sources[v.source].set || v.raw == "" {
			c.wrongType(e, key, "a string", "")
			return
		}
		text = v.raw
	}
	if f.required && strings.TrimSpace(text) == "" {
		c.wrong(e, key, "must not be empty", "")
		return
	}
	if len(f.enum) > 0 {
		if problem, hint := oneOf(text, f.enum); problem != "" {
			c.wrong(e, key, problem, hint)
			return
		}
	}
	into.SetString(text)
}

// oneOf reports a text that is not among some names.
func oneOf(text string, names []string) (problem, hint string) {
	if slices.Contains(names, text) {
		return "", ""
	}
	if n := Near(text, names); n != "" {
		hint = fmt.Sprintf("did you mean %q?", n)
	}
	var quoted []string
	for _, n := range names {
		quoted = append(quoted, fmt.Sprintf("%q", n))
	}
	return fmt.Sprintf("must be one of %s, is %q", strings.Join(quoted, ", "), text), hint
}

// Filled is the decoded value, or else the defaults.
func Filled[T any, P interface {
	*T
	SetDefaults()
}](written *T) T {
	if written != nil {
		return *written
	}
	var v T
	P(&v).SetDefaults()
	return v
}
