package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// asked returns the output of the program for arguments.
type asked func(args ...string) (string, error)

// built builds the program for this machine and returns its output for arguments.
func built(dir string) (asked, error) {
	program := filepath.Join(dir, "here")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := exec.Command("go", "build", "-trimpath", "-tags", "nocuda", "-o", program, "./cmd/darkroom")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if said, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building: %w\n%s", err, said)
	}
	return func(args ...string) (string, error) {
		text, err := exec.Command(program, args...).Output()
		return string(text), err
	}, nil
}

// shells are those with completions, and the names under which the shells look for them.
var shells = []struct{ shell, name string }{
	{"bash", "darkroom.bash"}, {"fish", "darkroom.fish"}, {"powershell", "darkroom.ps1"}, {"zsh", "_darkroom"},
}

// manual writes completions of shells and the man page into a folder, and lists them as files of an archive.
func manual(dir string, ask asked, when time.Time) ([]file, error) {
	page, err := manPage(ask, when)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{"darkroom.1": page}
	for _, s := range shells {
		if texts["completions/"+s.name], err = ask("completion", s.shell); err != nil {
			return nil, fmt.Errorf("completions of %s: %w", s.shell, err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "completions"), 0o755); err != nil {
		return nil, err
	}
	var files []file
	for name, text := range texts {
		from := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.WriteFile(from, []byte(text), 0o644); err != nil {
			return nil, err
		}
		files = append(files, file{name, from, 0o644})
	}
	return files, nil
}

// listedCommand is a line of the help's list of commands: its name and its sentence.
var listedCommand = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S.*$`)

// manPage is darkroom(1): the help of the program and of every command, as they are printed.
func manPage(ask asked, when time.Time) (string, error) {
	head, err := ask("--help")
	if err != nil {
		return "", err
	}
	_, list, _ := strings.Cut(head, "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var b strings.Builder
	fmt.Fprintf(&b, ".TH DARKROOM 1 %q\n.SH NAME\ndarkroom \\- post-train image, video and vision-language models\n", when.UTC().Format("2006-01-02"))
	b.WriteString(".SH DESCRIPTION\n" + asPrinted(head))
	commands := listedCommand.FindAllStringSubmatch(list, -1)
	if len(commands) == 0 {
		return "", errors.New("the help lists no command")
	}
	for _, c := range commands {
		if slices.Contains([]string{"completion", "help"}, c[1]) {
			continue
		}
		text, err := ask(c[1], "--help")
		if err != nil {
			return "", fmt.Errorf("help of %s: %w", c[1], err)
		}
		fmt.Fprintf(&b, ".SH %s\n%s", strings.ToUpper(c[1]), asPrinted(text))
	}
	return b.String(), nil
}

// roff escapes letters that roff reads as commands.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")

// asPrinted is a text without filling, its lines as they are.
func asPrinted(text string) string {
	return ".nf\n" + strings.TrimPrefix(roff.Replace("\n"+strings.TrimSpace(text)), "\n") + "\n.fi\n"
}
