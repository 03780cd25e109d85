package run

import "testing"

// TestMore: prompts that fail get further samples, which are compared with the first ones.
func TestMore(t *testing.T) {
	dir := t.TempDir()
	e := parse(t, "run.iterations=1", "evaluate.every=0", "optim.updates=1", "rollout.more={most=5, success=1e9}")
	if _, err := train(t, e, dir, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	line := ledgerOf(t, dir)[0]
	if c := line.Selection; line.Samples != 10 || c == nil || c.Rolls != 2 || c.Groups != 2 || c.Learned != 10 {
		t.Errorf("%d samples, %+v", line.Samples, c)
	}
	if f := line.Check; f == nil || f.Ratio != 1 {
		t.Errorf("the check is %+v", f)
	}
}
