package main

import (
	"os"
	"regexp"
	"strings"
)

// A listing is a block of a page.
type listing struct {
	language, text string
	at             int // its first line
}

// A line is a command line of a page.
type line struct {
	words, comment string
	at             int
}

func listingsOf(page string) (all []listing, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	var in *listing
	for n, l := range strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n") {
		language, fence := strings.CutPrefix(l, "```")
		switch {
		case fence && in == nil:
			in = &listing{language: language, at: n + 2}
		case fence:
			all, in = append(all, *in), nil
		case in != nil:
			in.text += l + "\n"
		}
	}
	return all, nil
}

var command = regexp.MustCompile(`^([A-Z_]+=\S+ )*(darkroom|go|printf|python3|docker|make|\.ci/run|runs/\S+) ?`)

func (l listing) isCommands() bool { return command.MatchString(l.text) }

// commands are a listing's lines, with their comments apart.
func (l listing) commands() (all []line) {
	for n, text := range strings.Split(strings.TrimSuffix(l.text, "\n"), "\n") {
		words, comment, _ := strings.Cut(text, " #")
		if words = strings.TrimSpace(words); words != "" {
			all = append(all, line{words, comment, l.at + n})
		}
	}
	return all
}

// left are lines that cannot run here.
var left = []struct {
	words *regexp.Regexp
	why   string
}{
	{regexp.MustCompile(`\b(NAME|KEY|PATH|DIR|LAYOUT|HOST|FILES|FILE(\.toml)?)\b|\.\.\.|compare A B|--image (a|table)\.png`), "it has a place to fill in"},
	{regexp.MustCompile(`^(go|make|docker|\.ci/run|runs/device)\b`), "it builds or tests the repository"},
	{regexp.MustCompile(`^darkroom pull |models/stable-`), "it needs a hub"},
	{regexp.MustCompile(`cuda:`), "it needs a CUDA device"},
	{regexp.MustCompile(`runs/(sd35m-lora|signs|qwen-search|wan-heading)\b`), "it needs a run of a CUDA device"},
	{regexp.MustCompile(`collector:`), "it needs a collector"},
}

// leaves says why a line does not run here; "": it does.
func (l line) leaves() string {
	if strings.HasPrefix(strings.TrimSpace(l.comment), "elsewhere") {
		return "it is for another machine"
	}
	for _, x := range left {
		if x.words.MatchString(l.words) {
			return x.why
		}
	}
	return ""
}

// serves reports whether a line runs until it is stopped.
func (l line) serves() bool {
	return strings.HasPrefix(l.words, "darkroom watch") || strings.Contains(l.words, "--port ") || strings.Contains(l.words, "--serve") || strings.Contains(l.words, "--listen 0.0.0.0") ||
		strings.HasSuffix(l.words, " &")
}
