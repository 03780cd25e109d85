package main

import "fmt"

// A fault is what reading memory panics with that is not there: most often a file's that is mapped, as a
// model's weights are.
type fault interface {
	error
	Addr() uintptr
}

// unreadable says what became of the file.
func unreadable(f fault) string {
	return fmt.Sprintf("a file that was being read is no longer whole, or its disk is gone (%v)\n"+
		"hint: fetch or copy the model's folder again; a run goes on with --resume from its last checkpoint", f)
}
