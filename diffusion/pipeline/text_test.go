package pipeline

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/outside/spent"
)

// TestFresh: each prompt that is not known is there once, in order; a long list takes no time that grows
// with its square.
func TestFresh(t *testing.T) {
	p := &texts{known: map[textKey]*Text{{prompt: "known"}: {}}}
	fresh := func(prompts ...string) (got []string) {
		for _, a := range p.fresh(abouts(nil, prompts)) {
			got = append(got, a.Prompt)
		}
		return got
	}
	if got := fresh("b", "known", "a", "b", "", "a", ""); !slices.Equal(got, []string{"b", "a", ""}) {
		t.Errorf("%q", got)
	}
	long := make([]string, 400000)
	for i := range long {
		long[i] = "a prompt of the same length " + strconv.Itoa(1000000+i)
	}
	begun := spent.CPU()
	if got := fresh(append(long, long...)...); len(got) != len(long) || spent.CPU()-begun > 20*time.Second {
		t.Errorf("%d prompts in %v of the CPU", len(got), spent.CPU()-begun)
	}
}
