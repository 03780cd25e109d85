package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/cmd/internal/device"
)

// Options choose the cases of Run, and their backend.
type Options struct {
	Op       string                         // a pattern of operations, as of path.Match; empty: all
	Networks string                         // folder of published networks, NETWORK/FILE.onnx; empty: their cases are skipped
	Backend  func() (device.Backend, error) // opens a case's backend; nil: the CPU
}

// openCPU is the default backend of cases.
func openCPU() (device.Backend, error) { return device.Open("cpu") }

// A Report says how the cases went.
type Report struct {
	Cases       int       `json:"cases"` // without the skipped ones
	Passed      int       `json:"passed"`
	Failed      int       `json:"failed"`
	Unsupported int       `json:"unsupported"` // cases of operations that are not known
	Skipped     int       `json:"skipped"`
	Ops         []Tally   `json:"ops"`
	Failures    []Failure `json:"failures"`
	Skips       []Failure `json:"skips,omitempty"`
	Errors      []string  `json:"errors,omitempty"` // files and cases that could not be read
}

// A Tally is the outcome of one operation.
type Tally struct {
	Op          string   `json:"op"`
	Cases       int      `json:"cases"`
	Passed      int      `json:"passed"`
	Worst       Fraction `json:"worst"` // largest error as a fraction of its tolerance
	Unsupported bool     `json:"unsupported,omitempty"`
	Skipped     int      `json:"skipped,omitempty"`
}

// A Fraction is an error divided by its tolerance. Where no number says it (an
// output is missing, a text differs) it is +Inf, which JSON writes as null.
type Fraction float64

func (f Fraction) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// A Failure is a case that did not pass, and why.
type Failure struct {
	Case string `json:"case"`
	Op   string `json:"op"`
	File string `json:"file"`
	What string `json:"what"`
}

// Run runs the cases of files and folders. Mistakes of a case or a file are in the report; the error is for a path
// that leads nowhere and for a bad pattern.
func Run(ctx context.Context, paths []string, o Options) (*Report, error) {
	return run(ctx, paths, o, Ops())
}

func run(ctx context.Context, paths []string, o Options, known map[string]Op) (*Report, error) {
	if o.Op == "" {
		o.Op = "*"
	}
	if _, err := path.Match(o.Op, ""); err != nil {
		return nil, fmt.Errorf("pattern %q of operations: %w", o.Op, err)
	}
	if o.Backend == nil {
		o.Backend = openCPU
	}
	r := &Report{Ops: []Tally{}, Failures: []Failure{}}
	tallies := map[string]*Tally{}
	l := loader{
		bad: func(err error) { r.Errors = append(r.Errors, err.Error()) },
		each: func(c recorded) {
			if ok, _ := path.Match(o.Op, c.seen.Op); !ok || ctx.Err() != nil {
				return
			}
			t := tallies[c.seen.Op]
			if t == nil {
				t = &Tally{Op: c.seen.Op}
				tallies[t.Op] = t
			}
			c.seen.open, c.seen.networks = o.Backend, o.Networks
			r.judge(c, known[c.seen.Op], t)
		},
	}
	for _, p := range paths {
		if err := l.load(p); err != nil {
			return nil, err
		}
	}
	for _, op := range slices.Sorted(maps.Keys(tallies)) {
		r.Ops = append(r.Ops, *tallies[op])
	}
	return r, ctx.Err()
}

// judge runs one case and counts it.
func (r *Report) judge(c recorded, op Op, t *Tally) {
	failure := Failure{Case: c.seen.Name, Op: c.seen.Op, File: c.file}
	if op == nil {
		r.Cases, r.Unsupported = r.Cases+1, r.Unsupported+1
		t.Cases, t.Unsupported = t.Cases+1, true
		return
	}
	err := attempt(op, c.seen)
	var skipped Skipped
	if errors.As(err, &skipped) {
		r.Skipped++
		t.Skipped++
		failure.What = skipped.Reason
		r.Skips = append(r.Skips, failure)
		return
	}
	worst := math.Inf(1)
	if err != nil {
		failure.What = err.Error()
	} else {
		worst, failure.What = compare(c.want, c.seen.ran.out, c.tols)
		if names := c.unread(); len(names) > 0 && failure.What == "" {
			failure.What = fmt.Sprintf("no adapter reads %s: the case may have been recorded in another form than was computed", strings.Join(names, ", "))
		}
	}
	r.Cases, t.Cases = r.Cases+1, t.Cases+1
	t.Worst = max(t.Worst, Fraction(worst))
	if failure.What == "" {
		r.Passed, t.Passed = r.Passed+1, t.Passed+1
		return
	}
	r.Failed++
	r.Failures = append(r.Failures, failure)
}

