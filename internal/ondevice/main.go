// Command ondevice packs the tests of a CUDA device for a machine without Go:
//
//	go run ./internal/ondevice -out runs/device   # make device
//
// darkroom, parity, shapes and realsteps become one program, since each alone carries the whole engine: an overlay of
// the build gives their sources the names of packages and their main functions the name Main; no file is changed. With
// the tag device, models and kernels are read from the repository, which travels beside the program. The conformance
// suite of kernels/cuda is the second program. Both, and the scripts and experiments of this folder, make a bundle of
// at most mostBundle bytes; the repository and the bundle together may have mostSent.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	mostBundle = 13 << 20 // bytes sent to a device
	mostSent   = 64 << 20 // bytes of the repository and the bundle
)

// programs are the commands of the one program, by the names under which it is started.
var programs = map[string]string{
	"darkroom": "cmd/darkroom", "parity": "cmd/parity", "shapes": "internal/shapes", "realsteps": "internal/realsteps",
}

// leftBehind are recorded cases that no step on a device reads: all but those of whole models.
const leftBehind, butNot = "internal/golden/", "internal/golden/models/"

func main() {
	out := flag.String("out", "runs/device", "the folder of the bundle")
	flag.Parse()
	if err := work(*out); err != nil {
		fmt.Fprintln(os.Stderr, "ondevice:", err)
		os.Exit(1)
	}
}

func work(out string) error {
	dir, err := os.MkdirTemp("", "ondevice")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := overlaid(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(out, 0o755), emptied(out)); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"build", "-overlay", overlay, "-o", filepath.Join(dir, "all"), "./" + joined},
		{"test", "-c", "-o", filepath.Join(dir, "cuda.test"), "./kernels/cuda"},
	} {
		if err := run("go", append([]string{args[0], "-trimpath", "-tags", "device,nobroker", "-ldflags", "-s -w"}, args[1:]...)...); err != nil {
			return err
		}
	}
	for _, name := range []string{"all", "cuda.test"} {
		packed := filepath.Join(out, name+".xz")
		if err := compress(filepath.Join(dir, name), packed); err != nil {
			return err
		}
	}
	sent, err := bundled(out)
	if err != nil {
		return err
	}
	tree, err := travels()
	if err != nil {
		return err
	}
	fmt.Printf("%s: %.1f MiB; the repository %.1f MiB; together %.1f of %d MiB\n", out, mib(sent), mib(tree), mib(sent+tree), mostSent>>20)
	if sent > mostBundle || sent+tree > mostSent {
		return fmt.Errorf("the bundle may have %d MiB, and the repository with it %d MiB", mostBundle>>20, mostSent>>20)
	}
	return nil
}

// joined is the folder, in the overlay alone, of the one program.
const joined = "cmd/ondevice"

// overlaid writes the sources of the one program below dir, and the list that go build -overlay reads.
func overlaid(dir string) (list string, err error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	add := func(to string, text []byte) error {
		from := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		replace[filepath.Join(root, joined, to)] = from
		return os.WriteFile(from, text, 0o644)
	}
	var imports, cases strings.Builder
	for name, folder := range programs {
		sources, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			return "", err
		}
		for _, source := range sources {
			if strings.HasSuffix(source, "_test.go") {
				continue
			}
			text, err := os.ReadFile(source)
			if err != nil {
				return "", err
			}
			if err := add(filepath.Join(name, filepath.Base(source)), packaged(text, name)); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(&imports, "\t%q\n", "github.com/darkroom-rl/darkroom/"+joined+"/"+name)
		fmt.Fprintf(&cases, "\tcase %q:\n\t\t%s.Main()\n", name, name)
	}
	program := fmt.Sprintf("package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"path/filepath\"\n\n%s)\n\nfunc main() {\n\tswitch filepath.Base(os.Args[0]) {\n%s\tdefault:\n"+
		"\t\tfmt.Fprintln(os.Stderr, \"start it as darkroom, parity, shapes or realsteps\")\n\t\tos.Exit(2)\n\t}\n}\n", &imports, &cases)
	if err := add("main.go", []byte(program)); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, text, 0o644)
}

// packaged is a source of a program as one of a package.
func packaged(text []byte, name string) []byte {
	text = bytes.Replace(text, []byte("\npackage main\n"), []byte("\npackage "+name+"\n"), 1)
	if rest, ok := bytes.CutPrefix(text, []byte("package main\n")); ok {
		text = append([]byte("package "+name+"\n"), rest...)
	}
	return bytes.Replace(text, []byte("\nfunc main() {"), []byte("\nfunc Main() {"), 1)
}

// compress packs a program as small as it becomes.
func compress(from, to string) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	c := exec.Command("xz", "-c", "-k", "--x86", "--lzma2=preset=9e,dict=64MiB", from)
	c.Stdout, c.Stderr = out, os.Stderr
	return errors.Join(c.Run(), out.Close())
}

// emptied deletes an earlier bundle's files from its folder.
func emptied(out string) error {
	for _, pattern := range []string{"*.xz", "*.sh", "*.py", "*.toml"} {
		names, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// bundled copies the scripts and experiments of this folder, and is the size of all.
func bundled(out string) (n int64, err error) {
	for _, pattern := range []string{"*.sh", "*.py", "*.toml"} {
		names, err := filepath.Glob("internal/ondevice/" + pattern)
		if err != nil {
			return 0, err
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				return 0, err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return 0, err
			}
			to := filepath.Join(out, filepath.Base(name))
			if err := errors.Join(os.WriteFile(to, text, info.Mode()), os.Chmod(to, info.Mode())); err != nil {
				return 0, err
			}
		}
	}
	list, err := os.ReadDir(out)
	if err != nil {
		return 0, err
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		n += info.Size()
	}
	return n, nil
}

// travels is how many bytes of tracked files go to a device, without those that stay behind.
func travels() (n int64, err error) {
	said, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		return 0, fmt.Errorf("asking git for its files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(said), "\x00"), "\x00") {
		if strings.HasPrefix(name, leftBehind) && !strings.HasPrefix(name, butNot) {
			continue
		}
		info, err := os.Lstat(filepath.FromSlash(name))
		if err != nil {
			return 0, err
		}
		n += info.Size()
	}
	return n, nil
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

func run(name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}
