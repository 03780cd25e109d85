package preflight

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// rounds are the lines of a file with mistakes of every kind: keys, types, meanings, files, and their consequences.
// Each has its correction; "" stays as it is.
var rounds = [][2]string{
	{"[run]", ""},
	{`name = "bad"`, ""},
	{`iterations = "many"`, "iterations = 3"},
	{"seeed = 3", "seed = 3"},
	{"[model]", ""},
	{`path = "models/nowhere"`, `path = "embed:tiny-sd3"`},
	{`lora = { rank = 4, alpha = 8, targets = [] }`, `lora = { rank = 4, alpha = 8, targets = ["attn.to_q"] }`},
	{"[sampler]", ""},
	{`solver = "flow-sed"`, `solver = "flow-sde"`},
	{"steps = 10", ""},
	{"guidance = -1", "guidance = 1"},
	{`window = { kind = "sliding", size = 20 }`, `window = { kind = "sliding", size = 2 }`},
	{"[rollout]", ""},
	{`prompts = "nofile.txt"`, `prompts = "embed:scenes"`},
	{"group = 1", "group = 4"},
	{"[[reward]]", ""},
	{`name = "sharpnes"`, `name = "sharpness"`},
	{"[[reward]]", ""},
	{`name = "exec"`, ""},
	{`command = "nosuchprog"`, `command = "cat"`},
	{"[[reward]]", ""},
	{`name = "clip"`, ""},
	{`path = "nofolder"`, `path = "embed:tiny-clip"`},
	{`weight = "heavy"`, "weight = 1"},
	{"[loss]", ""},
	{`objective = "clipp"`, `objective = "clip"`},
	{`clip_range = "small"`, "clip_range = 1e-4"},
	{"[optim]", ""},
	{"lr = -1", "lr = 1e-4"},
	{"updates = 0", "updates = 2"},
	{"[evaluate]", ""},
	{`prompts = "gone.txt"`, `prompts = "embed:scenes-heldout"`},
	{"[[monitor]]", ""},
	{`watch = "gradiant"`, `watch = "gradient"`},
	{"rises_above = 1", ""},
}

// TestRounds: a user who corrects all reported mistakes, and checks again, gets all of them in two rounds.
func TestRounds(t *testing.T) {
	lines, mistaken := make([]string, len(rounds)), 0
	for i, l := range rounds {
		if lines[i] = l[0]; l[1] != "" {
			mistaken++
		}
	}
	var told []int
	for round := range 5 {
		e, err := experiment.Parse("x.toml", []byte(strings.Join(lines, "\n")), nil)
		if e != nil {
			_, err = Check(e, cpu.NewDry(cpu.Options{}))
		}
		if err == nil {
			break
		}
		var all config.Mistakes
		if !errors.As(err, &all) {
			t.Fatal(err)
		}
		told = append(told, len(all))
		mended := false
		for i, l := range rounds {
			if l[1] != "" && lines[i] == l[0] && strings.Contains(err.Error(), fmt.Sprintf("x.toml:%d:", i+1)) {
				lines[i], mended = l[1], true
			}
		}
		if !mended {
			t.Fatalf("round %d: nothing of this can be mended: %v", round+1, err)
		}
	}
	if t.Logf("%d mistakes were told of in rounds of %v", mistaken, told); len(told) > 2 || mistaken < 15 {
		t.Errorf("%d rounds: %v", len(told), told)
	}
}
