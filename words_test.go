package darkroom_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// odd are words that a reader has to read twice, where plain ones exist. What users read has none of them: strings of
// the program, README.md, ARCHITECTURE.md, docs and deploy; nor has a package's doc.go.
var odd = map[string]*regexp.Regexp{
	"gets, sees, is an input":      regexp.MustCompile(`\b(is|are|be|was|were) told\b`),
	"receives, falls silent":       regexp.MustCompile(`\b(hears?|heard)\b`),
	"this many, a number":          regexp.MustCompile(`\bso many\b`),
	"to be gamed":                  regexp.MustCompile(`\b(win it|be won)\b`),
	"to think with images":         regexp.MustCompile(`\blooks? again\b`),
	"anyone who":                   regexp.MustCompile(`\bwhoever\b`),
	"predicts, memorised, ignored": regexp.MustCompile(`\b(foretells?|foretold|by heart|passed over)\b`),
	"is, has, needs":               regexp.MustCompile(`\bstands?\b($| [^fis]| f[^o]| i[^n]| s[^t])`), // "stands for" and "stands in" are plain
	"mock":                         regexp.MustCompile(`\bdoubles? of (the|a) (driver|device)`),
}

// TestWords: see odd.
func TestWords(t *testing.T) {
	root, read := os.DirFS("."), 0
	for _, dir := range []string{"cmd/darkroom", "diffusion", "docs", "deploy", "README.md", "ARCHITECTURE.md", "assets", "kernels", "outside", "rewards", "sde", "trainer", "video", "vision"} {
		err := fs.WalkDir(root, dir, func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "testdata" || d.Name() == "gen") {
				return fs.SkipDir
			}
			text := func() string { data, e := fs.ReadFile(root, file); err = e; return string(data) }
			var texts []string
			switch {
			case path.Ext(file) == ".md":
				texts = strings.Split(text(), "\n")
			case path.Base(file) == "doc.go":
				texts = strings.Split(text(), "\n")
			case path.Ext(file) == ".go" && !strings.HasSuffix(file, "_test.go"):
				texts = literals(text())
			}
			for _, s := range texts {
				if why := oddIn(s); why != "" {
					t.Errorf("%s: %s", file, why)
				}
			}
			read += len(texts)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 10000 {
		t.Errorf("only %d texts were read: the walk is broken", read)
	}
}

// stems are quicker to look for.
var stems = []string{"told", "hear", "so many", "win it", "be won", "again", "whoever", "foret", "by heart", "passed over", "stand", "double"}

// oddIn says which word of a text is odd, and what is plain; "": none is.
func oddIn(text string) string {
	if !slices.ContainsFunc(stems, func(stem string) bool { return strings.Contains(text, stem) }) {
		return ""
	}
	for plain, word := range odd {
		if found := word.FindString(text); found != "" {
			return fmt.Sprintf("%q in %.80q; plain is: %s", found, text, plain)
		}
	}
	return ""
}

// literals are the strings of a Go file.
func literals(source string) (all []string) {
	var s scanner.Scanner
	set := token.NewFileSet()
	s.Init(set.AddFile("", set.Base(), len(source)), []byte(source), nil, 0)
	for {
		switch _, kind, text := s.Scan(); kind {
		case token.EOF:
			return all
		case token.STRING:
			all = append(all, text)
		}
	}
}

func TestWordsFails(t *testing.T) {
	for text, fine := range map[string]bool{
		"noise and cuts win it": false, "the model is told so": false, "where the window stands": false, "it stands alone": false,
		"a token that stands for a picture": true, "a mock stands in for it": true, "a clip that stands still": true, "it wins items": true,
	} {
		if (oddIn(text) == "") != fine {
			t.Errorf("%q: %q", text, oddIn(text))
		}
	}
	if l := literals("package p // \"a comment\"\nvar x = \"a text\" + `another`\n"); len(l) != 2 || l[1] != "`another`" {
		t.Errorf("%q", l)
	}
}
