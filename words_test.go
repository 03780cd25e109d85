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
	for _, dir := range []string{"cmd/darkroom", "data", "diffusion", "docs", "deploy", "README.md", "ARCHITECTURE.md", "assets", "kernels", "outside", "record", "rewards", "sde", "trainer", "video", "view", "vision"} {
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

// gone are names that were replaced by the field's (docs/words.md): no identifier of the tree has them again.
var gone = map[string]string{
	"Mover": "Optimizer", "NewMover": "NewOptimizer", "MoverData": "WanData", "MoverVAE": "WanVAE", "MoverModel": "WanModel", "DefaultMover": "DefaultWan",
	"Way": "GradientPath", "Leg": "Segment", "Studio": "Executor", "Shelf": "FolderBlobs", "looker": "jsonLines",
	"Abreast": "PrefillTokens",
}

// belongings are comments "X is Y's.", which say that X implements Y; rooms lists those that still have some.
var (
	belongings = regexp.MustCompile(`(?m)^\s*// \w+ is [a-z]+\.[A-Z]\w+'s\.$`)
	rooms      = []string{"trainer/run", "trainer/model", "diffusion/pipeline", "kernels/cuda"}
)

// TestGoneWords: see gone and belongings.
func TestGoneWords(t *testing.T) {
	read := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || file == "runs" || file == ".git"):
			return fs.SkipDir
		case path.Ext(file) != ".go":
			return nil
		}
		read++
		text, err := os.ReadFile(file)
		for _, name := range names(string(text)) {
			if field := gone[name]; field != "" {
				t.Errorf("%s: the name %s; the field's is %s", file, name, field)
			}
		}
		if found := belongings.FindString(string(text)); found != "" && !slices.ContainsFunc(rooms, func(room string) bool { return strings.HasPrefix(file, room+"/") }) {
			t.Errorf("%s: %q; plain is: X implements Y", file, strings.TrimSpace(found))
		}
		return err
	})
	if err != nil || read < 1000 {
		t.Fatalf("%d files were read: %v", read, err)
	}
}

// names are the identifiers of a Go file.
func names(source string) (all []string) {
	var s scanner.Scanner
	set := token.NewFileSet()
	s.Init(set.AddFile("", set.Base(), len(source)), []byte(source), nil, 0)
	for {
		switch _, kind, text := s.Scan(); kind {
		case token.EOF:
			return all
		case token.IDENT:
			all = append(all, text)
		}
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
	if l := names("package p // Mover\nvar x = \"Mover\" + Studio.Way"); !slices.Equal(l, []string{"p", "x", "Studio", "Way"}) {
		t.Errorf("%q", l)
	}
	if l := literals("package p // \"a comment\"\nvar x = \"a text\" + `another`\n"); len(l) != 2 || l[1] != "`another`" {
		t.Errorf("%q", l)
	}
}
