package experiment

import (
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// The plan follows the settings, not the names that set them.
func TestFacts(t *testing.T) {
	for _, c := range []struct {
		says string
		sets []string
	}{
		{"advantages group: reward less its group's mean, over its group's deviation (ddof 1, eps 1e-06 added)", nil},
		{"advantages group: reward less its group's mean, times its group's deviation", []string{"advantage.scale=inverse"}},
		{"advantages dr: reward less its group's mean", []string{"advantage.estimator=dr"}},
		{"over the batch's deviation (ddof 0, eps 0.5 at least) without the lowest 0.25, cut to ±5; the best and worst 4 are trained on", []string{"advantage={estimator='global', ddof=0, eps=0.5, eps_mode='floor', trim=0.25, clip=5, best_of=4}"}},
		{"advantages leave-one-out: reward less the mean of the others", []string{"advantage.estimator=leave-one-out"}},
		{"advantages history: reward compared with the last rewards of its prompt (9, from 3 on)", []string{"advantage={estimator='history', history={size=9, min=3}}"}},
		{", γ 0.5, λ 1, observations reset, whitened over the batch's tokens", []string{"episode={}", "advantage={estimator='reinforce++', credit={gamma=0.5}}"}},
		{"objective clip, ratios from 1 - 0.1 to 1 + 0.3; KL 0.2 to base, of means over the step's deviation", []string{"loss={clip_range=0.1, clip_high=0.3, kl={weight=0.2, over='deviation'}}"}},
		{"objective dppo, left out beyond a divergence of 0.5; no KL", []string{"loss={objective='dppo', threshold=0.5}"}},
		{"objective nft, β 2, advantages (binary) cut to ±3, 4 times of each sample; no KL", []string{"loss={objective='nft', beta=2, adv_mode='binary', adv_clip=3, times=4}"}},
		{"objective crd, by bce, β 2, advantages cut to ±3, 4 times of each sample; no KL", []string{"loss={objective='crd', beta=2, crd_match='bce', adv_clip=3, times=4}"}},
		{"objective sapo, token-mean, corrected by token, token_k1; KL 0.1 to base, k3", []string{"episode={}", "loss={objective='sapo', kl={weight=0.1, estimator='k3'}, correction={weights='token', reject='token_k1', bounds='2'}}"}},
		{"samples each, by texts with noise of 0.15 of their states, which falls to 0;", []string{"preset=nft", "rollout.text_noise={}"}},
		{"by texts with noise of 0.2 of their states; no guidance", []string{"preset=nft", "rollout.text_noise={strength=0.2, schedule='none'}", "sampler.guidance=1"}},
		{"rollout 4 prompts of embed:scenes, 12 samples each from one start noise; no guidance", []string{"rollout.shared_noise=true", "sampler.guidance=1"}},
		{"rollout 4 prompts of embed:scenes, 12 samples each at a step: 4 trunks with 3 branches; guidance 4.5 by two outputs", []string{"sampler.tree={kind='trunk', children=3}"}},
		{"optimiser rate 0.5, 2 updates an iteration, gradients cut to 3, moving average 0.9", []string{"optim={lr=0.5, updates=2, grad_clip=3, ema=0.9}"}},
		{"rewards ocr (embedded toy) × 2 where layout ≥ 0.5 + layout × 1; measured only: aesthetic (embedded toy)", []string{"reward=[{name='ocr', weight=2, gate={by='layout', at_least=0.5}}, {name='layout'}, {name='aesthetic', train=false}]"}},
		{"rewards soft × 2 where hard ≥ 0.5 + hard × 1", []string{"reward=[{name='jpeg', label='soft', weight=2, gate={by='hard', at_least=0.5}}, {name='jpeg', label='hard'}]"}},
		{"rewards jpeg^2 · sharpness^1", []string{"rewards.combine='product'", "reward=[{name='jpeg', weight=2}, {name='sharpness'}]"}},
		{"rewards the least of jpeg × 1, sharpness × 1; measured only: gold", []string{"rewards.combine='least'", "reward=[{name='jpeg'}, {name='sharpness'}, {name='jpeg', label='gold', train=false}]"}},
		{"programs code that the model writes is run by nobody -x -; a block has 3 seconds, and 16384 bytes and 8 pictures of what it makes are read; after an error the model sees the error and continues.", []string{"episode={protocol='pyvision', exec={command=['nobody', '-x', '-'], timeout=3}}"}},
		{"after an error the episode ends.", []string{"episode={protocol='pyvision', exec={command=['nobody'], errors='end'}}"}},
		{"model embed:tiny, f32; trains full", []string{"model={train='full', precision='f32', path='embed:tiny'}"}},
	} {
		p, err := parse(t, least, c.sets...).Plan()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range append(p.Facts, p.Stages[0].Facts...) {
			all = append(all, f.What+" "+f.How)
		}
		if got := strings.Join(all, "\n"); !strings.Contains(got, c.says) {
			t.Errorf("%s: no %q in\n%s", c.sets, c.says, got)
		}
	}
}

// TestProgramsAreWarnedOf: a command that is not here, and one with no sandbox.
func TestProgramsAreWarnedOf(t *testing.T) {
	for command, want := range map[string]string{"no-such-sandbox": "bwrap", "/usr/bin/python3": "no sandbox around it"} {
		p, err := parse(t, least+"[episode]\nprotocol = \"pyvision\"\nexec = { command = [\""+command+"\", \"-\"] }\n").Plan()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.Warnings, "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in\n%s", command, want, got)
		}
	}
}

// TestNothingToSearchIn: a protocol whose search nobody answers is warned of, where it may be called.
func TestNothingToSearchIn(t *testing.T) {
	served := "[]\n[[episode.tool]]\nname = \"search\"\nurl = \"http://localhost:8002\"\n"
	for tools, warned := range map[string]bool{`[]`: true, `["bbox"]`: false, `["search"]`: true, served: false} {
		p, err := parse(t, least+"[episode]\nprotocol = \"vrag\"\ntools = "+tools+"\n").Plan()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(p.Warnings, "\n"), "nothing to search in"); got != warned {
			t.Errorf("tools = %s: warned %v: %q", tools, got, p.Warnings)
		}
	}
}

// TestSeedsOfEpisodes: the draws of an option of episodes are listed where the option is on, and nowhere else.
func TestSeedsOfEpisodes(t *testing.T) {
	drawn := func(purpose rng.Purpose, sets ...string) bool {
		all := parse(t, least+"[episode]\n", sets...).seeds()
		return slices.ContainsFunc(all, func(s Seed) bool { return s.Purpose == purpose })
	}
	for set, purpose := range map[string]rng.Purpose{
		"episode.shuffled={share=0.5}": shuffling,
		"loss.perception={weight=0.1}": masking,
	} {
		if !drawn(purpose, set) || drawn(purpose) {
			t.Errorf("%s draws %q: listed %v, without it %v", set, purpose, drawn(purpose, set), drawn(purpose))
		}
	}
}
