package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/cmd/internal/device"
)

// Options choose what Run runs, and on what.
type Options struct {
	Op      string                         // a pattern of operations, as of path.Match; empty: all
	Backend func() (device.Backend, error) // opens what a case computes with; nil: the CPU
}

// openCPU is what cases compute with by default.
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

// Run runs the cases of files and folders. What is wrong with a case or a file is
// in the report; the error is for a path that leads nowhere and for a bad pattern.
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
			c.seen.open = o.Backend
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
