package config

import (
	"fmt"
	"reflect"
	"strings"
)

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

// Keys lists the keys below a struct, tables before what they hold. A list of tables without elements and a
// pointer that is nil are described by an element as its SetDefaults leaves it, without an index.
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

// kindOf is what a field's value is.
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
