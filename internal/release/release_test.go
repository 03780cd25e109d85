package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestArchives: an archive has the program and its files, and its bytes do not depend on the files' times.
func TestArchives(t *testing.T) {
	t.Chdir("../..")
	when := time.Date(2026, 11, 23, 12, 0, 0, 0, time.FixedZone("", 3600))
	program := filepath.Join(t.TempDir(), "program")
	for _, target := range []target{targets[0], targets[len(targets)-1]} { // a .tar.gz and a .zip
		var first []byte
		for turn := range 2 {
			if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(program, when, when.Add(time.Duration(turn)*time.Hour)); err != nil {
				t.Fatal(err)
			}
			files, err := target.files(program, program, []module{{path: "std", notices: []file{{"licenses/std/LICENSE", "LICENSE", 0o644}}}}, []file{{"darkroom.1", "LICENSE", 0o644}})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			pack, names := packTar, tarNames
			if target.system == "windows" {
				pack, names = packZip, zipNames
			}
			if err := pack(&out, target.name(), files, when); err != nil {
				t.Fatal(err)
			}
			if turn == 0 {
				first = out.Bytes()
			} else if !bytes.Equal(first, out.Bytes()) {
				t.Errorf("%s: packed twice, other bytes", target.name())
			}
			has := names(t, out.Bytes())
			for _, want := range []string{target.program(), "README.md", "LICENSE", "docs/config.md", "examples/rewards/reward.py", "sbom.cdx.json", "licenses/std/LICENSE", "darkroom.1"} {
				if !slices.Contains(has, target.name()+"/"+want) {
					t.Errorf("%s lacks %s", target.name(), want)
				}
			}
			if slices.ContainsFunc(has, func(name string) bool { return strings.HasSuffix(name, ".go") }) {
				t.Errorf("%s has code: %q", target.name(), has)
			}
		}
	}
}

// TestLinks: files and folders that README.md links to are in the archive.
func TestLinks(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\]\(([^)#:]+)[)#]`).FindAllSubmatch(text, -1)
	if len(links) < 20 {
		t.Fatalf("README.md has %d links", len(links))
	}
	for _, l := range links {
		name := string(l[1])
		if !slices.ContainsFunc(beside, func(root string) bool { return name == root || strings.HasPrefix(name, root+"/") }) {
			t.Errorf("%s is in no archive", name)
		}
	}
}

// TestManual: each command but help and completion has its section, letters that roff reads are escaped, and each shell
// has its file.
func TestManual(t *testing.T) {
	said := map[string]string{
		"--help":       "Darkroom develops.\n\nAvailable Commands:\n  completion  Generate\n  help        Help\n  train       Train it\n\nFlags:\n  -h\n",
		"train --help": "Train.\n\n.dots and 'quotes' begin\n'lines', and a \\ stays\n",
	}
	for _, s := range shells {
		said["completion "+s.shell] = "# " + s.shell
	}
	dir := t.TempDir()
	files, err := manual(dir, func(args ...string) (string, error) {
		text, ok := said[strings.Join(args, " ")]
		if !ok {
			return "", errors.New("nobody asks for " + strings.Join(args, " "))
		}
		return text, nil
	}, time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f.from)
		if err != nil {
			t.Fatal(err)
		}
		got[f.name] = string(text)
	}
	page := got["darkroom.1"]
	for _, want := range []string{".TH DARKROOM 1 \"2026-11-23\"\n", "\n.SH TRAIN\n.nf\nTrain.\n", "\n\\&.dots and 'quotes' begin\n\\&'lines', and a \\e stays\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("darkroom.1 lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, ".SH HELP") || len(got) != 5 || got["completions/_darkroom"] != "# zsh" {
		t.Errorf("%q", got)
	}
	if _, err := manPage(func(...string) (string, error) { return "Darkroom\n", nil }, time.Time{}); err == nil {
		t.Error("a help without commands made a page")
	}
}

