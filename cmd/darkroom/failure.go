package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
)

// A fault is the panic of a read of missing memory: most often a file's that is mapped, as a model's weights are.
type fault interface {
	error
	Addr() uintptr
}

// unreadable describes the file's state.
func unreadable(f fault) string {
	return fmt.Sprintf("a file that was being read is no longer whole, or its disk is gone (%v)\n"+
		"hint: fetch or copy the model's folder again; a run goes on with --resume from its last checkpoint", f)
}

// Under --json a failure is a document too, on stdout where a program reads: {"error": {...}}. Text for people stays
// on stderr. A command that has written its own document keeps it: one call writes one document.

// failureDocument is the failure.
type failureDocument struct {
	Error failureWords `json:"error"`
}

type failureWords struct {
	Message  string        `json:"message"`
	Hint     string        `json:"hint,omitempty"`
	Exit     int           `json:"exit"`
	Mistakes []mistakeLine `json:"mistakes,omitempty"` // of an experiment's file, each with its place
}

type mistakeLine struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"`
}

// wantsJSON reports whether a command line asks for JSON. It is read here,
// as one that is wrong is not parsed to its end.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

// writeFailure writes the document.
func writeFailure(w io.Writer, err error, exit int) {
	f := failureWords{Message: err.Error(), Exit: exit}
	var mistakes config.Mistakes
	if errors.As(err, &mistakes) {
		f.Message, _, _ = strings.Cut(f.Message, "\n")
		for _, m := range mistakes {
			f.Mistakes = append(f.Mistakes, mistakeLine{m.File, m.Line, m.Column, m.Problem, m.Hint})
		}
	} else if says, hint, ok := strings.Cut(f.Message, "\nhint: "); ok {
		f.Message, f.Hint = says, hint
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	_ = enc.Encode(failureDocument{f}) // the exit code says it too
}
