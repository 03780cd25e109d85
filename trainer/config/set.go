package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Set takes what a command line gives as a.b=v. v is a TOML value; a string that
// cannot be mistaken for another value may go without its quotation marks. Elements
// of lists go by number: reward.0.weight=2.
func (d *Document) Set(assignment string) {
	src := len(d.sources)
	d.sources = append(d.sources, source{name: "--set", text: []byte(assignment), set: true})
	text := []byte(assignment)
	everything := span{src, 0, len(text)}
	if problem, at := unreadable(text); problem != "" || strings.ContainsRune(assignment, '\n') {
		d.add(span{src, at, at}, "", "an override is one line of text in UTF-8", "")
		return
	}
	path, rest, ok := strings.Cut(assignment, "=")
	if !ok || strings.TrimSpace(path) == "" {
		d.add(everything, "", "an override is KEY=VALUE", "for example --set optim.lr=1e-4")
		return
	}
	aside := &Document{root: newTable(byHeader), sources: d.sources}
	p := parser{doc: aside, source: src, text: text}
	p.all()
	var v *value
	if !aside.broken && len(aside.mistakes) == 0 {
		v = only(aside.root)
	} else if bare := strings.TrimSpace(rest); bare != "" && !strings.ContainsAny(bare[:1], `"'[{`) {
		v = &value{kind: aString, span: span{src, len(path) + 1, len(text)}, raw: bare, text: bare}
	}
	switch {
	case v != nil:
		d.override(path, span{src, 0, len(path)}, v)
	case len(aside.mistakes) > 0:
		d.mistakes = append(d.mistakes, aside.mistakes...)
	default: // a comment, a header
		d.add(everything, "", "an override is KEY=VALUE", "for example --set optim.lr=1e-4")
	}
}

// Cut leaves the first n elements of the list at a key.
func (d *Document) Cut(key string, n int) {
	if e := d.root.lookup(key); e != nil && n < len(e.value.items) {
		e.value.items = e.value.items[:n]
	}
}

// only is the value at the end of a chain of tables that hold one entry each, nil
// if the chain ends with nothing.
func only(t *table) *value {
	for len(t.entries) > 0 {
		v := t.entries[0].value
		if v.table == nil || v.table.how == inline {
			return v
		}
		t = v.table
	}
	return nil
}

// override puts a value at a dotted path, making the tables on the way.
func (d *Document) override(path string, at span, v *value) {
	t := d.root
	parts := strings.Split(path, ".")
	for i := 0; i < len(parts); i++ {
		name := strings.TrimSpace(parts[i])
		e := t.byName[name]
		if i == len(parts)-1 {
			t.put(&entry{name, at, v})
			return
		}
		if e == nil {
			e = &entry{name, at, &value{kind: aTable, span: at, table: newTable(byHeader)}}
			t.put(e)
		}
		next := e.value.table
		if e.value.kind == aList {
			i++
			n, err := strconv.Atoi(strings.TrimSpace(parts[i]))
			if err != nil || n < 0 || n >= len(e.value.items) {
				d.add(at, "", fmt.Sprintf("%q is a list of %d; %q is none of its elements", name, len(e.value.items), parts[i]), "the first element is 0")
				return
			}
			if i == len(parts)-1 {
				e.value.items[n] = v
				return
			}
			next = e.value.items[n].table
		}
		if next == nil {
			d.add(at, "", fmt.Sprintf("%q is no table: nothing can be set in it", strings.Join(parts[:i+1], ".")), "")
			return
		}
		t = next
	}
}
