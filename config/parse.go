package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// maxParts bounds the parts of a key, and maxDepth how deep values may nest.
const (
	maxParts = 16
	maxDepth = 16
)

// A parser makes a tree of a text. go-toml's parser knows the syntax; this one keeps positions, and TOML's rules
// about writing a table twice. After a syntax error it goes on at the next line that looks like a key or a header.
type parser struct {
	doc    *Document
	source int
	text   []byte

	p    unstable.Parser
	base int    // offset of p's text
	into *table // of the last header; nil if that was wrong: its keys are nobody's
	path string // of into
	last span   // of the last error of syntax
}

func (r *parser) all() {
	r.into = r.doc.root
	for {
		r.p.Reset(r.text[r.base:])
		for r.p.NextExpression() {
			r.expression(r.p.Expression())
		}
		if r.p.Error() == nil {
			return
		}
		next := r.resume(r.syntax(r.p.Error()))
		if next < 0 || len(r.doc.mistakes) > mostTold {
			return
		}
		r.base = next
	}
}

// begins matches a line on which a new expression begins.
var begins = regexp.MustCompile(`(?m)^[ \t]*([A-Za-z0-9_-]+([ \t]*\.[ \t]*[A-Za-z0-9_-]+)*[ \t]*=|\[\[?[ \t]*[A-Za-z_][A-Za-z0-9_.-]*[ \t]*\]\]?[ \t\r]*(#.*)?$)`)

// resume is where to go on after a mistake, -1 if there is no such place: at the line
// of the mistake if an expression may begin there that the one before ran into, else
// behind it. The keys below a header that is wrong are nobody's.
func (r *parser) resume(at span) int {
	line := 1 + bytes.LastIndexByte(r.text[:at.at], '\n')
	if found := begins.FindIndex(r.text[line:]); line > r.base && line+indent(r.text[line:]) == at.at && found != nil && found[0] == 0 {
		return line
	}
	if start := line + indent(r.text[line:]); start < len(r.text) && r.text[start] == '[' {
		r.into = nil
	}
	newline := bytes.IndexByte(r.text[at.at:], '\n')
	if newline < 0 {
		return -1
	}
	start := at.at + newline + 1
	found := begins.FindIndex(r.text[start:])
	if found == nil {
		return -1
	}
	return start + found[0]
}

func indent(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " \t")) }

// syntax reports an error of go-toml's parser.
func (r *parser) syntax(err error) span {
	r.doc.broken = true
	at := span{r.source, len(r.text), len(r.text)}
	var where *unstable.ParserError
	if errors.As(err, &where) {
		raw := r.p.Range(where.Highlight)
		at.at = min(r.base+int(raw.Offset), len(r.text))
		at.to = min(at.at+int(raw.Length), len(r.text))
	}
	if at != r.last { // else it was tried once more, from its line
		problem, hint := explain(err.Error(), r.text[at.at:])
		r.doc.add(at, "", problem, hint)
		r.last = at
	}
	return at
}

// explain adds a helpful hint to an error of syntax.
func explain(problem string, rest []byte) (string, string) {
	switch {
	case strings.Contains(problem, "at start of value") && len(rest) > 0 && (rest[0] == '\n' || rest[0] == '\r' || rest[0] == '#'):
		return "a value is missing", ""
	case strings.Contains(problem, "at start of value") && len(rest) > 0 && rest[0] == '.':
		return "this is not a value", "numbers have a digit before the point: 0.5"
	case strings.Contains(problem, "at start of value"), strings.HasPrefix(problem, "expected keyword"):
		return "this is not a value", "strings are written in quotation marks"
	case strings.Contains(problem, "'=' after key"):
		return problem, "a line is key = value, or [table]"
	case strings.Contains(problem, "expected newline"):
		return "nothing may follow here", "write each key on a line of its own; comments begin with #"
	case strings.Contains(problem, "array is incomplete"):
		return problem, "a list ends with ]"
	}
	return problem, ""
}

// expression takes a header or a key with its value.
func (r *parser) expression(n *unstable.Node) {
	keys := r.keys(n)
	switch {
	case len(keys) > maxParts:
		r.doc.add(keys[maxParts].key, "", fmt.Sprintf("a key has at most %d parts, this one %d", maxParts, len(keys)), "")
		if n.Kind != unstable.KeyValue {
			r.into = nil
		}
	case n.Kind == unstable.Table:
		r.into, r.path = r.header(keys), names(keys)
	case n.Kind == unstable.ArrayTable:
		r.into, r.path = r.listHeader(keys), names(keys)
	case n.Kind == unstable.KeyValue && r.into != nil:
		r.assign(r.into, r.path, keys, n, 0)
	}
}

