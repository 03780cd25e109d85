package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// A row is one operation of both programs.
type row struct {
	Op      string `json:"op"`
	Shape   []int  `json:"shape"`
	DType   string `json:"dtype"`
	Threads int    `json:"threads"`
	Ours    times  `json:"darkroom"`
	Theirs  times  `json:"pytorch"`
}

// times are milliseconds of a call.
type times struct {
	Min    float64 `json:"min_ms"`
	Median float64 `json:"median_ms"`
	Spread float64 `json:"spread"` // between the quartiles, as a share of the median
}

func summarise(ms []float64) times {
	slices.Sort(ms)
	n := len(ms)
	return times{ms[0], ms[n/2], (ms[3*n/4] - ms[n/4]) / ms[n/2]}
}

// faster is how many times faster ours is, by the least times.
func (r row) faster() float64 { return r.Theirs.Min / r.Ours.Min }

func (r row) shape() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Shape), " ", " x "), "[]")
}

func (r row) String() string {
	return fmt.Sprintf("%-20s %-20s %-9s %d  %9.3f %9.3f  %.2f", r.Op, r.shape(), r.DType, r.Threads, r.Ours.Min, r.Theirs.Min, r.faster())
}

// table is a comparison on one machine.
type table struct {
	CPU   string    `json:"cpu"`
	Path  string    `json:"path"`
	Torch string    `json:"torch"`
	At    time.Time `json:"at"`
	Load  string    `json:"load,omitempty"`
	Rows  []row     `json:"rows"`
}

// write prints the table: first the means of operations, then all rows.
func (t table) write(w io.Writer) {
	fmt.Fprintf(w, "%s, best path `%s`, PyTorch %s,\n%s", t.CPU, t.Path, t.Torch, t.At.Format(time.DateOnly))
	if t.Load != "" {
		fmt.Fprintf(w, ", load %s", t.Load)
	}
	fmt.Fprintf(w, ". Both programs in turn, call by call (`make bench-beside`).\n"+
		"Milliseconds of a call: least, median (quartiles' distance in per cent of it); \"times\" is of the least ones.\n"+
		"With one thread the time is the thread's own, else the clock's. PyTorch has the better of its two layouts for\n"+
		"convolutions and group norm.\n\n")
	fmt.Fprint(w, "| operation | dtype | threads | rows | times faster, geometric mean | least |\n|---|---|---|---|---|---|\n")
	for _, g := range t.groups() {
		sum, least := 0.0, math.Inf(1)
		for _, r := range g {
			sum += math.Log(r.faster())
			least = min(least, r.faster())
		}
		fmt.Fprintf(w, "| %s | %s | %d | %d | %.2f | %.2f |\n", g[0].Op, g[0].DType, g[0].Threads, len(g), math.Exp(sum/float64(len(g))), least)
	}
	fmt.Fprint(w, "\n| operation | shape | dtype | threads | darkroom | PyTorch | times |\n|---|---|---|---|---|---|---|\n")
	for _, r := range t.Rows {
		cell := func(x times) string { return fmt.Sprintf("%.3f, %.3f (%.0f)", x.Min, x.Median, 100*x.Spread) }
		fmt.Fprintf(w, "| %s | %s | %s | %d | %s | %s | %.2f |\n", r.Op, r.shape(), r.DType, r.Threads, cell(r.Ours), cell(r.Theirs), r.faster())
	}
}

// groups are rows of one operation, type and number of threads, in the order of the first of each.
func (t table) groups() (groups [][]row) {
	for _, r := range t.Rows {
		i := slices.IndexFunc(groups, func(g []row) bool { return g[0].Op == r.Op && g[0].DType == r.DType && g[0].Threads == r.Threads })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// Lines of the page around a table: one table for each CPU and path.
const (
	opening = "<!-- bench-beside %s -->\n"
	closing = "<!-- /bench-beside -->\n"
)

// into writes the table to the page, in place of the one for the same CPU and path, or before those for others.
func (t table) into(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(opening, "%s")
	head, tail, ok := strings.Cut(string(text), first)
	if !ok {
		return fmt.Errorf("%s has no line %q, before which the table goes", page, first)
	}
	tail = first + tail
	own := fmt.Sprintf(opening, t.CPU+", path "+t.Path)
	if before, rest, again := strings.Cut(tail, own); again {
		_, after, ok := strings.Cut(rest, closing)
		if !ok {
			return fmt.Errorf("%s has no line %q after %q, up to which the table goes", page, closing, own)
		}
		head, tail = head+before, strings.TrimPrefix(after, "\n")
	}
	var b bytes.Buffer
	b.WriteString(head + own)
	t.write(&b)
	b.WriteString(closing)
	if tail != "" {
		b.WriteString("\n" + tail)
	}
	return os.WriteFile(page, b.Bytes(), 0o644)
}
