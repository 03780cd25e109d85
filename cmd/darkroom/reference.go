package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

//go:generate sh -c "go run . list keys --markdown > ../../docs/config.md"
//go:generate sh -c "go run . list methods --markdown > ../../docs/methods.md"
//go:generate sh -c "go run . list coverage --markdown > ../../docs/coverage.md"
//go:generate sh -c "go run . list elsewhere --markdown > ../../docs/elsewhere.md"
//go:generate sh -c "go run . list weights --markdown > ../../docs/rewards.md"

// A page is a file of docs that the program writes.
type page struct {
	kind, file string
	names      func() []name
	write      func(io.Writer)
}

func pages() []page {
	return []page{
		{"keys", "config.md", configKeys, writeReference},
		{"methods", "methods.md", methodNames, writeMethods},
		{"coverage", "coverage.md", coverageNames, writeCoverage},
		{"elsewhere", "elsewhere.md", elsewhereNames, writeElsewhere},
		{"weights", "rewards.md", weightNames, writeWeights},
	}
}

// The reference of the experiment's file, docs/config.md: every key, from the same tags that the reader of files
// goes by.

const referenceHead = `# The experiment's file: every key

Written by ` + "`go generate ./cmd/darkroom`" + ` from the program's own tags; ` + "`darkroom list keys`" + ` prints the same.
A key that is not written has its default, which a preset may set: ` + "`darkroom plan FILE --resolved`" + ` prints all of a
file's keys with who set them. "off" is what does nothing until it is written. "read by" lists the methods that use a
key; others ignore it, and ` + "`plan`" + ` says so. Names of methods: ` + "`darkroom list`" + `.
`

// writeReference writes docs/config.md.
func writeReference(w io.Writer) {
	e := experiment.Default()
	keys, of := experiment.Keys(&e), experiment.ReaderDefaults()
	fmt.Fprint(w, referenceHead)
	writeKeys(w, "", keys, of)
	for _, k := range keys {
		if !k.Table {
			continue
		}
		fmt.Fprintf(w, "\n## %s\n", heading(k))
		if says := sentence(k); says != "" {
			fmt.Fprintf(w, "\n%s\n", strings.Join(console.Wrapped(says, 118), "\n"))
		}
		writeKeys(w, k.Path, keys, of)
	}
}

// heading is how a table begins in a file.
func heading(k config.Key) string {
	if strings.HasPrefix(k.Kind, "list") {
		return "[[" + k.Path + "]]"
	}
	return "[" + k.Path + "]"
}

// sentence is the purpose of a table.
func sentence(k config.Key) string {
	says := strings.TrimSpace(k.Doc)
	if k.Path == "stage" {
		says += ". It has a name, iterations, weights (of rewards by their labels, in this stage), train (patterns of the names of parameters that it moves, of those that [model] trains), and any keys of [sampler], [rollout], [advantage], [loss], [optim] and [rewards]"
	}
	if k.Absent {
		says += " (off)"
	}
	if k.Of != "" {
		says += fmt.Sprintf(" (read by %s)", readers(k))
	}
	return cell(strings.TrimPrefix(says, " "))
}

// writeKeys writes the keys directly below a table.
func writeKeys(w io.Writer, table string, keys []config.Key, of map[string][]experiment.ReaderDefault) {
	own := slices.DeleteFunc(slices.Clone(keys), func(k config.Key) bool { return k.Table || config.Parent(k.Path) != table })
	if len(own) == 0 {
		return
	}
	fmt.Fprint(w, "\n| key | takes | default | what | read by |\n|---|---|---|---|---|\n")
	for _, k := range own {
		name := strings.TrimPrefix(k.Path, table+".")
		fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s |\n", name, cell(takes(k)), cell(usual(k)+others(of[k.Path])), cell(k.Doc), cell(readers(k)))
	}
}

// takes is the type and the values of a key.
func takes(k config.Key) string {
	switch {
	case k.Enum != nil:
		return strings.Join(quotedAll(k.Enum), ", ")
	case k.Range != "":
		return k.Kind + " in " + k.Range
	}
	return k.Kind
}

// usual is a key's default.
func usual(k config.Key) string {
	switch {
	case k.Required:
		return "must be written"
	case k.Absent:
		return "off"
	}
	return "`" + k.Default + "`"
}

// others are the defaults of some readers of a key, in their order: "; `0.2` for tokens, `1.0` for awm".
func others(of []experiment.ReaderDefault) string {
	var values []string
	names := map[string][]string{}
	for _, o := range of {
		if !slices.Contains(values, o.Default) {
			values = append(values, o.Default)
		}
		names[o.Default] = append(names[o.Default], o.Reader)
	}
	s := ""
	for i, v := range values {
		s += map[bool]string{true: "; ", false: ", "}[i == 0] + "`" + v + "` for " + strings.Join(slices.Compact(names[v]), ", ")
	}
	return s
}

func readers(k config.Key) string { return strings.ReplaceAll(k.Of, ",", ", ") }

// cell is a text that may stand in a table of Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ").Replace(text)
}
