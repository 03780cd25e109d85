package darkroom_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/internal/anchors"
)

// Tests of the repository's pages: their links lead somewhere, the stops of docs/one-prompt.md
// exist, and the program still has the messages of docs/troubleshooting.md (messages_test.go).

func TestLinks(t *testing.T) {
	broken, links := brokenLinks(os.DirFS("."))
	for _, b := range broken {
		t.Error(b)
	}
	if links < 45 {
		t.Errorf("only %d links were read: the walk is broken", links)
	}
}

var (
	link    = regexp.MustCompile(`\[[^\]\n]*\]\(([^)\s]+)\)`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	spans   = regexp.MustCompile("`[^`\n]+`")
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
)

// brokenLinks reads every page outside testdata, and says which links to files or headings lead nowhere. Links to
// the web are not followed.
func brokenLinks(root fs.FS) (broken []string, links int) {
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (name == "testdata" || file == "internal/golden" || name == "runs" || name == "models" || strings.ContainsAny(name[:1], "._")):
			return fs.SkipDir
		case d.IsDir() || path.Ext(file) != ".md":
			return nil
		}
		text, err := page(root, file)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(spans.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			if why := nowhere(root, file, m[1]); why != "" {
				broken = append(broken, fmt.Sprintf("%s: the link %s %s", file, m[1], why))
			}
		}
		return nil
	})
	if err != nil {
		broken = append(broken, err.Error())
	}
	return broken, links
}

// page is a page without its listings.
func page(root fs.FS, file string) (string, error) {
	text, err := fs.ReadFile(root, file)
	return fenced.ReplaceAllString(strings.ReplaceAll(string(text), "\r\n", "\n"), ""), err
}

// nowhere says why a link of a page leads nowhere; "": it does not.
func nowhere(root fs.FS, from, to string) string {
	file, anchor, _ := strings.Cut(to, "#")
	if file = path.Join(path.Dir(from), file); strings.HasPrefix(to, "#") {
		file = from
	}
	if _, err := fs.Stat(root, file); err != nil {
		return "leads to no file"
	}
	if anchor == "" || path.Ext(file) != ".md" {
		return ""
	}
	text, err := page(root, file)
	if err != nil {
		return err.Error()
	}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		if anchors.Of(m[1]) == anchor {
			return ""
		}
	}
	return "leads to no heading of " + file
}

// TestLinesFit: prose has lines of at most 120 letters, on every page but LOG and CHANGELOG and in comments of Go. Rows
// of tables and listings are as long as they are.
func TestLinesFit(t *testing.T) {
	pages, sources := 0, 0
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, d fs.DirEntry, err error) error {
		var lines []string
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (name == "testdata" || file == "internal/golden" || name == "runs" || name == "models" || strings.ContainsAny(name[:1], "._")):
			return fs.SkipDir
		case file == "LOG.md" || file == "CHANGELOG.md": // records
		case path.Ext(file) == ".md":
			var text string
			text, err = page(os.DirFS("."), file)
			lines = long(text, "")
			pages++
		case path.Ext(file) == ".go":
			var text []byte
			text, err = os.ReadFile(file)
			lines = long(string(text), "//")
			sources++
		}
		for _, line := range lines {
			t.Errorf("%s: a line of %d letters: %.60s...", file, utf8.RuneCountInString(line), line)
		}
		return err
	})
	if err != nil || pages < 15 || sources < 1000 {
		t.Errorf("%d pages and %d sources were read: %v", pages, sources, err)
	}
	e, x := strings.Repeat("é", 121), strings.Repeat("x", 200)
	if n := len(long(e+"\n| "+x+"\n"+e[2:], "")); n != 1 {
		t.Errorf("%d lines are long, not 1", n)
	}
	if n := len(long("\t// "+x+"\n"+x+" // x\n//go:"+x, "//")); n != 1 {
		t.Errorf("%d comments are long, not 1", n)
	}
}

// TestArchitectureIsShort: a newcomer reads ARCHITECTURE.md whole, so it has at most 20 kB.
func TestArchitectureIsShort(t *testing.T) {
	if text, err := os.ReadFile("ARCHITECTURE.md"); err != nil || len(text) > 20_000 {
		t.Errorf("%d bytes of at most 20,000: %v; what is generated or belongs to one room goes to docs or its doc.go", len(text), err)
	}
}

