package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed page.html
var pageHTML string

//go:embed style.css
var style []byte

//go:embed page.js
var script []byte

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// site is a repository's pages and pictures.
type site struct {
	root     fs.FS
	pages    []*page // README.md first, each behind a page that links to it
	pictures map[string]bool
	broken   []string
}

// page is a file of the repository as a page.
type page struct {
	source   string // docs/gpu.md
	markdown string
	title    string
	body     template.HTML
	headings []heading
	sections []section
	links    []target
}

type heading struct {
	ID, Title string
	level     int
}

// target is a link's end in the repository.
type target struct{ file, anchor string }

// name is a page's file below the site's folder.
func (p *page) name() string { return nameOf(p.source) }

func nameOf(source string) string {
	switch {
	case path.Base(source) == "README.md":
		return path.Join(path.Dir(source), "index.html")
	case path.Ext(source) == ".md":
		return strings.TrimSuffix(source, ".md") + ".html"
	case isPicture(source):
		return source
	}
	return source + ".html"
}

func isPicture(file string) bool {
	return slices.Contains([]string{".png", ".svg", ".jpg", ".webp"}, path.Ext(file))
}

// read follows the links of README.md and docs.
func read(root fs.FS) (*site, error) {
	s := &site{root: root, pictures: map[string]bool{}}
	docs, err := fs.Glob(root, "docs/*.md")
	if err != nil {
		return nil, err
	}
	queue := append([]string{"README.md"}, docs...)
	seen := map[string]*page{}
	for len(queue) > 0 {
		source := queue[0]
		queue = queue[1:]
		if seen[source] != nil || s.pictures[source] {
			continue
		}
		if isPicture(source) {
			s.pictures[source] = true
			continue
		}
		text, err := fs.ReadFile(root, source)
		if err != nil {
			return nil, err
		}
		p := s.render(source, bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
		s.pages, seen[source] = append(s.pages, p), p
		for _, l := range p.links {
			queue = append(queue, l.file)
		}
	}
	for _, p := range s.pages {
		for _, l := range p.links {
			if to := seen[l.file]; l.anchor != "" && (to == nil || !slices.ContainsFunc(to.headings, func(h heading) bool { return h.ID == l.anchor })) {
				s.broken = append(s.broken, fmt.Sprintf("%s: %s has no heading #%s", p.source, l.file, l.anchor))
			}
		}
	}
	if s.broken != nil {
		return nil, errors.New(strings.Join(s.broken, "\n"))
	}
	return s, nil
}

// write writes the site of a repository, and returns its number of pages.
func write(repository, out string) (int, error) {
	s, err := read(os.DirFS(repository))
	if err != nil {
		return 0, err
	}
	groups, err := s.groups()
	if err != nil {
		return 0, err
	}
	if err := removeEarlier(out); err != nil {
		return 0, err
	}
	index, err := s.index()
	if err != nil {
		return 0, err
	}
	files := map[string][]byte{"style.css": style, "page.js": script, "search.js": index}
	for picture := range s.pictures {
		if files[picture], err = fs.ReadFile(s.root, picture); err != nil {
			return 0, err
		}
	}
	for _, p := range s.pages {
		var html bytes.Buffer
		if err := pageTemplate.Execute(&html, p.view(groups)); err != nil {
			return 0, err
		}
		files[p.name()] = html.Bytes()
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return 0, err
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return 0, err
		}
	}
	return len(s.pages), nil
}

// removeEarlier removes an earlier site, and nothing else: it is known by its search's file and its script.
func removeEarlier(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	index, _ := os.ReadFile(filepath.Join(out, "search.js"))
	if _, err := os.Stat(filepath.Join(out, "page.js")); err != nil || !bytes.HasPrefix(index, []byte(indexBegins+`{"pages":`)) {
		return fmt.Errorf("%s has files, and is not a site of an earlier call\nhint: -out names a new folder", out)
	}
	return os.RemoveAll(out)
}
