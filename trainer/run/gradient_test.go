package run

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRewardGradient: two or three updates along the reward's own gradient raise it on the prompts that
// they saw, whichever way it goes.
func TestRewardGradient(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := t.TempDir()
	seen, again := filepath.Join(dir, "seen.txt"), filepath.Join(dir, "again.txt")
	for _, path := range []string{seen, again} {
		if err := os.WriteFile(path, []byte("three red circles on gray\na green triangle below a purple square on white\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, sets := range map[string][]string{
		"direct": {`loss.gradient={through="direct", step=0.1, low=0.5, high=0.98}`, "run.iterations=2"},
		"refl":   {`loss.gradient={through="refl", steps=3}`, "optim.lr=6e-3"},
		"draft":  {`loss.gradient={through="draft", steps=3}`, "optim.lr=6e-3"},
	} {
		t.Run(name, func(t *testing.T) {
			e := parse(t, append([]string{whole, "rollout.prompts=" + seen, "evaluate.prompts=" + again, "run.iterations=3", "rollout.group=2", "loss.objective=reward-gradient", `reward=[{name="clip"}]`,
				"sampler.solver=euler", "rollout.shared_noise=false", "sampler.eval_steps=4", "evaluate.every=0", "evaluate.samples=2", "optim.updates=1", "optim.lr=3e-3", `model.lora={rank=8, alpha=16, targets=["attn.to_q", "attn.to_v", "attn.add_k_proj", "attn.add_v_proj", "attn.to_out.0"]}`, "checkpoint.every=5"}, sets...)...)
			r, err := train(t, e, filepath.Join(t.TempDir(), "run"), false, 2, -1)
			if err != nil {
				t.Fatal(err)
			}
			if g := r.HeldOut["clip"]; !(g.After.Mean > g.Before.Mean+0.04) {
				t.Errorf("the reward went from %v to %v", g.Before.Mean, g.After.Mean)
			}
			t.Logf("%v to %v", r.HeldOut["clip"].Before.Mean, r.HeldOut["clip"].After.Mean)
		})
	}
}
