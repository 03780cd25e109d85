// Package console prints the results of commands: tables, documents of JSON, progress, pictures in a terminal.
package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/outside/plain"
)

// OutliveReaders lets a command go on whose output nobody reads any more: a closed terminal, or a tee that
// ended. Writes fail then, and the process stays.
func OutliveReaders() { signal.Ignore(syscall.SIGPIPE) }

// Emit prints a command's result: doc as JSON with --json, else the output of text.
func Emit(cmd *cobra.Command, doc any, text func(w io.Writer)) error {
	asJSON, err := cmd.Flags().GetBool("json")
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if !asJSON {
		out := &FirstError{W: w}
		text(out)
		if out.Err != nil {
			return fmt.Errorf("printing: %w", out.Err)
		}
		return nil
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

// FirstError remembers the first error of a writer, for those who print many
// lines and look once: a full disk must not end as success.
type FirstError struct {
	W   io.Writer
	Err error
}

func (f *FirstError) Write(p []byte) (int, error) {
	n, err := f.W.Write(p)
	if f.Err == nil {
		f.Err = err
	}
	return n, err
}

// Bold sets s in bold type where w is a terminal that wants colour.
func Bold(w io.Writer, s string) string {
	if !terminal(w) || os.Getenv("NO_COLOR") != "" {
		return s
	}
	return plain.Bold + s + plain.Normal
}

// behind is the target of our own writers.
func behind(w io.Writer) io.Writer {
	switch own := w.(type) {
	case *FirstError:
		return behind(own.W)
	case plain.Writer:
		return behind(own.W)
	case *Counted:
		return behind(own.W)
	}
	return w
}

// terminal reports whether w is one that understands more than plain lines.
func terminal(w io.Writer) bool {
	f, ok := behind(w).(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// Counted remembers whether anything was written.
type Counted struct {
	W   io.Writer
	Any bool
}

func (c *Counted) Write(p []byte) (int, error) {
	c.Any = c.Any || len(p) > 0
	return c.W.Write(p)
}
