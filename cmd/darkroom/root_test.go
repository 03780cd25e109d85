package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
)

// TestHelp: every command describes itself and shows an example, and every example line names that command, known
// flags and a fitting number of arguments.
func TestHelp(t *testing.T) {
	root := newRoot()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" { // cobra's own
			continue
		}
		if cmd.Short == "" || cmd.Example == "" {
			t.Errorf("%s: no description or no example", cmd.Name())
		}
		if !cmd.Runnable() {
			t.Errorf("%s does nothing", cmd.Name())
		}
		for line := range strings.Lines(cmd.Example) {
			if err := checkExample(cmd.Name(), line); err != nil {
				t.Errorf("%s: example %q: %v", cmd.Name(), strings.TrimSpace(line), err)
			}
		}
	}
}

// TestCommandScripts: a script runs every command.
func TestCommandScripts(t *testing.T) {
	var scripts strings.Builder
	files, err := filepath.Glob("testdata/script/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(text)
	}
	for _, cmd := range newRoot().Commands() {
		line := regexp.MustCompile(`(?m)^(!? ?exec|exits \d+) darkroom (--json )?` + cmd.Name() + `\b`)
		if cmd.Name() != "completion" && !line.MatchString(scripts.String()) {
			t.Errorf("no script of testdata/script runs %s", cmd.Name())
		}
	}
}

// exampleLine is an indented command line, perhaps with variables before it and
// its output sent elsewhere.
var exampleLine = regexp.MustCompile(`^ +(?:[A-Z_]+=\S+ )*darkroom ([^>|]*)`)

// exampleWord is a word, or a text between quotes.
var exampleWord = regexp.MustCompile(`'([^']*)'|(\S+)`)

func checkExample(name, line string) error {
	parts := exampleLine.FindStringSubmatch(line)
	if parts == nil {
		return exits.Usagef("no command line")
	}
	var words []string
	for _, w := range exampleWord.FindAllStringSubmatch(parts[1], -1) {
		words = append(words, w[1]+w[2])
	}
	cmd, args, err := newRoot().Find(words)
	if err != nil {
		return err
	}
	if cmd.Name() != name {
		return exits.Usagef("runs %q", cmd.Name())
	}
	if err := cmd.ParseFlags(args); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// TestCheckExample: the check above finds mistakes.
func TestCheckExample(t *testing.T) {
	for line, good := range map[string]bool{
		"  darkroom doctor": true,
		"  DARKROOM_CPU=avx2 darkroom doctor --json | jq": true,
		"  darkroom doctor --jsn":                         false,
		"  darkroom doctor now > file":                    false,
		"  darkroom list":                                 false,
		"  darkroom doctor 'a word'":                      false,
		"  doctor --json":                                 false,
	} {
		if err := checkExample("doctor", line); (err == nil) != good {
			t.Errorf("%q: %v", line, err)
		}
	}
}
