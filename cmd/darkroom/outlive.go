package main

import (
	"os/signal"
	"syscall"
)

// outliveReaders lets a command go on whose output nobody reads any more: a closed terminal, or a tee that
// ended. Writes fail then, and the process stays.
func outliveReaders() { signal.Ignore(syscall.SIGPIPE) }
