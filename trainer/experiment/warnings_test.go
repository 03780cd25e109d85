package experiment

import (
	"slices"
	"strings"
	"testing"
)

// TestIdleSettings: every setting without effect has a warning, and none where the file gives it an effect.
func TestIdleSettings(t *testing.T) {
	talks := []string{"episode={turns=2}", "reward=[{name='accuracy'}]"}
	spoken := func(sets ...string) []string { return append(slices.Clone(talks), sets...) }
	noised := []string{"loss.objective=rwr", "advantage.estimator=dr"}
	two := `reward=[{name="layout", label="a"}, {name="jpeg", label="b"}]`
	for _, c := range []struct {
		says       string
		sets, gain []string // the settings; settings that give them an effect
	}{
		{"loss.clip_range = 0.001 has nothing to act on: every ratio is 1", []string{"loss.clip_range=1e-3"}, []string{"optim.updates=2"}},
		{"loss.clip_range = 0.001 has nothing to act on: every ratio is 1", []string{"loss.clip_range=1e-3"}, []string{"run.lag=1"}},
		{"loss.clip_range = 0.001 has nothing to act on: every ratio is 1", []string{"loss.clip_range=1e-3"}, []string{"rollout.buffer={}"}},
		{"loss.clip_high = 0.28 has nothing", spoken("loss.clip_high=0.28"), []string{"optim.updates=2"}},
		{`loss.ratio = "guard_plain" has nothing`, []string{"loss.ratio=guard_plain"}, []string{"optim.updates=2"}},
		{`loss.objective = "guard" has nothing to act on: objective "guard" is the plain policy gradient`, []string{"loss.objective=guard"}, []string{"optim.updates=2"}},
		{`loss.objective = "dppo" has nothing`, []string{"loss.objective=dppo"}, []string{"optim.updates=2"}},
		{`loss.objective = "cispo" has nothing`, spoken("loss.objective=cispo"), []string{"optim.updates=2"}},
		{`loss.noise_floor = "stop" has nothing to act on: rounding cuts nothing`, []string{"loss.noise_floor=stop"}, []string{"optim.updates=2"}},
		{"loss.kl.weight = 0.1 has nothing to act on: the old weights are the current ones", []string{"loss.kl={weight=0.1, reference='old'}"}, []string{"loss.kl.reference=base"}},
		{`loss.kl.weight = 0.1 has nothing to act on: objective "rwr" asks no reference`, append(slices.Clone(noised), "loss.kl={weight=0.1, estimator='velocity'}"), []string{"loss.objective=nft"}},
		{`loss.kl.reference = "stage" has nothing to act on: loss.kl.weight is 0`, []string{"loss.kl.reference=stage"}, []string{"loss.kl.weight=0.01"}},
		{"optim.lr = 1e-06 has nothing to act on: an adapter begins at 0", []string{"optim.lr=1e-6"}, []string{"model.train=full"}},
		{"optim.lr = 1e-06 has nothing to act on: an adapter begins at 0", []string{"optim.lr=1e-6"}, []string{"optim.lr=1e-4"}},
		{"optim.split = true has nothing", []string{"optim.split=true"}, []string{"optim.updates=2"}},
		{"optim.warmup = 50 has nothing to act on: there are 40 updates", []string{"optim.warmup=50"}, []string{"optim.updates=2"}},
		{"optim.ema_every = 8 has nothing", []string{"optim.ema_every=8"}, []string{"optim.ema=0.9", "evaluate.weights=ema"}},
		{"optim.schedule_steps = 90 has nothing", []string{"optim.schedule_steps=90"}, []string{"optim.schedule=cosine"}},
		{`advantage has nothing to act on: objective "distill" compares no samples`, []string{"loss.objective=distill", "loss.kl={reference='stage', guidance=3}", "advantage.estimator=dr"}, []string{"loss.objective=clip", "loss.kl={weight=0.1, reference='base'}"}},
		{`advantage.singleton = "raw" has nothing`, []string{"rollout.group=1", "advantage.singleton=raw"}, []string{"rollout.group=4"}},
		{`advantage.estimator = "batch" has nothing to act on: a batch of one`, []string{"rollout.group=1", "rollout.prompts_per_iteration=1", "advantage.estimator=batch"}, []string{"rollout.prompts_per_iteration=4"}},
		{"advantage.turns has nothing", spoken("rollout.group=1", "advantage={estimator='batch', turns={}}"), []string{"rollout.group=4"}},
		{"advantage.filter has nothing", []string{"rollout.group=1", "advantage={estimator='history', filter={by='deviation'}}"}, []string{"rollout.group=4"}},
		{"rollout.shared_noise = true has nothing", []string{"rollout.group=1", "advantage.estimator=history", "rollout.shared_noise=true"}, []string{"rollout.group=4"}},
		{"advantage.keep has nothing", spoken("rollout.group=4", "advantage.keep={of=4}"), []string{"rollout.group=8"}},
		{"advantage.best_of = 4 has nothing", []string{"rollout.group=4", "advantage.best_of=4"}, []string{"rollout.group=8"}},
		{`rewards.combine = "least" has nothing`, []string{"rewards.combine=least"}, []string{two}},
		{`advantage.combine = "advantages" has nothing`, []string{"advantage.combine=advantages"}, []string{two}},
		{`sampler.negative = "blur" has nothing`, []string{"sampler.guidance=1", "sampler.negative=blur"}, []string{"sampler.guidance=4"}},
		{`sampler.outside = "dpm++2m" has nothing`, append(slices.Clone(noised), "sampler.outside=dpm++2m"), []string{"loss.objective=clip", "advantage.estimator=group"}},
		{"sampler.noise = 0.5 has nothing to act on: euler draws nothing", append(slices.Clone(noised), "sampler.noise=0.5", "sampler.solver=euler"), []string{"sampler.solver=dance"}},
		{"sampler.noise = 0.5 has nothing to act on: renoise draws as much", append(slices.Clone(noised), "sampler.noise=0.5", "sampler.solver=renoise"), []string{"sampler.solver=dance"}},
		{"episode.tools = ", spoken("episode={turns=1, tools=['zoom'], protocol='darkroom'}"), []string{"episode.turns=2"}},
		{"episode.overlong has nothing to act on: an episode ends at 500 tokens", spoken("episode={turns=2, tokens=500, overlong={limit=9000, buffer=100}}"), []string{"episode.tokens=9000"}},
		{"sampler.eval_steps = 9 has nothing to act on: nothing is held out", []string{"evaluate.prompts=''", "sampler.eval_steps=9"}, []string{"evaluate.prompts=held"}},
		{"model.lora has nothing", []string{"model.train=full", "model.lora={rank=4}"}, []string{"model.train=lora"}},
		{"model.lora.rank = 4 has nothing to act on: the adapter", []string{"model.lora.rank=4", "model.adapter=a"}, []string{"model.adapter=''"}},
		{"run.lag = 2 has nothing", spoken("run.lag=2", "loss.objective=sft", "rollout.lessons=a.jsonl", "rollout.group=1"), []string{"loss.objective=clip", "rollout.lessons=''", "rollout.group=4"}},
		{"monitor[0] has nothing to act on: clip_fraction", []string{"monitor=[{watch='clip_fraction', rises_above=0.5}]"}, []string{"optim.updates=2"}},
		{"reward[1].gate.at_least = 2 is passed by no sample: reward \"scene\" is at most 1", []string{`reward=[{name="scene"}, {name="jpeg", gate={by="scene", at_least=2}}]`}, []string{`reward=[{name="scene"}, {name="jpeg", gate={by="scene", at_least=0.5}}]`}},
		{"reward[1].gate has nothing to act on: at_least = 0 is passed by every sample", []string{`reward=[{name="scene"}, {name="jpeg", gate={by="scene"}}]`}, []string{`reward=[{name="scene"}, {name="jpeg", gate={by="scene", at_least=0.5}}]`}},
		// Rewards that the estimator does not take.
		{`estimator = "beta" takes rewards from 0 to 1 and ends the run at others, and nothing bounds those of "jpeg"; reward[0].scale = {`, []string{"preset=bnpo", "optim.lr=1e-4"}, []string{"reward.0.scale={kind='range', low=-9, high=0, clamp=true}"}},
		{`estimator = "tracker" takes rewards from 0 to 1 and ends the run at others, and nothing bounds those of "jpeg"; reward[0].scale = {`, []string{"preset=single_stream", "rollout.prompts_per_iteration=64"}, []string{"reward=[{name='scene'}]"}},
		{`takes rewards from 0 to 1 and ends the run at others, and all together lie from 0 to 2; advantage.range = [0, 2], or scales and weights`, []string{"preset=bnpo", "reward=[{name='scene', weight=2}]"}, []string{"advantage.range=[0,2]"}},
		{`takes rewards from 0 to 1 and ends the run at others, and all together lie from -1 to 1; advantage.range = [-1, 1], or scales`, []string{"preset=bnpo", "reward=[{name='scene'}, {name='shade', weight=-1}]"}, []string{"reward.1.weight=0.5", "advantage.shares=true"}},
		{`and all together lie from -1 to 1; scales`, spoken("preset=single_stream", "rollout.prompts_per_iteration=64", "reward=[{name='accuracy', rule='dapo'}]"), []string{"reward.0.scale={kind='range', low=-1, high=1}"}},
		{`and "look" lies from -2 to 1; advantage.range = [-2, 1]`, spoken("preset=bnpo", "reward=[{name='accuracy'}, {name='look', gate={by='accuracy', at_least=0.5, else=-2}}]", "advantage.combine=advantages"), []string{"reward.1.gate.else=0"}},
		{"stage[1].loss.clip_range has nothing", []string{"optim.updates=2", "stage=[{iterations=10}, {iterations=30, loss.clip_range=1e-3, optim.updates=1}]"}, []string{"stage.1.optim.updates=3"}},
	} {
		quiet := []string{"evaluate.prompts=held", "monitor=[{watch='total', rises_above=1}]"}
		for i, all := range [][]string{slices.Concat(quiet, c.sets), slices.Concat(quiet, c.sets, c.gain)} {
			e, err := Parse("a.toml", []byte(least), all)
			if err != nil {
				t.Errorf("%q: %v", all, err)
				continue
			}
			p, err := e.Plan()
			if err != nil {
				t.Fatal(err)
			}
			warned := strings.Join(p.Warnings, "\n")
			if told := strings.Contains(warned, c.says); told != (i == 0) {
				t.Errorf("%s, told %v with %q:\n%s", c.says, told, all, warned)
			}
		}
	}
	e := parse(t, least, "preset=grpo_guard", "optim.updates=1")
	p, err := e.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if warned := strings.Join(p.Warnings, "\n"); !strings.Contains(warned, `loss.objective = "guard" (preset grpo_guard)`) {
		t.Errorf("what a preset sets is not told as its own: %s", warned)
	}
}
