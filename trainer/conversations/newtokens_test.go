package conversations

import (
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/rigs/sfttest"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// TestNewTokens: rows of tokens that are given anew are drawn, by the run's seed, and all other rows keep their bits; a
// token that the tokenizer does not have is named, and so is a matrix that is not trained.
func TestNewTokens(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	open := func(sets ...string) (*Model, error) {
		e := sfttest.Experiment(t, "embed:zoom-lessons", sets...)
		return OpenModel(e, model.Options{Backend: be})
	}
	rows := func(sets ...string) (x []float32, m *Model) {
		m, err := open(sets...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		for _, p := range m.VLM.Params.All() {
			if p.Name == "model.embed_tokens.weight" {
				x = slices.Clone(p.Value.F32())
			}
		}
		return x, m
	}
	const call = `model.new_tokens=["<tool_call>", "</tool_call>"]`
	plain, m := rows()
	first, _ := rows(call)
	again, _ := rows(call)
	other, _ := rows(call, "run.seed=9")
	if !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Error("rows do not follow from the run's seed")
	}
	ids, err := chat.TokenIDs(m.VLM.Tokens, []string{"<tool_call>", "</tool_call>"})
	if err != nil {
		t.Fatal(err)
	}
	width := len(plain) / m.VLM.Model.Text.Vocabulary
	for id := range m.VLM.Model.Text.Vocabulary {
		a, b := plain[id*width:(id+1)*width], first[id*width:(id+1)*width]
		if slices.Equal(a, b) == slices.Contains(ids, int32(id)) {
			t.Errorf("row %d: drawn %v", id, !slices.Equal(a, b))
		}
	}
	drawn := make([]float32, 6)
	x := []float32{2, -2, 2, -2, 2, -2}
	chat.InitRows(x, []int32{1}, 2, rng.New(3))
	rng.New(3).Sample(0).Normal(drawn[:2], 0)
	if !slices.Equal(x, []float32{2, -2, 2 * drawn[0], 2 * drawn[1], 2, -2}) {
		t.Errorf("%v: the second row was to be twice %v", x, drawn[:2])
	}
	for says, sets := range map[string][]string{
		`no token "<crop>"`: {`model.new_tokens="<crop>"`}, "model.embed_tokens.weight is not trained": {call, `model.train='model\.layers.*'`},
	} {
		if _, err := open(sets...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v", sets, err)
		}
	}
	if _, err := experiment.Parse("x.toml", []byte("[model]\npath = \"x\"\nnew_tokens = \"a\"\n[rollout]\nprompts = \"p\"\n[episode]\n[[reward]]\nname = \"accuracy\"\n"), nil); err == nil || !strings.Contains(err.Error(), "an adapter leaves them") {
		t.Errorf("new tokens beside an adapter: %v", err)
	}
}
