package main

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// later are operations of the copied families that a later part of Darkroom brings.
var later = []string{}

// unfinished areas are being built: what is missing of them is only listed.
var unfinished = []string{}

// TestGolden holds every operation that exists to the repository's copies of the
// recorded cases, and lists those that do not exist yet.
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
		area, _, _ := strings.Cut(op.Op, ".")
		switch {
		case !op.Unsupported || slices.Contains(later, op.Op):
		case slices.Contains(unfinished, area):
			t.Logf("not yet: %s (%d cases)", op.Op, op.Cases)
		default:
			t.Errorf("%s does not exist, and has %d cases", op.Op, op.Cases)
		}
		if !op.Unsupported && slices.Contains(later, op.Op) {
			t.Errorf("%s exists: strike it off the list of later ones", op.Op)
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
