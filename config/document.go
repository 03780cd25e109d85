package config

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxSize is the largest text that is read, in bytes.
const MaxSize = 1 << 20

// A Document is a TOML text, the settings over it, and the mistakes found until now.
type Document struct {
	sources  []source // the file, then each --set
	root     *table
	mistakes []Mistake
	broken   bool // does not parse: a missing key may be in the unreadable part
	fragment bool // nothing in it is required

	// Hint is the remedy for an unknown name that no key here is called like; "", and nil: the nearest key is named.
	Hint func(name string) string
}

// Name is that of the file.
func (d *Document) Name() string { return d.sources[0].name }

// A source is a text that values come from.
type source struct {
	name string
	text []byte
	set  bool // on the command line
}

// Parse reads a text. Err returns its mistakes.
func Parse(name string, text []byte) *Document {
	d := &Document{root: newTable(byHeader)}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	d.sources = []source{{name: name, text: text}}
	if problem, at := unreadable(text); problem != "" {
		d.sources[0].text = text[:min(len(text), MaxSize)]
		d.broken = true
		d.add(span{0, at, at}, "", problem, "the file must be plain text in UTF-8")
		return d
	}
	p := parser{doc: d, text: text}
	p.all()
	return d
}

// ParseFragment is Parse of a part of a document, of which no key is required.
func ParseFragment(name string, text []byte) *Document {
	d := Parse(name, text)
	d.fragment = true
	return d
}

// unreadable returns the reason why a text is not UTF-8, and the place.
func unreadable(text []byte) (problem string, at int) {
	if len(text) > MaxSize {
		return fmt.Sprintf("the file has %d bytes; at most %d are read", len(text), MaxSize), 0
	}
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return "a NUL byte", i
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return fmt.Sprintf("the byte 0x%02x is not UTF-8", text[i]), i
		}
		i += n
	}
	return "", 0
}

// Err is all mistakes so far in the order of their positions, or nil.
func (d *Document) Err() error {
	if len(d.mistakes) == 0 {
		return nil
	}
	all := slices.Clone(d.mistakes)
	slices.SortStableFunc(all, func(a, b Mistake) int {
		return cmp.Or(a.at.source-b.at.source, a.at.at-b.at.at)
	})
	for i := range all[:min(len(all), mostTold)] {
		d.locate(&all[i])
	}
	return Mistakes(all)
}

// Report adds a mistake found by the owner of a key, unless the value at this key is wrong already. The message names
// the place of the key's value, else the closest table around it.
func (d *Document) Report(key, problem, hint string) {
	if !d.Clean(key) {
		return
	}
	d.add(d.find(key), key, fmt.Sprintf("%q: %s", key, problem), hint)
}

// Clean reports whether there is no mistake at a key, nor below it. A text that
// could not be parsed is clean nowhere.
func (d *Document) Clean(key string) bool {
	return !d.broken && !slices.ContainsFunc(d.mistakes, func(m Mistake) bool { return key == "" || within(m.key, key) })
}

func within(key, table string) bool {
	rest, ok := strings.CutPrefix(key, table)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// find is the span of the value at a key, or of the closest part around it.
func (d *Document) find(key string) span {
	for ; key != ""; key = parent(key) {
		if e := d.root.lookup(key); e != nil {
			if e.value.kind == aTable || e.value.kind == aList && e.value.span == (span{}) {
				return e.key
			}
			return e.value.span
		}
	}
	return span{}
}

// parent is a key without its last part: "a.b" of "a.b.c", "a" of "a[3]".
func parent(key string) string {
	return key[:max(0, strings.LastIndexAny(key, ".["))]
}

// Origin is the source of a value.
type Origin int

const (
	Absent Origin = iota
	File
	CommandLine
)

// Origin says whether a key is written, and where.
func (d *Document) Origin(key string) Origin {
	e := d.root.lookup(key)
	switch {
	case e == nil:
		return Absent
	case d.sources[e.value.source].set:
		return CommandLine
	}
	return File
}

// Text is the string at a key, "" without one. It is for keys that must be known before the rest can be decoded.
func (d *Document) Text(key string) string {
	if e := d.root.lookup(key); e != nil && e.value.kind == aString {
		return e.value.text
	}
	return ""
}

// Len is the number of elements of the list at a key.
func (d *Document) Len(key string) int {
	if e := d.root.lookup(key); e != nil {
		return len(e.value.items)
	}
	return 0
}

// add appends a mistake at a span.
func (d *Document) add(at span, key, problem, hint string) {
	d.mistakes = append(d.mistakes, Mistake{Problem: brief(problem), Hint: hint, at: at, key: key})
}

// Set takes a command line's a.b=v. v is a TOML value; a string that cannot be mistaken for another value may go
// without its quotation marks. Elements of lists go by number: reward.0.weight=2.
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