// TestManifests: each names its archives with their checksums, and JSON is JSON.
func TestManifests(t *testing.T) {
	sums := map[string]string{}
	for k, n := range names() {
		ext := ".tar.gz"
		if strings.Contains(n, "windows") {
			ext = ".zip"
		}
		sums[n+ext] = strings.Repeat(string(rune('a'+k)), 64)
	}
	dir := t.TempDir()
	if err := manifests(dir, "v1.2.3", sums); err != nil {
		t.Fatal(err)
	}
	brew, err := os.ReadFile(filepath.Join(dir, "darkroom.rb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"darkroom-darwin-arm64.tar.gz", "darkroom-linux-amd64.tar.gz", "darkroom-linux-arm64.tar.gz"} {
		want := "/v1.2.3/" + name + "\"\n      sha256 \"" + sums[name] + "\""
		if !strings.Contains(string(brew), want) {
			t.Errorf("the formula lacks %s:\n%s", want, brew)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "darkroom.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Version      string
		Architecture map[string]struct{ Hash string }
	}
	if err := json.Unmarshal(text, &m); err != nil || m.Version != "1.2.3" || m.Architecture["64bit"].Hash != sums["darkroom-windows-amd64.zip"] {
		t.Errorf("%v, %+v", err, m)
	}
}

// infoOf returns a program's build information.
func infoOf(t *testing.T, program string) *debug.BuildInfo {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

var long = flag.Bool("long", false, "build a program to list its modules")

// TestModules: each module of a program has a licence that is known, and stands in the bill.
func TestModules(t *testing.T) {
	if !*long {
		t.Skip("builds a program: -long, .ci/run slow")
	}
	t.Chdir("../..")
	program, err := os.Executable() // a test of this package has Go's library alone
	if err != nil {
		t.Fatal(err)
	}
	all, err := modules(infoOf(t, program))
	if err != nil {
		t.Fatal(err)
	}
	built := filepath.Join(t.TempDir(), "parity")
	if said, err := exec.Command("go", "build", "-o", built, "./cmd/parity").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	more, err := modules(infoOf(t, built))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].path != "std" || all[0].licence != "BSD-3-Clause" || len(more) < 5 {
		t.Errorf("%v and %d more", all, len(more))
	}
	text, err := bill("v1", more)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Components []struct {
			Name, Version, PURL string
			Licenses            []struct{ License struct{ ID string } }
		}
	}
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	for i, m := range more {
		c := said.Components[i]
		if len(m.notices) == 0 || c.Name != m.path || c.PURL != "pkg:golang/"+m.path+"@"+m.version || c.Licenses[0].License.ID != m.licence {
			t.Errorf("%s: %d notices, %+v", m.path, len(m.notices), c)
		}
	}
}

// TestWhole: an archive that breaks off leaves nothing, and the one that was there before.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	at, torn := filepath.Join(dir, "a.tar.gz"), errors.New("the disk is full")
	breaks := func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		return torn
	}
	for _, before := range []string{"", "as it was"} {
		if err := whole(at, breaks); !errors.Is(err, torn) {
			t.Errorf("%v", err)
		}
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := os.ReadFile(at); string(text) != before || len(list) > min(1, len(before)) {
			t.Errorf("after %q there are %v, with %q", before, list, text)
		}
		if err := whole(at, func(w io.Writer) error { _, err := io.WriteString(w, "as it was"); return err }); err != nil {
			t.Fatal(err)
		}
	}
}

// tarNames are the files of a .tar.gz. Only the program may be started.
func tarNames(t *testing.T, text []byte) (all []string) {
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if starts := h.Mode&0o111 != 0; starts != strings.HasSuffix(h.Name, "/darkroom") {
			t.Errorf("%s has the mode %o", h.Name, h.Mode)
		}
		all = append(all, h.Name)
	}
}

func zipNames(t *testing.T, text []byte) (all []string) {
	r, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		all = append(all, f.Name)
	}
	return all
}

// TestStamped: a program without its commit is not a release; tests are built without one.
func TestStamped(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := stamped(infoOf(t, program)); err == nil || !strings.Contains(err.Error(), "which commit") {
		t.Error(err)
	}
}

// TestOnly: an unknown archive is refused with the known names, and nothing is written.
func TestOnly(t *testing.T) {
	t.Chdir("../..")
	out := filepath.Join(t.TempDir(), "out")
	if err := work(out, "darkroom-linux-amd46"); err == nil || !strings.Contains(err.Error(), "darkroom-linux-amd64-static") {
		t.Error(err)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", out, err)
	}
}