// long are the lines of prose that are too long, and begin with a mark.
func long(text, mark string) (lines []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		begins := strings.TrimLeft(line, "\t")
		if strings.HasPrefix(begins, mark) && !strings.HasPrefix(begins, "|") && !strings.HasPrefix(begins, "//go:") && utf8.RuneCountInString(line) > 120 {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestLinksFails(t *testing.T) {
	tree := fstest.MapFS{
		"a.md":        {Data: []byte("# A heading, `quoted`\n[b](docs/b.md) [b](docs/b.md#the-end) [here](#a-heading-quoted) [web](https://x.y/z)\n")},
		"docs/b.md":   {Data: []byte("[a](../a.md) [no](c.md) [no](../a.md#nothing)\n## The end\n```\n[code](no.md)\n```\n`[code](no.md)`\n")},
		"x/testdata":  {Mode: fs.ModeDir},
		"_old/old.md": {Data: []byte("[no](no.md)")},
	}
	broken, links := brokenLinks(tree)
	if links != 6 || len(broken) != 2 || !strings.Contains(broken[0], "c.md") || !strings.Contains(broken[1], "#nothing") {
		t.Errorf("%d links, %q", links, broken)
	}
}

// A place is a file and a declaration in it: `sde/flowsde.go`, `FlowSDE` or `Row.LogProb`.
var stop = regexp.MustCompile("`([a-z0-9_/]+\\.go)`,\\s+`([A-Za-z.]+)`")

func TestOnePrompt(t *testing.T) {
	text, err := os.ReadFile("docs/one-prompt.md")
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 12; n++ {
		if !strings.Contains(string(text), fmt.Sprintf("\n## %d. ", n)) {
			t.Errorf("docs/one-prompt.md has no stop %d", n)
		}
	}
	if n := len(stop.FindAllString(string(text), -1)); n < 24 {
		t.Errorf("docs/one-prompt.md names %d places", n)
	}
}

// TestPlaces: the places of docs/one-prompt.md, and the tests of docs/faults.md, are where these pages say.
func TestPlaces(t *testing.T) {
	for _, page := range []string{"docs/one-prompt.md", "docs/faults.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stop.FindAllStringSubmatch(string(text), -1) {
			if err := declares(s[1], s[2]); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if declares("sde/flowsde.go", "FlowODE") == nil || declares("sde/nothing.go", "FlowSDE") == nil || declares("sde/density.go", "Row.Nothing") == nil {
		t.Error("what is not there is found")
	}
}

// TestAdding: the files that docs/adding.md names exist. A short name is the end of a path; {a,b} are two names.
func TestAdding(t *testing.T) {
	text, err := os.ReadFile("docs/adding.md")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	err = fs.WalkDir(os.DirFS("."), ".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (file == "runs" || file == ".git") {
			return fs.SkipDir
		}
		files = append(files, "/"+file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	missing, named := missingFiles(string(text), files)
	if named < 60 || missing != nil {
		t.Errorf("docs/adding.md names %d files, of which these do not exist: %q", named, missing)
	}
	if missing, named := missingFiles("`sde/{row,rod}.go` `row.go` `dummy.go` `nothing.md` `sde.Row`", []string{"/sde/row.go"}); named != 4 || !slices.Equal(missing, []string{"sde/rod.go", "nothing.md"}) {
		t.Errorf("%d, %q", named, missing)
	}
}

var (
	fileName = regexp.MustCompile("`([a-zA-Z0-9_/.{},]+\\.(?:go|md|py|js|txtar|toml|h))`")
	braces   = regexp.MustCompile(`^(.*)\{(.*)\}(.*)$`)
)

// missingFiles returns the names of files in a page that no path ends with, and the number of names. A file that a
// reader would write is called dummy or NAME.
func missingFiles(page string, files []string) (missing []string, named int) {
	for _, m := range fileName.FindAllStringSubmatch(page, -1) {
		names := []string{m[1]}
		if b := braces.FindStringSubmatch(m[1]); b != nil {
			names = nil
			for part := range strings.SplitSeq(b[2], ",") {
				names = append(names, b[1]+part+b[3])
			}
		}
		for _, name := range names {
			if strings.Contains(name, "dummy") || strings.Contains(name, "NAME") {
				continue
			}
			named++
			if !slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, "/"+name) }) {
				missing = append(missing, name)
			}
		}
	}
	return missing, named
}

// declares is an error where a file does not declare a function, a type, or a method (Type.Method).
func declares(file, symbol string) error {
	syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if receiver(d)+d.Name.Name == symbol {
				return nil
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok && s.Name.Name == symbol {
					return nil
				}
			}
		}
	}
	return fmt.Errorf("%s declares no %s", file, symbol)
}

// receiver returns the prefix of a method's name: its type and a point.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "."
	}
	return "?."
}

// named are a package and a test of it in docs/excluded.md.
var named = regexp.MustCompile("`([a-z/]+)` `(Test[A-Za-z0-9]+)`(?:, `(Test[A-Za-z0-9]+)`)?")

// TestExcluded: the tests that docs/excluded.md names exist where it says.
func TestExcluded(t *testing.T) {
	text, err := os.ReadFile("docs/excluded.md")
	if err != nil {
		t.Fatal(err)
	}
	found := named.FindAllStringSubmatch(string(text), -1)
	if len(found) < 8 {
		t.Errorf("only %d tests were read", len(found))
	}
	for _, m := range found {
		files, err := fs.Glob(os.DirFS(m[1]), "*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		var code strings.Builder
		for _, f := range files {
			text, err := os.ReadFile(path.Join(m[1], f))
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
		for _, name := range m[2:] {
			if name != "" && !strings.Contains(code.String(), "func "+name+"(") {
				t.Errorf("docs/excluded.md: %s has no %s", m[1], name)
			}
		}
	}
}
