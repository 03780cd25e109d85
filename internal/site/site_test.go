package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/darkroom-rl/darkroom/internal/rigs/browsertest"
)

// written is a page's file as a browser reads it.
type written struct {
	ids           []string
	loads, leadTo []string // scripts, styles and pictures; links
}

func readPage(t *testing.T, file string) (w written) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := xml.NewDecoder(f)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return w
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		e, is := token.(xml.StartElement)
		if !is {
			continue
		}
		for _, a := range e.Attr {
			switch {
			case a.Name.Local == "id":
				w.ids = append(w.ids, a.Value)
			case a.Name.Local == "src" || a.Name.Local == "href" && e.Name.Local == "link":
				w.loads = append(w.loads, a.Value)
			case a.Name.Local == "href":
				w.leadTo = append(w.leadTo, a.Value)
			case a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on"):
				t.Errorf("%s: %s has %s", file, e.Name.Local, a.Name.Local)
			}
		}
	}
}

// TestSite: on the pages as they are written, every link and anchor leads somewhere, no anchor is there twice, and
// nothing is loaded from elsewhere.
func TestSite(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	n, err := write("../..", out)
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]written{}
	err = filepath.WalkDir(out, func(file string, d os.DirEntry, err error) error {
		if path.Ext(file) == ".html" {
			name, _ := filepath.Rel(out, file)
			pages[filepath.ToSlash(name)] = readPage(t, file)
		}
		return err
	})
	if err != nil || len(pages) != n || n < 30 {
		t.Fatalf("%d pages of %d: %v", len(pages), n, err)
	}
	links, anchors, loaded := 0, 0, 0
	for name, p := range pages {
		ids := slices.Sorted(slices.Values(p.ids))
		if len(slices.Compact(ids)) != len(p.ids) {
			t.Errorf("%s: an anchor is there twice: %q", name, p.ids)
		}
		for _, to := range slices.Concat(p.loads, p.leadTo) {
			u, err := url.Parse(to)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if u.IsAbs() {
				if u.Scheme != "data" && slices.Contains(p.loads, to) {
					t.Errorf("%s loads %s", name, to)
				}
				continue
			}
			links++
			end := name
			if u.Path != "" {
				end = path.Join(path.Dir(name), u.Path)
			}
			if _, err := os.Stat(filepath.Join(out, end)); err != nil {
				t.Errorf("%s: %s: %v", name, to, err)
			}
			if u.Fragment != "" {
				anchors++
				if !slices.Contains(pages[end].ids, u.Fragment) {
					t.Errorf("%s: %s has no anchor %s", name, end, u.Fragment)
				}
			}
		}
		loaded += len(p.loads)
	}
	if links < 1000 || anchors < 300 || loaded < 100 {
		t.Errorf("%d links, %d of them to anchors, %d loaded: the pages were not read", links, anchors, loaded)
	}
	for _, file := range []string{"style.css", "page.js"} {
		if text, err := os.ReadFile(filepath.Join(out, file)); err != nil || strings.Contains(string(text), "//") && strings.Contains(string(text), "http") {
			t.Errorf("%s names an address: %v", file, err)
		}
	}
}

// TestSearch: a word is found where it is, and a page that is longer than the limit by its headings alone.
func TestSearch(t *testing.T) {
	s, err := read(repository(map[string]string{
		"docs/a.md":   "# First\n\nOf `model.home` and\nGrünkohl.\n\n## Second\n\n| key | for |\n|---|---|\n| `loss.kl` | drift |\n\n```\ndarkroom bench gemm\n```\n",
		"docs/log.md": "# Log\n\n## Headings\n\n" + strings.Repeat("hidden words\n", longest/12),
	}))
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.index()
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Sections [][]any
		Words    map[string][]int
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(string(text), "const index = ")), &index); err != nil {
		t.Fatal(err)
	}
	sections := func(word string) (titles []any) {
		at := 0
		for _, d := range index.Words[word] {
			at += d
			titles = append(titles, index.Sections[at][2])
		}
		return titles
	}
	for word, want := range map[string][]any{"grünkohl": {"First"}, "home": {"First"}, "drift": {"Second"}, "gemm": {"Second"}, "headings": {"Headings"}, "hidden": nil, "first": {"First", "Second"}} {
		if got := sections(word); !slices.Equal(got, want) {
			t.Errorf("%s is in %v, not in %v", word, got, want)
		}
	}
}

// repository is one of these files and a README.md whose navigation has every page of docs.
func repository(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	var names []string
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
		names = append(names, "["+path.Base(name)+"]("+name+")")
	}
	if root["README.md"] == nil {
		root["README.md"] = &fstest.MapFile{Data: []byte("# Us\n\n## Pages\n\n| begin | " + strings.Join(names, " · ") + " |\n")}
	}
	return root
}

