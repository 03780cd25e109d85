package main

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"io/fs"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	renderer "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"

	"github.com/darkroom-rl/darkroom/internal/anchors"
)

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithRendererOptions(renderer.WithXHTML()))

// render makes a page of a file: of Markdown, or of a source as one listing.
func (s *site) render(source string, data []byte) *page {
	p := &page{source: source, title: source, markdown: string(data)}
	if path.Ext(source) != ".md" {
		p.body = template.HTML("<h1>" + html.EscapeString(source) + "</h1>\n<pre><code>" + html.EscapeString(string(data)) + "</code></pre>\n")
		p.headings = []heading{{"", source, 1}}
		p.sections = []section{{Title: source}}
		return p
	}
	tree := markdown.Parser().Parse(text.NewReader(data))
	ids := map[string]int{}
	_ = ast.Walk(tree, func(n ast.Node, enters bool) (ast.WalkStatus, error) { // its only errors are the function's
		if !enters {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			title := wordsOf(n, data)
			h := heading{anchor(title, ids), title, n.Level}
			n.SetAttributeString("id", []byte(h.ID))
			p.headings = append(p.headings, h)
			p.sections = append(p.sections, section{ID: h.ID, Title: title})
			if n.Level == 1 && p.title == source {
				p.title = title
			}
			link := ast.NewLink()
			link.Destination = []byte("#" + h.ID)
			link.SetAttributeString("class", []byte("anchor"))
			link.SetAttributeString("aria-label", []byte("link to this heading"))
			link.AppendChild(link, ast.NewString([]byte("#")))
			n.AppendChild(n, link)
			return ast.WalkSkipChildren, nil
		case *ast.Link:
			n.Destination = []byte(s.resolve(p, string(n.Destination)))
		case *ast.Image:
			n.Destination = []byte(s.resolve(p, string(n.Destination)))
		}
		if n.Type() == ast.TypeBlock && !n.HasChildren() || isBlockOfText(n) {
			p.say(wordsOf(n, data))
		}
		return ast.WalkContinue, nil
	})
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, data, tree); err != nil {
		s.broken = append(s.broken, fmt.Sprintf("%s: %v", source, err))
	}
	wide := strings.NewReplacer("<table>", `<div class="wide" tabindex="0"><table>`, "</table>", "</table></div>") // text has no bare <
	p.body = template.HTML(wide.Replace(out.String()))
	return p
}

// isBlockOfText reports whether a block's text is its own: a paragraph, a cell, a line of a list.
func isBlockOfText(n ast.Node) bool {
	return n.Type() == ast.TypeBlock && n.FirstChild() != nil && n.FirstChild().Type() == ast.TypeInline
}

// say adds a text to the section that a page is in.
func (p *page) say(text string) {
	if len(p.sections) == 0 {
		p.sections = []section{{Title: p.title}}
	}
	last := &p.sections[len(p.sections)-1]
	last.text += text + " "
}

// resolve is a link's end on the site. An end that is not there is broken.
func (s *site) resolve(p *page, to string) string {
	if strings.Contains(to, "://") {
		return to
	}
	file, anchor, _ := strings.Cut(to, "#")
	if file == "" {
		p.links = append(p.links, target{p.source, anchor})
		return to
	}
	end := path.Join(path.Dir(p.source), file)
	info, err := fs.Stat(s.root, end)
	if err == nil && info.IsDir() {
		end = path.Join(end, "README.md")
		_, err = fs.Stat(s.root, end)
	}
	if err != nil {
		s.broken = append(s.broken, fmt.Sprintf("%s: %s leads to no file", p.source, to))
		return to
	}
	p.links = append(p.links, target{end, anchor})
	at := relative(p.name(), nameOf(end))
	if anchor != "" {
		at += "#" + anchor
	}
	return at
}

// wordsOf is the text of a node without its marks.
func wordsOf(n ast.Node, data []byte) string {
	var b strings.Builder
	if n.Type() == ast.TypeBlock && !n.HasChildren() {
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			b.Write(line.Value(data))
		}
		return b.String()
	}
	_ = ast.Walk(n, func(n ast.Node, enters bool) (ast.WalkStatus, error) {
		if t, is := n.(*ast.Text); is && enters {
			b.Write(t.Segment.Value(data))
			if t.SoftLineBreak() || t.HardLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// anchor is the name of a heading; a second one of the same words has -1 behind it.
func anchor(title string, ids map[string]int) string {
	id := anchors.Of(title)
	n := ids[id]
	ids[id]++
	if n > 0 {
		return fmt.Sprintf("%s-%d", id, n)
	}
	return id
}
