package main

import (
	"context"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// TestGolden holds every operation that exists to the repository's copies of the
// recorded cases.
func TestGolden(t *testing.T) {
	r, err := Run(context.Background(), []string{"../../internal/golden"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range r.Errors {
		t.Error(e)
	}
	for _, f := range r.Failures {
		t.Errorf("%s %s: %s", f.Op, f.Case, f.What)
	}
	if r.Cases < 900 {
		t.Errorf("only %d cases were found", r.Cases)
	}
	for _, op := range r.Ops {
		if op.Unsupported {
			t.Errorf("%s does not exist, and has %d cases", op.Op, op.Cases)
		}
	}
}

// TestOpsOnce: no operation stands in two areas' tables.
func TestOpsOnce(t *testing.T) {
	n := 0
	for _, area := range areas {
		n += len(area)
	}
	if all := len(Ops()); all != n {
		t.Errorf("%d operations, but %d entries in the tables", all, n)
	}
}

// TestMethodCases: each case of the table of methods is an operation.
func TestMethodCases(t *testing.T) {
	ops := Ops()
	holds := func(of string, cases []string) {
		for _, c := range cases {
			if ops[c] == nil {
				t.Errorf("%s: there is no operation %s", of, c)
			}
		}
	}
	for _, m := range experiment.Methods() {
		holds(m.Kind+" "+m.Name, m.Cases)
	}
	for _, p := range tools.Protocols() {
		holds("protocol "+p.Name, p.Cases)
	}
	for _, p := range experiment.Presets() {
		holds("preset "+p.Name.Name, experiment.PresetCases(p.Name.Name))
	}
}
