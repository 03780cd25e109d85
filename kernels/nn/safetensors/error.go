package safetensors

import (
	"errors"
	"fmt"
)

// Error is the problem of a file, and its remedy.
type Error struct {
	Path    string
	Tensor  string // may be empty
	Problem string
	Hint    string
	Cause   error // may be nil
}

func (e *Error) Unwrap() error { return e.Cause }

func (e *Error) Error() string {
	s := ""
	if e.Path != "" {
		s = e.Path + ": "
	}
	if e.Tensor != "" {
		s += fmt.Sprintf("tensor %q: ", shorten(e.Tensor))
	}
	s += e.Problem
	if e.Hint != "" {
		s += "\nhint: " + e.Hint
	}
	return s
}

// The remedies that recur.
const (
	hintAgain   = "the file is damaged or was not fully downloaded: fetch it again and compare its size with the hub's"
	hintWriter  = "the program that wrote the file is at fault; write it again with the safetensors library"
	hintInspect = "darkroom inspect PATH lists what the file holds"
)

// in completes an Error made by a function that does not know the file's name.
func in(path string, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Path == "" {
		e.Path = path
	}
	return err
}

func problem(hint, format string, args ...any) error {
	return &Error{Problem: fmt.Sprintf(format, args...), Hint: hint}
}

func tensorProblem(name, hint, format string, args ...any) error {
	return &Error{Tensor: name, Problem: fmt.Sprintf(format, args...), Hint: hint}
}

// shorten keeps a hostile name from flooding the terminal.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