// attempt runs an op. A complaint about an input comes first: the op went on with
// a zero value, and whatever happened then follows from it. A panic is this
// case's failure, so that one mistake does not hide how the others went.
func attempt(op Op, c *Case) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			err = fmt.Errorf("panic: %v", p)
		}
		if c.ran.err != nil {
			err = c.ran.err
		}
	}()
	op(c)
	return nil
}

// Ops is every operation that cases may name: one table an area, each in the
// adapter file of that area.
func Ops() map[string]Op {
	all := map[string]Op{}
	for _, area := range areas {
		maps.Copy(all, area)
	}
	return all
}

var areas = []map[string]Op{
	advantageOps,
	clipMathOps,
	datasetOps,
	imageOps,
	lossOps,
	methodOps,
	modelOps,
	motionOps,
	neuralOps,
	networkOps,
	detectorOps,
	pipelineOps,
	quantOps,
	readerOps,
	faceOps,
	replyOps,
	rewardOps,
	scheduleOps,
	stepOps,
	tokenOps,
	toolOps,
	trainingOps,
	visionInputOps,
	visionModelOps,
}

// write prints a line an operation, and mistakes of single cases.
func write(w io.Writer, r *Report) {
	rows := [][4]string{{"OP", "CASES", "WORST", "RESULT"}}
	for _, op := range r.Ops {
		rows = append(rows, [4]string{op.Op, fmt.Sprint(op.Cases), worstText(op), resultText(op)})
	}
	var wide [4]int
	for _, row := range rows {
		for i, cell := range row {
			wide[i] = max(wide[i], len(cell))
		}
	}
	for _, row := range rows {
		fmt.Fprintf(w, "%-*s  %*s  %*s  %s\n", wide[0], row[0], wide[1], row[1], wide[2], row[2], row[3])
	}
	for _, f := range r.Failures {
		fmt.Fprintf(w, "FAIL %s %s (%s): %s\n", f.Op, f.Case, f.File, f.What)
	}
	for _, f := range r.Skips {
		fmt.Fprintf(w, "skip %s %s (%s): %s\n", f.Op, f.Case, f.File, f.What)
	}
	for _, e := range r.Errors {
		fmt.Fprintf(w, "ERROR %s\n", e)
	}
	fmt.Fprintf(w, "%d cases: %d passed, %d failed, %d unknown, %d skipped\n", r.Cases, r.Passed, r.Failed, r.Unsupported, r.Skipped)
}

func worstText(op Tally) string {
	if op.Unsupported || op.Cases == 0 || math.IsInf(float64(op.Worst), 0) {
		return "-"
	}
	return fmt.Sprintf("%.2g", float64(op.Worst))
}

func resultText(op Tally) string {
	result := "pass"
	switch {
	case op.Unsupported:
		return "unknown"
	case op.Cases == 0:
		return "skipped"
	case op.Passed < op.Cases:
		result = fmt.Sprintf("FAIL, %d of %d", op.Cases-op.Passed, op.Cases)
	}
	if op.Skipped > 0 {
		result += fmt.Sprintf(", %d skipped", op.Skipped)
	}
	return result
}

// verdict is the error that a report amounts to.
func verdict(r *Report, o Options, allowUnsupported bool) error {
	var wrong []string
	count := func(n int, format string) {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf(format, n))
		}
	}
	count(r.Failed, "%d cases differ")
	if !allowUnsupported {
		count(r.Unsupported, "%d cases have unknown operations")
	}
	count(len(r.Errors), "%d files or cases could not be read")
	switch {
	case len(wrong) > 0:
		return errors.New(strings.Join(wrong, ", "))
	case r.Cases+r.Skipped == 0 && o.Op != "":
		return fmt.Errorf("no case has an operation that matches %q", o.Op)
	case r.Cases+r.Skipped == 0:
		return errors.New("there are no cases")
	}
	return nil
}
