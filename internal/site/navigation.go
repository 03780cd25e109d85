package main

import (
	"errors"
	"fmt"
	"html/template"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A group is a row of README's table "Pages".
type group struct {
	Title string
	Links []entry
}

// entry is a page in the navigation.
type entry struct{ Title, source string }

var (
	row      = regexp.MustCompile(`(?m)^\| ([a-z ]+) \| (\[.*) \|$`)
	linkText = regexp.MustCompile(`\[([^\]]+)\]\(([^)#]+)\)`)
)

// groups reads the navigation from README.md: a page of docs that it lacks is an error, or no reader would find it.
func (s *site) groups() ([]group, error) {
	text, err := s.readme()
	if err != nil {
		return nil, err
	}
	groups := []group{{"", []entry{{"Darkroom", "README.md"}}}}
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		g := group{Title: m[1]}
		for _, l := range linkText.FindAllStringSubmatch(m[2], -1) {
			g.Links = append(g.Links, entry{strings.ToUpper(l[1][:1]) + l[1][1:], path.Clean(l[2])})
		}
		groups = append(groups, g)
	}
	var missing []string
	for _, p := range s.pages {
		if path.Dir(p.source) == "docs" && path.Ext(p.source) == ".md" && !slices.ContainsFunc(groups, func(g group) bool { return g.has(p.source) }) {
			missing = append(missing, p.source)
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("README.md, Pages: no link leads to %s", strings.Join(missing, ", "))
	}
	return groups, nil
}

func (s *site) readme() (string, error) {
	for _, p := range s.pages {
		if p.source == "README.md" {
			_, section, found := strings.Cut(p.markdown, "\n## Pages\n")
			if !found {
				return "", errors.New("README.md has no section Pages")
			}
			section, _, _ = strings.Cut(section, "\n## ")
			return section, nil
		}
	}
	return "", errors.New("there is no README.md")
}

func (g group) has(source string) bool {
	return slices.ContainsFunc(g.Links, func(e entry) bool { return e.source == source })
}

// view is a page for its template.
type view struct {
	Title, Source, Root string
	Body                template.HTML
	Groups              []viewGroup
	Before, After       *viewLink
}

type viewGroup struct {
	Title string
	Links []viewLink
}

type viewLink struct {
	Title, To string
	Here      bool
	Parts     []heading // of the page that is shown: its headings of the second level
}

func (p *page) view(groups []group) view {
	v := view{Title: p.title, Source: p.source, Root: strings.Repeat("../", strings.Count(p.name(), "/")), Body: p.body}
	var order []viewLink
	here := -1
	for _, g := range groups {
		shown := viewGroup{Title: g.Title}
		for _, e := range g.Links {
			l := viewLink{Title: e.Title, To: relative(p.name(), nameOf(e.source)), Here: e.source == p.source}
			if l.Here {
				here = len(order)
				for _, h := range p.headings {
					if h.level == 2 {
						l.Parts = append(l.Parts, h)
					}
				}
			}
			shown.Links, order = append(shown.Links, l), append(order, l)
		}
		v.Groups = append(v.Groups, shown)
	}
	if here > 0 {
		v.Before = &order[here-1]
	}
	if here >= 0 && here+1 < len(order) {
		v.After = &order[here+1]
	}
	return v
}

// relative is a link between two files of the site.
func relative(from, to string) string {
	a, b := strings.Split(path.Dir(from), "/"), strings.Split(to, "/")
	if path.Dir(from) == "." {
		a = nil
	}
	for len(a) > 0 && len(b) > 1 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	return strings.Repeat("../", len(a)) + strings.Join(b, "/")
}
