package rollout_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/tools/program"
)

// counting is an interpreter that says which request of its episode it answers.
const counting = `n=0; while read -r line; do n=$((n+1)); echo "{\"n\":$n,\"ready\":\"a shell\",\"text\":\"$n\"}"; done`

// TestProgramsInEpisodes: code that the model writes is run in turn by an interpreter of its episode, its output is
// read and not trained on, and an episode is the same whatever is played beside it. Code that cannot be run is an
// error.
func TestProgramsInEpisodes(t *testing.T) {
	p := policy(t, false, ".*")
	p.Protocol = tools.PyVision(0.1)
	p.Protocol.Read = func(text string) tools.Reading {
		return tools.Reading{Calls: []tools.Call{{Name: "python", Args: text}}}
	}
	p.Exec = &program.Options{}
	p.Exec.SetDefaults()
	p.Exec.Command = []string{"/bin/sh", "-c", counting}
	var want []trainer.Sample
	for _, parallel := range []int{1, 3} {
		p.Parallel = parallel
		samples := rolled(t, p, keys(0))
		if want == nil {
			want = samples
		}
		longest := 0
		for i, s := range samples {
			e := rollout.EpisodeOf(s)
			if !reflect.DeepEqual(e.Transcript, rollout.EpisodeOf(want[i]).Transcript) {
				t.Errorf("sample %d differs, %d beside it", i, parallel-1)
			}
			longest = max(longest, e.Answers)
			for k := range e.Answers { // its own requests: 1 began it
				turn := e.Turns[k]
				read := p.VLM.Tokens.Decode(e.Tokens[turn.To:turn.Observed])
				if !strings.Contains(read, "Text Result:\n"+string(rune('2'+k))+"<") {
					t.Errorf("sample %d, turn %d read %q", i, k, read)
				}
				for at := turn.To; at < turn.Observed; at++ {
					if e.Sampled[at] {
						t.Errorf("sample %d: token %d of what was printed is trained on", i, at)
					}
				}
			}
		}
		if longest < 2 {
			t.Errorf("no episode reads twice: nothing is shown")
		}
	}
	p.Exec.Command = []string{"no-such-sandbox"}
	if _, err := p.Roll(trainer.Current, keys(0)); err == nil || !strings.Contains(err.Error(), "bwrap") {
		t.Errorf("%v", err)
	}
}
