package experiment

import (
	"slices"
	"strings"
	"testing"
)

// TestLists: stages name lists of their own, shares are those of the lists that they are written beside, and the plan
// names the data of each.
func TestLists(t *testing.T) {
	e := parse(t, strings.Replace(least, `prompts = "embed:scenes"`, "prompts = [\"a.txt\", \"b.jsonl\"]\nshares = [3, 1]\nprompts_per_iteration = 8", 1)+`
[[stage]]
iterations = 10
[[stage]]
iterations = 10
rollout = { prompts = "c.txt" }
[[stage]]
iterations = 10
train = "blocks.1.*"
rollout = { shares = [1, 1] }
[[stage]]
iterations = 10
rollout = { prompts = "album", offline = true, group = 1 }
loss = { objective = "sft" }
advantage = { estimator = "best" }
`)
	var names []string
	for _, l := range e.Lists() {
		names = append(names, l.Name)
		if l.Offline != (l.Name == "album") || l.Turn != map[string]int{"c.txt": 1, "album": 3}[l.Name] {
			t.Errorf("%+v", l)
		}
	}
	if !slices.Equal(names, []string{"a.txt", "b.jsonl", "c.txt", "album"}) || e.AllOffline() {
		t.Errorf("lists %q", names)
	}
	at := e.EachStage()
	if len(at[1].Rollout.Shares) != 0 || !slices.Equal(at[0].Rollout.PromptsPerList(), []float64{6, 2}) || !slices.Equal(at[2].Rollout.PromptsPerList(), []float64{4, 4}) {
		t.Errorf("shares %v, %v, %v", at[0].Rollout.PromptsPerList(), at[1].Rollout.Shares, at[2].Rollout.PromptsPerList())
	}
	if at[0].Rollout.SamePrompts(at[2].Rollout) || !at[2].Moves().Has("blocks.1.to_q.lora_A.weight") || at[2].Moves().Has("blocks.2.to_q") || !at[0].Moves().Has("blocks.2.to_q") {
		t.Error("a stage goes on with other shares, or moves something else")
	}
	p, err := e.Plan()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"of a.txt (3), b.jsonl (1) by shares", "of c.txt", "blocks.1.* of what is trained", "with pictures of album are learned from"} {
		said := ""
		for _, f := range p.Stages[i].Facts {
			said += f.How + "\n"
		}
		if !strings.Contains(said, want) {
			t.Errorf("stage %d: no %q in\n%s", i, want, said)
		}
	}
	roundTrip(t, e)
}
