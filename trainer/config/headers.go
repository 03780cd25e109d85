package config

import (
	"fmt"
	"strings"
)

// TOML's rules about tables. A table is written once: by one header, or by dots
// below one header, or inline. Headers of tables below it may come before or after.

// header is [a.b]: the table to fill, or nil where it may not be written.
func (r *parser) header(keys []entry) *table {
	t := r.above(keys)
	if t == nil {
		return nil
	}
	last := keys[len(keys)-1]
	old := t.byName[last.name]
	if old == nil {
		return r.open(t, last, byHeader)
	}
	if old.value.table == nil || old.value.table.how != implied {
		r.twice(keys, old)
		return nil
	}
	old.value.table.how, old.key = byHeader, last.key
	return old.value.table
}

// listHeader is [[a.b]]: one more table of a list.
func (r *parser) listHeader(keys []entry) *table {
	t := r.above(keys)
	if t == nil {
		return nil
	}
	last := keys[len(keys)-1]
	old := t.byName[last.name]
	if old == nil {
		// Without a span of its own: such a list is written in many places.
		old = &entry{last.name, last.key, &value{kind: aList}}
		old.value.source = r.source
		t.put(old)
	} else if old.value.kind != aList || len(old.value.items) == 0 || !old.value.isAppended() {
		r.twice(keys, old)
		return nil
	}
	item := &value{kind: aTable, span: last.key, table: newTable(appended)}
	old.value.items = append(old.value.items, item)
	return item.table
}

// isAppended reports whether a list was made by [[a]].
func (v *value) isAppended() bool {
	return len(v.items) > 0 && v.items[0].table != nil && v.items[0].table.how == appended
}

// above walks to the table that a header's last part belongs to.
func (r *parser) above(keys []entry) *table {
	t := r.doc.root
	for i, k := range keys[:len(keys)-1] {
		old := t.byName[k.name]
		switch {
		case old == nil:
			t = r.open(t, k, implied)
		case old.value.isAppended():
			t = old.value.items[len(old.value.items)-1].table
		case old.value.table != nil && old.value.table.how != inline:
			t = old.value.table
		default:
			r.twice(keys[:i+1], old)
			return nil
		}
	}
	return t
}

// dotted is the table a of a.b = 1.
func (r *parser) dotted(t *table, path string, keys []entry) *table {
	last := keys[len(keys)-1]
	old := t.byName[last.name]
	switch {
	case old == nil:
		return r.open(t, last, byDots)
	case old.value.table != nil && old.value.table.how == byDots:
		return old.value.table
	}
	r.twiceIn(path, keys, old)
	return nil
}

func (r *parser) open(t *table, k entry, how definition) *table {
	v := &value{kind: aTable, span: k.key, table: newTable(how)}
	t.put(&entry{k.name, k.key, v})
	return v.table
}

// twice reports that a key is written, though it is there already.
func (r *parser) twice(keys []entry, old *entry) { r.twiceIn("", keys, old) }

// twiceIn is twice in a table.
func (r *parser) twiceIn(table string, keys []entry, old *entry) {
	last, name := keys[len(keys)-1], join(table, names(keys))
	what := "key"
	if old.value.kind == aTable || old.value.isAppended() {
		what = "table"
	}
	r.doc.add(last.key, name, fmt.Sprintf("the %s %q is written twice", what, name), "")
	r.doc.mistakes[len(r.doc.mistakes)-1].first = &old.key
}

func names(keys []entry) string {
	var all []string
	for _, k := range keys {
		all = append(all, k.name)
	}
	return strings.Join(all, ".")
}