// keys are the parts of a key, each an entry with a name and a place.
func (r *parser) keys(n *unstable.Node) []entry {
	var all []entry
	for it := n.Key(); it.Next(); {
		all = append(all, entry{name: string(it.Node().Data), key: r.span(it.Node().Raw)})
	}
	return all
}

func (r *parser) span(raw unstable.Range) span {
	at := r.base + int(raw.Offset)
	return span{r.source, at, at + int(raw.Length)}
}

// assign puts the value of a KeyValue into a table, whose path is for messages.
func (r *parser) assign(t *table, path string, keys []entry, n *unstable.Node, depth int) (end int) {
	last := len(keys) - 1
	start := r.base + int(n.Raw.Offset)
	equals := keys[last].key.to
	equals += bytes.IndexByte(r.text[equals:], '=') + 1
	v := r.value(n.Value(), join(path, names(keys)), r.filler(equals), depth+1)
	end = start + int(n.Raw.Length)
	for i := range keys[:last] {
		if t = r.dotted(t, path, keys[:i+1]); t == nil {
			return end
		}
	}
	if old := t.byName[keys[last].name]; old != nil {
		r.twiceIn(path, keys, old)
		return end
	}
	t.put(&entry{keys[last].name, keys[last].key, v})
	return end
}

// filler skips blanks and comments between values.
func (r *parser) filler(at int) int {
	for at < len(r.text) {
		switch r.text[at] {
		case ' ', '\t', '\r', '\n', ',':
			at++
		case '#':
			newline := bytes.IndexByte(r.text[at:], '\n')
			if newline < 0 {
				return len(r.text)
			}
			at += newline
		default:
			return at
		}
	}
	return at
}

// value makes a value of a node that begins at an offset.
func (r *parser) value(n *unstable.Node, path string, at, depth int) *value {
	v := &value{span: span{r.source, at, at + 1}}
	if depth > maxDepth {
		r.doc.add(v.span, "", fmt.Sprintf("values nest at most %d deep", maxDepth), "")
		return v
	}
	switch n.Kind {
	case unstable.Array:
		v.kind, v.to = aList, at+1
		for it := n.Children(); it.Next(); {
			item := r.value(it.Node(), path, r.filler(v.to), depth+1)
			v.items, v.to = append(v.items, item), item.to
			if item.kind == nothing {
				v.kind = nothing
			}
		}
		v.to = min(r.filler(v.to)+1, len(r.text))
	case unstable.InlineTable:
		v.kind, v.table, v.to = aTable, newTable(inline), at+1
		for it := n.Children(); it.Next(); {
			v.to = r.assign(v.table, path, r.keys(it.Node()), it.Node(), depth)
		}
		v.to = min(r.filler(v.to)+1, len(r.text))
		closed(v.table)
	default:
		v.span = r.span(n.Raw)
		v.raw = string(r.text[v.at:v.to])
		if problem, hint := v.scalar(n); problem != "" {
			r.doc.add(v.span, "", problem, hint)
			v.kind = nothing
		}
	}
	return v
}

// closed marks the tables made by dots inside an inline table: nothing may be added.
func closed(t *table) {
	for _, e := range t.entries {
		if sub := e.value.table; sub != nil && sub.how == byDots {
			sub.how = inline
			closed(sub)
		}
	}
}

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

// scalar fills a value from a node that is neither list nor table, and returns its mistake.
func (v *value) scalar(n *unstable.Node) (problem, hint string) {
	switch n.Kind {
	case unstable.String:
		v.kind, v.text = aString, string(n.Data)
		if strings.ContainsRune(v.text, 0) {
			return "a string may not hold a NUL character", ""
		}
	case unstable.Bool:
		v.kind, v.truth = aBool, n.Data[0] == 't'
	case unstable.Integer:
		v.kind = anInteger
		return v.integer()
	case unstable.Float:
		v.kind = aFloat
		var err error
		if v.real = math.NaN(); !strings.HasSuffix(v.raw, "nan") {
			v.real, err = strconv.ParseFloat(strings.ReplaceAll(v.raw, "_", ""), 64)
		}
		switch {
		case errors.Is(err, strconv.ErrRange):
			return "this number is too large", "inf is infinity"
		case err != nil:
			return "this is not a number", ""
		}
	default:
		v.kind = aDate
	}
	return "", ""
}

func (v *value) integer() (problem, hint string) {
	var err error
	v.whole, err = strconv.ParseInt(strings.ReplaceAll(strings.TrimPrefix(v.raw, "+"), "_", ""), base(v.raw), 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "this integer has more than 64 bits", ""
	case err != nil:
		return "this is not a number", ""
	}
	v.real = float64(v.whole)
	return "", ""
}

// base 0 reads a prefix such as 0x.
func base(raw string) int {
	if len(raw) > 1 && raw[0] == '0' {
		return 0
	}
	return 10
}
