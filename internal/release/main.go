// Command release builds the program for each system, packs it with its pages, examples, its modules' licences and
// their bill (CycloneDX), and writes the archives' checksums:
//
//	go run ./internal/release -out runs/release   // make release
//
// The same commit gives the same bytes: builds are trimmed of paths, and archives have names in order and one time. The
// version is Go's record of the commit; a tag gives it a name. Start with targets; modules.go finds licences, manual.go
// writes completions and the man page, pack.go the archives, manifests.go those of Homebrew and Scoop.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A target is a program for a system.
type target struct {
	system, machine string
	static          bool // without CUDA, and without need of the system's C loader
}

// targets are the archives of a release. On Linux one has CUDA, and one runs where there is no C library.
var targets = []target{
	{"linux", "amd64", false}, {"linux", "amd64", true}, {"linux", "arm64", false}, {"linux", "arm64", true},
	{"darwin", "arm64", false}, {"windows", "amd64", false},
}

// name is that of the archive's folder.
func (t target) name() string {
	if t.static {
		return fmt.Sprintf("darkroom-%s-%s-static", t.system, t.machine)
	}
	return fmt.Sprintf("darkroom-%s-%s", t.system, t.machine)
}

// program is the name of the file that is started.
func (t target) program() string {
	if t.system == "windows" {
		return "darkroom.exe"
	}
	return "darkroom"
}

// beside lists the files packed with the program.
var beside = []string{
	"README.md", "LICENSE", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "LOG.md", "SECURITY.md",
	"assets/quickstart.png", "assets/page.png", "deploy", "docs", "examples",
}

func main() {
	out := flag.String("out", "runs/release", "folder of the archives")
	only := flag.String("only", "", "the one archive to make, such as darkroom-linux-amd64; empty: all")
	flag.Parse()
	if err := work(*out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func work(out, only string) error {
	if only != "" && !slices.ContainsFunc(targets, func(t target) bool { return t.name() == only }) {
		return fmt.Errorf("-only %s: there is no such archive, but %s", only, strings.Join(names(), ", "))
	}
	when, err := committed()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "manual")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ask, err := built(dir)
	if err != nil {
		return err
	}
	pages, err := manual(dir, ask, when)
	if err != nil {
		return err
	}
	var lines strings.Builder
	version, sums := "", map[string]string{}
	for _, t := range targets {
		if only != "" && only != t.name() {
			continue
		}
		archive, of, err := t.release(out, when, pages)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name(), err)
		}
		text, err := os.ReadFile(archive)
		if err != nil {
			return err
		}
		name, sum := filepath.Base(archive), fmt.Sprintf("%x", sha256.Sum256(text))
		version, sums[name] = of, sum
		fmt.Fprintf(&lines, "%s  %s\n", sum, name)
		fmt.Printf("%s  %.1f MB\n", archive, float64(len(text))/1e6)
	}
	if only == "" {
		if err := manifests(out, version, sums); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(lines.String()), 0o644)
}

// names are those of all archives.
func names() (all []string) {
	for _, t := range targets {
		all = append(all, t.name())
	}
	return all
}

// committed is the time of the commit.
func committed() (time.Time, error) {
	text, err := exec.Command("git", "log", "-1", "--format=%cI").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("asking git for the commit's time: %w", err)
	}
	return time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
}

// release builds a target, and packs it with the pages of its manual. It returns the archive and the version.
func (t target) release(out string, when time.Time, pages []file) (archive, version string, err error) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, t.program())
	tags := ""
	if t.static {
		tags = "nocuda"
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-tags", tags, "-ldflags", "-s -w", "-o", program, "./cmd/darkroom")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+t.system, "GOARCH="+t.machine)
	if said, err := build.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("building: %w\n%s", err, said)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", "", err
	}
	if err := stamped(info); err != nil {
		return "", "", err
	}
	all, err := modules(info)
	if err != nil {
		return "", "", err
	}
	text, err := bill(info.Main.Version, all)
	if err != nil {
		return "", "", err
	}
	sbom := filepath.Join(dir, "sbom.cdx.json")
	if err := os.WriteFile(sbom, text, 0o644); err != nil {
		return "", "", err
	}
	files, err := t.files(program, sbom, all, pages)
	if err != nil {
		return "", "", err
	}
	archive = filepath.Join(out, t.name()+".tar.gz")
	pack := packTar
	if t.system == "windows" {
		archive, pack = filepath.Join(out, t.name()+".zip"), packZip
	}
	return archive, info.Main.Version, whole(archive, func(w io.Writer) error { return pack(w, t.name(), files, when) })
}

// whole writes a file that is there when all of it is: one that breaks off is not left, nor takes another's place.
func whole(path string, write func(io.Writer) error) error {
	f, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), path)
}

// stamped returns an error for a program without its commit: a report of a fault could not name it either.
func stamped(info *debug.BuildInfo) error {
	revision := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			return errors.New("the working copy has changes\nhint: commit them, or release from a clean clone")
		}
	}
	if revision == "" {
		return errors.New("the program does not say which commit it is of\nhint: release from a clone; Go does not read a worktree's .git")
	}
	return nil
}
