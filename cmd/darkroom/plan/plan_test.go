package plan

import (
	"context"
	"errors"
	"testing"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestPlanEnds: a plan that is interrupted while memory is counted, or after it, is no plan without memory.
func TestPlanEnds(t *testing.T) {
	const text = `
[run]
name = "small"
iterations = 2
[model]
path = "embed:tiny-sd3"
[sampler]
steps = 4
[rollout]
prompts = "embed:scenes"
prompts_per_iteration = 1
group = 2
[[reward]]
name = "scene"
`
	for n := 1; ; n++ {
		e, err := experiment.Parse("small.toml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx := &ending{Context: t.Context(), n: n}
		cmd := &cobra.Command{}
		cmd.SetContext(ctx)
		all, err := documented(cmd, e, false)
		if ctx.looks < n {
			if err != nil || all.Memory == nil || n < 3 {
				t.Errorf("after %d looks: %v, %q", ctx.looks, err, all.Why)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("over at look %d: %v, %q", n, err, all.Why)
		}
	}
}

// ending is a context that is over from the n-th look on.
type ending struct {
	context.Context
	n, looks int
}

func (c *ending) Err() error {
	if c.looks++; c.looks >= c.n {
		return context.Canceled
	}
	return nil
}
