package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/darkroom-rl/darkroom/outside/child"
)

// served is a command that runs until its page ends.
type served struct {
	*exec.Cmd
	words string
	ended chan error
}

// serve starts a line and returns as soon as it seems to be at work: it has run for five seconds. One that ended by
// itself without an error is fine, too. A server that its page already runs is not started twice.
func (r *reader) serve(words string) (string, error) {
	if slices.ContainsFunc(r.serving, func(s served) bool { return s.words == words }) {
		return "", nil
	}
	file, err := os.Create(filepath.Join(r.dir, "served.txt"))
	if err != nil {
		return "", err
	}
	defer file.Close()
	s := served{r.shell(context.Background(), words), words, make(chan error, 1)}
	s.Stdout, s.Stderr = file, file
	child.Apart(s.Cmd)
	if err := s.Start(); err != nil {
		return "", err
	}
	go func() { s.ended <- s.Wait() }()
	select {
	case err = <-s.ended:
	case <-time.After(5 * time.Second):
		r.serving = append(r.serving, s)
	}
	out, unread := os.ReadFile(file.Name())
	return string(out), errors.Join(err, unread)
}

// end stops the servers of a page.
func (r *reader) end() error {
	var all error
	for _, s := range r.serving {
		if err := child.Kill(s.Cmd); !errors.Is(err, os.ErrProcessDone) { // its group's end may have been its own
			all = errors.Join(all, err)
		}
		<-s.ended
	}
	r.serving = nil
	return all
}
