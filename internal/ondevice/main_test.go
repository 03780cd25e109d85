package main

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/assets"
)

// TestSent: the repository and the largest bundle travel to a device together.
func TestSent(t *testing.T) {
	t.Chdir("../..")
	if _, err := os.Stat(".git"); err != nil {
		t.Skip("this is no clone, so there are no tracked files to count")
	}
	tree, err := travels()
	if err != nil {
		t.Fatal(err)
	}
	if tree < 10<<20 || tree+mostBundle > mostSent {
		t.Errorf("the repository has %.1f MiB, and a bundle of %d beside it is more than %d", mib(tree), mostBundle>>20, mostSent>>20)
	}
}

// TestOverlay: each program is a package with a function Main, and the one program starts all of them.
func TestOverlay(t *testing.T) {
	t.Chdir("../..")
	list, err := overlaid(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	var read struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	mains := map[string]int{}
	for to, from := range read.Replace {
		f, err := parser.ParseFile(token.NewFileSet(), from, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(to))
		if want := map[bool]string{true: "main", false: name}[filepath.Base(to) == "main.go" && name == "ondevice"]; f.Name.Name != want {
			t.Errorf("%s is of package %s, not %s", to, f.Name.Name, want)
		}
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && (f.Name.Name == "Main" || f.Name.Name == "main") {
				mains[name+"."+f.Name.Name]++
			}
		}
	}
	for name := range programs {
		if mains[name+".Main"] != 1 || mains[name+".main"] != 0 {
			t.Errorf("program %s: %v", name, mains)
		}
	}
	if mains["ondevice.main"] != 1 {
		t.Errorf("the one program: %v", mains)
	}
}

// TestMockClips: single steps of clips start on the folder that the script takes where MOCK=1.
func TestMockClips(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the script is bash's")
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "steps"), "../realsteps").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := assets.Resolve("embed:tiny-wan"); err != nil { // which the script has inspect do
		t.Fatal(err)
	}
	for name, text := range map[string]string{"realsteps": `shift 2; exec "${0%/*}/steps" --device cpu "$@"`, "darkroom": "exit 0"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("run.sh")
	if err != nil {
		t.Fatal(err)
	}
	text := "set -u; mock=1 bin=$1; step() { shift 2; \"$@\"; }; drawn() { :; }\n"
	for _, part := range []string{`(?s)\nfolder\(\) \{.*?\n\}\n`, `(?s)\ntimed\(\) \{.*?\n\}\n`, `\n\t\ttimed wan.*\n`} {
		text += string(regexp.MustCompile(part).Find(script))
	}
	out, err := exec.Command("bash", "-c", text, "run.sh", bin).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(`"decoding"`)) || strings.Count(text, "timed") < 2 {
		t.Errorf("%v\n%s\n%s", err, text, out)
	}
}
