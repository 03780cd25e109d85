package config

import (
	"strconv"
	"strings"
)

// A span is where something is written: bytes from at to to of a source.
type span struct{ source, at, to int }

// kind is the kind of a value.
type kind int

const (
	nothing kind = iota // a mistake that was reported
	aString
	anInteger
	aFloat
	aBool
	aDate
	aList
	aTable
)

func (k kind) String() string {
	return [...]string{"nothing", "a string", "an integer", "a number", "a boolean", "a date", "a list", "a table"}[k]
}

// A value is one of a document's.
type value struct {
	kind kind
	span
	raw   string // as written, of scalars
	text  string // of a string
	whole int64
	real  float64
	truth bool
	items []*value // of a list
	table *table
}

// A definition is the way in which a table was opened, which decides where keys may be added to it.
type definition int

const (
	implied  definition = iota // by a header of a table below it
	byHeader                   // [a]
	byDots                     // a.b = 1
	inline                     // a = {b = 1}
	appended                   // [[a]]
)

// A table is names and values in the order of the text.
type table struct {
	how     definition
	entries []*entry
	byName  map[string]*entry
}

// An entry is a value under a name.
type entry struct {
	name  string
	key   span // of the last part of the key
	value *value
}

func newTable(how definition) *table {
	return &table{how: how, byName: map[string]*entry{}}
}

// put adds an entry, or replaces the one that has its name.
func (t *table) put(e *entry) {
	if old := t.byName[e.name]; old != nil {
		*old = *e
		return
	}
	t.entries = append(t.entries, e)
	t.byName[e.name] = e
}

// lookup finds an entry by a path such as "reward[1].weight"; nil without one.
func (t *table) lookup(path string) *entry {
	var e *entry
	for part := range strings.SplitSeq(path, ".") {
		name, index, indexed := strings.Cut(part, "[")
		if t == nil || t.byName[name] == nil {
			return nil
		}
		e = t.byName[name]
		if indexed {
			i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
			if err != nil || i < 0 || i >= len(e.value.items) {
				return nil
			}
			e = element(e, i)
		}
		t = e.value.table
	}
	return e
}

// element is entry i of a list. A table of [[a]] knows its own header.
func element(e *entry, i int) *entry {
	item := e.value.items[i]
	key := e.key
	if item.table != nil && item.table.how == appended {
		key = item.span
	}
	return &entry{name: e.name, key: key, value: item}
}
