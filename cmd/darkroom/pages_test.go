package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// listing is a block of a page, with its language.
var listing = regexp.MustCompile("(?ms)^```(\\w*)\\n(.*?)^```")

// TestPagesRun: command lines of README.md, docs and examples name commands, flags and as many arguments as there are,
// and whole experiments in them can be planned.
func TestPagesRun(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob("../../examples/*/README.md")
	if err != nil || len(examples) == 0 {
		t.Fatalf("%d pages of examples, %v", len(examples), err)
	}
	commands, experiments := 0, 0
	for _, file := range append(append(pages, examples...), "../../README.md", "../../deploy/README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		for _, block := range listing.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\r\n", "\n"), -1) {
			if block[1] == "toml" && strings.Contains(block[2], "[run]") {
				experiments++
				e, err := experiment.Parse(name, []byte(block[2]), nil)
				if err == nil {
					_, err = e.Plan()
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			for line := range strings.Lines(block[2]) {
				words, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), " &"), " #")
				if block[1] != "" || !strings.HasPrefix(words, "darkroom ") || strings.Contains(words, "...") {
					continue
				}
				commands++
				if err := checkExample(strings.Fields(words)[1], "  "+words); err != nil {
					t.Errorf("%s: %q: %v", name, words, err)
				}
			}
		}
	}
	if commands < 50 || experiments < 1 {
		t.Errorf("%d commands and %d experiments were found: the pages are read wrongly", commands, experiments)
	}
}

// TestExamplesPlan: experiments of examples can be planned.
func TestExamplesPlan(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/*.toml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d experiments, %v", len(files), err)
	}
	for _, file := range files {
		e, err := experiment.Read(file, nil)
		if err == nil {
			_, err = e.Plan()
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
