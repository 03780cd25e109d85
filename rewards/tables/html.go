package tables

import (
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: tables as lxml reads them (libxml2's parser of HTML): names of tags are letters, digits and -_:. and become
// lower case; a cell ends the cell before it, a row the row, a body the row and its cells; the end of an element ends
// those within it, unless one of them is of a higher rank; other ends are ignored. No body is put around rows.

// A Node is an element of a table. A cell (td) has its text and the tags within as tokens, and no children.
type Node struct {
	Tag              string
	ColSpan, RowSpan int // of a cell
	Cell             []string
	Children         []*Node
}

// Size is the number of nodes.
func (n *Node) Size() int {
	size := 1
	for _, c := range n.Children {
		size += c.Size()
	}
	return size
}

// mostNodes bounds a table: the distance takes time by the product of two sizes.
const mostNodes = 4000

// element is one of the text, while it is read.
type element struct {
	tag      string
	attrs    map[string]string
	parts    []any // string: text; *element
	children []*element
}

// ranks are those of elements over which the end of a lower one does not reach; the others have 100.
var ranks = map[string]int{"div": 150, "td": 160, "th": 160, "tr": 170, "thead": 180, "tbody": 180, "tfoot": 180, "table": 190, "head": 200, "body": 200, "html": 220}

func rank(tag string) int {
	if r, ok := ranks[tag]; ok {
		return r
	}
	return 100
}

// ends are the elements that a start ends, the innermost first.
func ends(open, starts string) bool {
	section := slices.Contains([]string{"tbody", "tfoot"}, starts)
	switch open {
	case "td", "th":
		return section || slices.Contains([]string{"td", "th", "tr"}, starts)
	case "tr":
		return section || starts == "tr"
	case "thead", "tbody":
		return section
	case "tfoot":
		return starts == "tbody"
	case "caption":
		return section || slices.Contains([]string{"col", "colgroup", "thead", "tr"}, starts)
	case "li", "option":
		return starts == open
	case "p":
		return section || slices.Contains([]string{"caption", "div", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "ol", "p", "pre", "table", "td", "th", "tr", "ul"}, starts)
	}
	return false
}

// void elements have no content.
var void = []string{"area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param"}

// Parse is the first table of a text; nil without one. Without cells, text is left out.
func Parse(text string, cells bool) (*Node, error) {
	root := &element{tag: "body"}
	stack := []*element{root}
	top := func() *element { return stack[len(stack)-1] }
	count := 0
	for text != "" {
		at := strings.IndexByte(text, '<')
		if at < 0 {
			at = len(text)
		}
		if at > 0 {
			top().parts = append(top().parts, html.UnescapeString(text[:at]))
			text = text[at:]
			continue
		}
		if strings.HasPrefix(text, "<!--") {
			_, text, _ = strings.Cut(text[4:], "-->")
			continue
		}
		rest := text[1:]
		closing := strings.HasPrefix(rest, "/")
		rest = strings.TrimPrefix(rest, "/")
		name := rest[:len(rest)-len(strings.TrimLeftFunc(rest, inName))]
		if name == "" || !letter(rune(name[0])) {
			top().parts = append(top().parts, text[:1])
			text = text[1:]
			continue
		}
		tag := strings.ToLower(name)
		attrs, empty, rest := attributes(rest[len(name):])
		text = rest
		if tag == "html" || tag == "body" || tag == "head" {
			continue
		}
		if closing {
			for i := len(stack) - 1; i > 0; i-- {
				if stack[i].tag == tag {
					stack = stack[:i]
					break
				}
				if rank(stack[i].tag) > rank(tag) {
					break
				}
			}
			continue
		}
		for len(stack) > 1 && ends(top().tag, tag) {
			stack = stack[:len(stack)-1]
		}
		if count++; count > mostNodes {
			return nil, fmt.Errorf("a table of more than %d elements", mostNodes)
		}
		e := &element{tag: tag, attrs: attrs}
		top().parts, top().children = append(top().parts, e), append(top().children, e)
		if !empty && !slices.Contains(void, tag) && len(stack) < 200 {
			stack = append(stack, e)
		}
	}
	for _, e := range root.children {
		if e.tag == "table" {
			return e.node(cells)
		}
	}
	return nil, nil
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

func inName(r rune) bool {
	return letter(r) || r >= '0' && r <= '9' || strings.ContainsRune("-_:.", r) || r >= utf8.RuneSelf
}

// attributes reads up to the end of a tag.
func attributes(text string) (attrs map[string]string, empty bool, rest string) {
	attrs = map[string]string{}
	for text != "" {
		text = strings.TrimLeftFunc(text, pytext.Space)
		switch {
		case strings.HasPrefix(text, ">"):
			return attrs, empty, text[1:]
		case strings.HasPrefix(text, "/"):
			empty, text = strings.HasPrefix(text, "/>"), text[1:]
			continue
		}
		name := text[:len(text)-len(strings.TrimLeftFunc(text, inName))]
		text = text[len(name):]
		if name == "" { // no attribute
			_, size := utf8.DecodeRuneInString(text)
			if size == 0 {
				break
			}
			if text[0] == '"' || text[0] == '\'' {
				if at := strings.IndexByte(text[1:], text[0]); at >= 0 {
					size = at + 2
				}
			}
			text = text[size:]
			continue
		}
		value := ""
		if after := strings.TrimLeftFunc(text, pytext.Space); strings.HasPrefix(after, "=") {
			text = strings.TrimLeftFunc(after[1:], pytext.Space)
			if text != "" && (text[0] == '"' || text[0] == '\'') {
				quote := text[:1]
				value, text, _ = strings.Cut(text[1:], quote)
			} else {
				at := strings.IndexFunc(text, func(r rune) bool { return pytext.Space(r) || r == '>' })
				if at < 0 {
					at = len(text)
				}
				value, text = text[:at], text[at:]
			}
		}
		if _, ok := attrs[strings.ToLower(name)]; !ok {
			attrs[strings.ToLower(name)] = html.UnescapeString(value)
		}
	}
	return attrs, empty, ""
}

// node is the tree of an element.
func (e *element) node(cells bool) (*Node, error) {
	n := &Node{Tag: e.tag}
	if e.tag == "td" {
		for key, to := range map[string]*int{"colspan": &n.ColSpan, "rowspan": &n.RowSpan} {
			*to = 1
			if text, ok := e.attrs[key]; ok {
				v, err := strconv.Atoi(pytext.Strip(text))
				if err != nil {
					return nil, fmt.Errorf("%s of a cell is %q", key, text)
				}
				*to = v
			}
		}
		if cells {
			tokens := e.tokens(nil)
			n.Cell = tokens[1 : len(tokens)-1]
		}
		return n, nil
	}
	for _, c := range e.children {
		child, err := c.node(cells)
		if err != nil {
			return nil, err
		}
		n.Children = append(n.Children, child)
	}
	return n, nil
}

// tokens are the tags and the characters of an element. Text behind a cell within a cell is left out, as upstream
// does.
func (e *element) tokens(list []string) []string {
	list = append(list, "<"+e.tag+">")
	after := ""
	for _, p := range e.parts {
		switch p := p.(type) {
		case string:
			if after != "td" {
				for _, r := range p {
					list = append(list, string(r))
				}
			}
		case *element:
			list, after = p.tokens(list), p.tag
		}
	}
	if e.tag != "unk" {
		list = append(list, "</"+e.tag+">")
	}
	return list
}
