package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/outside/plain"
)

// emit prints a command's result: doc as JSON with --json, else what text writes.
func emit(cmd *cobra.Command, doc any, text func(w io.Writer)) error {
	asJSON, err := cmd.Flags().GetBool("json")
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if !asJSON {
		out := &firstError{w: w}
		text(out)
		if out.err != nil {
			return fmt.Errorf("printing: %w", out.err)
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

// firstError remembers the first error of a writer, for those who print many
// lines and look once: a full disk must not end as success.
type firstError struct {
	w   io.Writer
	err error
}

func (f *firstError) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if f.err == nil {
		f.err = err
	}
	return n, err
}

// A table is rows of text, printed in aligned columns. Columns of numbers are
// set to the right where the header begins with '>'.
type table struct {
	header []string // may be empty: no header line
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) {
	var widths []int
	measure := func(cells []string) {
		for i, c := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	header := make([]string, len(t.header))
	right := map[int]bool{}
	for i, h := range t.header {
		header[i] = strings.TrimPrefix(h, ">")
		right[i] = h != header[i]
	}
	measure(header)
	for _, r := range t.rows {
		measure(r)
	}
	fit(widths, right, columns(w))
	if len(header) > 0 {
		for _, line := range rowLines(header, widths, right) {
			fmt.Fprintln(w, bold(w, line))
		}
	}
	for _, r := range t.rows {
		for _, line := range rowLines(r, widths, right) {
			fmt.Fprintln(w, line)
		}
	}
}

// rowLines are a row's, more than one where a cell is wider than its column.
func rowLines(cells []string, widths []int, right map[int]bool) []string {
	var broken [][]string
	most := 0
	for i, c := range cells {
		broken = append(broken, wrapped(c, widths[i]))
		most = max(most, len(broken[i]))
	}
	var all []string
	for n := range most {
		var b strings.Builder
		for i := range cells {
			c := ""
			if n < len(broken[i]) {
				c = broken[i][n]
			}
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(c)))
			if right[i] {
				c = pad + c
			} else {
				c += pad
			}
			b.WriteString(c + "  ")
		}
		all = append(all, strings.TrimRight(b.String(), " "))
	}
	return all
}

// bold sets s in bold type where w is a terminal that wants colour.
func bold(w io.Writer, s string) string {
	if !terminal(w) || os.Getenv("NO_COLOR") != "" {
		return s
	}
	return plain.Bold + s + plain.Normal
}

// behind is what our own writers write to.
func behind(w io.Writer) io.Writer {
	switch own := w.(type) {
	case *firstError:
		return behind(own.w)
	case plain.Writer:
		return behind(own.W)
	case *counted:
		return behind(own.w)
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

// bytesText is a number of bytes for people: 17 B, 1.2 KiB, 3.4 GiB.
func bytesText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	x, unit := float64(n)/(1<<10), 0
	for x >= 1023.95 && unit < 3 { // never 1024.0
		x, unit = x/(1<<10), unit+1
	}
	return fmt.Sprintf("%.1f %ciB", x, "KMGT"[unit])
}