// TestBroken: a link that leads nowhere is an error with its place, as is a page that the navigation lacks, and a
// folder with other files stays as it is.
func TestBroken(t *testing.T) {
	for why, files := range map[string]map[string]string{
		"docs/a.md: b.md leads to no file":            {"docs/a.md": "[b](b.md)\n"},
		"docs/a.md: no.png leads to no file":          {"docs/a.md": "![b](no.png)\n"},
		"docs/a.md: docs/b.md has no heading #second": {"docs/a.md": "[b](b.md#second)\n", "docs/b.md": "# First\n"},
		"docs/a.md: docs/a.md has no heading #x":      {"docs/a.md": "[b](#x)\n"},
	} {
		if _, err := read(repository(files)); err == nil || err.Error() != why {
			t.Errorf("%v, not %s", err, why)
		}
	}
	s, err := read(repository(map[string]string{"README.md": "# Us\n\n## Pages\n\n| begin | [us](README.md) |\n", "docs/a.md": "# A\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.groups(); err == nil || !strings.Contains(err.Error(), "docs/a.md") {
		t.Errorf("a page without a link: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := removeEarlier(dir); err == nil || !strings.Contains(err.Error(), "hint:") {
		t.Errorf("a folder of other files: %v", err)
	}
	for name, text := range map[string]string{"search.js": "const index = 1;\n", "page.js": ""} { // of another program
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeEarlier(dir); err == nil {
		t.Error("a folder with another program's search.js was removed")
	}
	index, err := s.index()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "search.js"), index, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := removeEarlier(dir); err != nil {
		t.Errorf("an earlier site: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("an earlier site was left")
	}
}

// TestRelative: links between pages of several depths.
func TestRelative(t *testing.T) {
	for _, c := range [][3]string{{"index.html", "docs/a.html", "docs/a.html"}, {"docs/a.html", "docs/b.html", "b.html"}, {"docs/a.html", "index.html", "../index.html"},
		{"kernels/cuda/doc.go.html", "kernels/cpu/doc.go.html", "../cpu/doc.go.html"}, {"deploy/index.html", "docs/fleet.html", "../docs/fleet.html"}} {
		if got := relative(c[0], c[1]); got != c[2] {
			t.Errorf("%s from %s is %s, not %s", c[1], c[0], got, c[2])
		}
	}
}

var shots = flag.String("shots", "", "a folder for pictures of the pages")

// TestSiteInBrowser: no page is wider than the window of a phone, nor README's in other sizes and schemes; the search
// finds a known word and leads to it, the switch changes the scheme and keeps it, and each listing has a button that
// copies.
func TestSiteInBrowser(t *testing.T) {
	b := browsertest.Start(t)
	out := filepath.Join(t.TempDir(), "site")
	if _, err := write("../..", out); err != nil {
		t.Fatal(err)
	}
	open := func(name string) {
		b.Open("file://" + filepath.Join(out, name))
		b.Until(`document.readyState === "complete" && document.title !== "" && location.pathname.endsWith("/`+name+`")`, 20*time.Second)
	}
	pages, err := filepath.Glob(filepath.Join(out, "docs", "*.html"))
	if err != nil {
		t.Fatal(err)
	}
	pages = append([]string{filepath.Join(out, "index.html"), filepath.Join(out, "kernels/cuda/doc.go.html")}, pages...)
	for _, size := range []struct {
		name          string
		width, height int
		dark          bool
		pages         []string
	}{{"light-390", 390, 844, false, pages}, {"dark-390", 390, 844, true, pages[:1]}, {"light-1400", 1400, 900, false, pages[:1]}, {"dark-1400", 1400, 900, true, pages[:1]}} {
		b.Size(size.width, size.height, size.width < 700, size.dark)
		for _, page := range size.pages {
			name, _ := filepath.Rel(out, page)
			open(filepath.ToSlash(name))
			var wide float64
			if b.Eval("document.documentElement.scrollWidth", &wide); wide > float64(size.width) {
				t.Errorf("%s: %s is %v wide", size.name, name, wide)
			}
			b.Shot(*shots, strings.ReplaceAll(strings.TrimSuffix(name, ".html"), "/", "-")+"-"+size.name, 3000)
		}
	}
	b.Size(1400, 900, false, false)
	open("docs/gpu.html")
	b.Eval(`(() => { const i = document.querySelector(".search input"); i.focus(); i.value = "cublaslt forces"; i.dispatchEvent(new Event("input")); })()`, nil)
	b.Until(`[...document.querySelectorAll(".search li a")].some((a) => a.href.endsWith("docs/environment.html#kernels"))`, 10*time.Second)
	b.View(*shots, "search")
	b.Eval(`[...document.querySelectorAll(".search li a")].find((a) => a.href.endsWith("docs/environment.html#kernels")).click()`, nil)
	b.Until(`location.href.endsWith("docs/environment.html#kernels") && document.readyState === "complete"`, 10*time.Second)
	back := "getComputedStyle(document.body).backgroundColor"
	var light, dark, kept string
	b.Eval(back, &light)
	b.Eval(`document.querySelector(".scheme").click()`, nil)
	b.Eval(back, &dark)
	open("docs/config.html")
	if b.Eval(back, &kept); light == dark || kept != dark {
		t.Errorf("the switch: %s, then %s, and %s on another page", light, dark, kept)
	}
	open("docs/quickstart.html")
	var buttons, listings int
	b.Eval(`document.querySelectorAll("main pre button").length`, &buttons)
	if b.Eval(`document.querySelectorAll("main pre").length`, &listings); buttons == 0 || buttons != listings {
		t.Errorf("%d buttons for %d listings", buttons, listings)
	}
	if m := b.Messages(); len(m) > 0 {
		t.Errorf("the console says %s", m)
	}
}
