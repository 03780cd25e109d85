package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// withPreset is the least file with a preset.
func withPreset(t *testing.T, p Preset) *Experiment {
	t.Helper()
	text := fmt.Sprintf("preset = %q\n", p.Name.Name) + least
	published, err := p.Published()
	if err != nil {
		t.Fatal(err)
	}
	if published.Episode {
		text += "[episode]\n"
	}
	return parse(t, text)
}

// complain fails for every option that does not fit.
func complain(t *testing.T, what string) report {
	return func(key, problem, hint string) { t.Errorf("%s: %s: %s (%s)", what, key, problem, hint) }
}

// Every preset becomes options that their packages accept, and that compute something: rows
// of a sampler, advantages of rewards, and a loss with a gradient.
func TestPresetsTranslate(t *testing.T) {
	for _, p := range Presets() {
		e, name := withPreset(t, p), p.Name.Name
		e.Combination().Check(complain(t, name))
		translatesEstimator(t, name, e)
		switch o := e.Kind(); {
		case e.Episode != nil:
			translatesTokens(t, name, e)
		case o.OfFinished():
			translatesNoised(t, name, e)
		default:
			translatesSteps(t, name, e)
		}
	}
}

func translatesEstimator(t *testing.T, name string, e *Experiment) {
	t.Helper()
	rule := e.Advantage.Rule()
	rule.Check(complain(t, name))
	b := advantage.Batch{Groups: []int{0, 0, 0, 0, 1, 1, 1}, Rewards: [][]float64{{0.1, 0.2, 0.4, 0.1, 0.3, 0.3, math.NaN()}}, Prompts: []string{"a", "a", "a", "a", "b", "b", "b"},
		Features: [][]float64{{1, 0}, {0, 1}, {1, 1}, {1, 1}, {1, 0}, {0, 1}, {1, 1}}, Lengths: []float64{3, 4, 5, 6, 3, 4, 5}}
	a, _, err := rule.Advantages(b)
	if err != nil || !math.IsNaN(a[6]) || !(a[2] > a[0]) {
		t.Errorf("%s: advantages %v, %v", name, a, err)
	}
	if f := e.Advantage.Filter; f != nil {
		if kept := f.Kept([]int{0, 0, 1, 1}, []float64{1, 0, 1, 1}, nil); !slices.Equal(kept, []int{0, 1}) {
			t.Errorf("%s keeps %v", name, kept)
		}
	}
}

func translatesTokens(t *testing.T, name string, e *Experiment) {
	t.Helper()
	o := e.Loss.Tokens()
	o.Check(complain(t, name))
	x := loss.Tokens{LogProb: [][]float64{{-1.1, -2}}, Old: [][]float64{{-1, -2.05}}, Advantage: [][]float64{{1, 1}}, Mask: [][]float64{{1, 1}},
		Reference: [][]float64{{-1, -2}}, Sampler: [][]float64{{-1, -2}}, Entropy: [][]float64{{1, 1}}, Draw: [][]float64{{0.2, 0.1}}, Masked: [][]float64{{-3, -2}}}
	r, err := o.Of(x)
	if err != nil || r.Loss == 0 || r.Grad[0][0] == 0 && r.Grad[0][1] == 0 {
		t.Errorf("%s: %+v, %v", name, r, err)
	}
	c := e.Advantage.Credit
	if _, _, err := c.Of(advantage.Tokens{Groups: []int{0}, Mask: x.Mask, Outcome: []float64{1}, Rewards: x.Mask, LogProb: x.LogProb, SumSquares: x.Mask}); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

func translatesSteps(t *testing.T, name string, e *Experiment) {
	t.Helper()
	e.Loss.Clip().Check(complain(t, name))
	window := e.window(0)
	if tree := e.Sampler.Tree; tree != nil {
		translatesTree(t, name, e, window)
	}
	_, rows, err := e.Sampler.rows(e.drawn(window))
	if err != nil {
		t.Fatal(name, err)
	}
	x := loss.Terms{LogProb: []float64{-1, -1.00001}, Old: []float64{-1, -1}, Advantage: []float64{1, -2}, Mean: [][]float64{{0.1}, {0.2}}, MeanOld: [][]float64{{0.1}, {0.2}}, MeanRef: [][]float64{{0}, {0}}, LogProbRef: []float64{-1.1, -1.1},
		Std: []float64{0.5}, SqrtDt: []float64{0.3}, Deviation: []float64{0.2}, Sigma: []float64{0.9}, SigmaBelow: []float64{0.8}}
	for _, step := range e.trained(window) {
		row := rows[step]
		if !row.Stochastic() || row.Density == sde.None {
			t.Errorf("%s: step %d draws nothing", name, step)
		}
		if x.KLDenominator = []float64{e.Loss.KL.Denominator(row)}; !(x.KLDenominator[0] > 0) {
			t.Errorf("%s: KL of step %d is over %v", name, step, x.KLDenominator)
		}
	}
	r, err := e.Kind().Steps(e.Loss.Options)(x)
	if err != nil || r.GradLogProb[0] >= 0 || (r.KL > 0) != (e.Loss.KL.Weight > 0) {
		t.Errorf("%s: %+v, %v", name, r, err)
	}
}

func translatesTree(t *testing.T, name string, e *Experiment, window []int) {
	t.Helper()
	g, err := e.Sampler.Growth(window)
	if err != nil {
		t.Fatal(name, err)
	}
	var trees []*sde.Tree
	var scores [][]float64
	drawn := 0
	for range e.Sampler.Tree.Of().Starts(*e.Sampler.Tree, e.Rollout.Group) {
		tree, _, _ := g.Run(e.Sampler.Steps, []float64{0.3}, func(x []float64, _ int) []float64 { return x }, func() []float64 { drawn++; return []float64{math.Sin(float64(drawn))} })
		trees, scores = append(trees, tree), append(scores, make([]float64, len(tree.Leaves)))
		for i := range tree.Leaves {
			scores[len(scores)-1][i] = math.Cos(float64(i))
		}
	}
	a, err := e.Credit(make([]int, len(trees)), trees, scores)
	if err != nil {
		t.Fatal(name, err)
	}
	for n, drew := range trees[0].SDE {
		if drew && a[0][n] == 0 || math.Abs(a[0][n]) > e.Advantage.Clip {
			t.Errorf("%s: node %d has the advantage %v", name, n, a[0][n])
		}
	}
	if kept := e.Sampler.Tree.Prune.Kept(trees[0], a[0], g.Splits, e.Sampler.Steps, 0, 10); len(kept) == 0 {
		t.Errorf("%s trains no edge", name)
	}
}

func translatesNoised(t *testing.T, name string, e *Experiment) {
	t.Helper()
	x := loss.Noised{Clean: [][]float64{{1}, {2}}, Noise: [][]float64{{0}, {1}}, Time: []float64{0.3, 0.6}, V: [][]float64{{1}, {1}}, VOld: [][]float64{{0.9}, {0.9}}, VRef: [][]float64{{0}, {0}}}
	var grad [][]float64
	switch e.Loss.Objective {
	case "nft":
		o := e.Loss.NFT()
		grad = o.Of(x, advantage.Probability([]float64{1, -2}, e.Loss.AdvClip, e.Loss.AdvMode)).GradV
	case "awm":
		o := e.Loss.AWM()
		o.Check(complain(t, name))
		lp, _, err := loss.AWMLogProb(x, e.Loss.Weighting, e.Loss.Power, []float64{1, 1})
		if err != nil {
			t.Fatal(name, err)
		}
		r, err := o.Of(loss.AWMTerms{LogProb: [][]float64{lp}, Old: [][]float64{lp}, Advantage: []float64{1, -2}, V: x.V, VRef: x.VRef})
		if err != nil {
			t.Fatal(name, err)
		}
		grad = r.GradLogProb
	case "rwr":
		_, grad = loss.WeightedFlow(x, []float64{0.5, 1.5})
	case "dpo":
		grad = loss.DPO(x, [][2]int{{0, 1}}, e.Loss.Beta).GradV
	case "dgpo":
		_, grad = e.Loss.DGPO(2).Of(x, []float64{1, -2}, []int{0, 0})
	default:
		t.Fatalf("%s: nobody looked at objective %q", name, e.Loss.Objective)
	}
	if grad[0][0] == 0 || math.IsNaN(grad[0][0]) {
		t.Errorf("%s: gradient %v", name, grad)
	}
}

// A file's keys reach the options: every key of [loss] that an objective reads changes the result.
func TestLossKeysArrive(t *testing.T) {
	tokens := least + "[episode]\n"
	lessoned := strings.Replace(tokens, "[rollout]", "[rollout]\nlessons = 'written.jsonl'", 1)
	for _, c := range []struct {
		set  string
		base string
		of   func(e *Experiment) any
	}{
		{"clip_range=0.1", least, clip}, {"clip_high=0.3", least, clip}, {"dual_clip=3", least, clip}, {"ratio='guard_batch'", least, clip}, {"noise_weight=2", least, clip}, {"noise_scale=true", least, clip}, {"change_weight=1", least, clip},
		{"kl={weight=0.1}", least, clip}, {"kl={weight=0.1, estimator='k3'}", least, clip}, {"threshold=1", least, masked}, {"use_std=true", least, masked}, {"kl={weight=0.2}", least, masked},
		{"clip_range=0.1", tokens, tokenLoss}, {"clip_high=0.3", tokens, tokenLoss}, {"dual_clip=3", tokens, tokenLoss}, {"ratio_cap=4", tokens, tokenLoss}, {"sequence_ratio=true", tokens, tokenLoss}, {"tau_pos=2", tokens, tokenLoss}, {"tau_neg=2", tokens, tokenLoss},
		{"vespo={k_pos=1}", tokens, tokenLoss}, {"covariance={share=0.5}", tokens, tokenLoss}, {"drift=0.1", tokens, tokenLoss}, {"entropy_share=0.2", tokens, tokenLoss}, {"entropy_weight=0.1", tokens, tokenLoss}, {"perception={weight=0.1}", tokens, tokenLoss}, {"imitate={weight=0.5, least=0.5}", lessoned, imitation}, {"aggregate='seq-mean-token-sum'", tokens, tokenLoss}, {"aggregate_length=512", tokens, tokenLoss},
		{"kl={weight=0.1, estimator='k2'}", tokens, tokenLoss}, {"kl={corrected=true}", tokens, tokenLoss}, {"correction={weights='token'}", tokens, tokenLoss}, {"correction={reject='token_k1', bounds='2'}", tokens, tokenLoss}, {"objective='gspo'", tokens, tokenLoss},
		{"beta=0.1", least, nft}, {"adv_clip=2", least, nft}, {"kl={weight=0.3}", least, nft},
		{"clip_range=0.1", least, awm}, {"adv_clip=2", least, awm}, {"adv_max=2", least, awm}, {"ratios='exp_first'", least, awm}, {"elbo=true", least, awm}, {"kl={ema_weight=1}", least, awm},
		{"beta=0.1", least, crd}, {"adv_clip=2", least, crd}, {"kl={weight=0.3}", least, crd}, {"crd_match='bce'", least, crd}, {"crd_temperature=0", least, crd},
		{"crd_adaptive=false", least, crd}, {"crd_kl_by_reward=false", least, crd},
		{"beta=0.1", least, dgpo}, {"clip_far=true", least, dgpo}, {"clip_high=0.2", least, dgpo},
	} {
		with := parse(t, c.base, "loss."+c.set)
		if got, without := fmt.Sprintf("%+v", c.of(with)), fmt.Sprintf("%+v", c.of(parse(t, c.base))); got == without {
			t.Errorf("loss.%s changes nothing of %s", c.set, got)
		}
	}
	if l := parse(t, least, "loss.adv_mode='binary'").Loss; advantage.Probability([]float64{3}, l.AdvClip, l.AdvMode)[0] != 0.6 {
		t.Error("adv_mode changes nothing")
	}
}

func imitation(e *Experiment) any { return e.Loss.Imitate }
func clip(e *Experiment) any      { return e.Loss.Clip() }
func masked(e *Experiment) any    { return e.Loss.Masked() }
func tokenLoss(e *Experiment) any { return e.Loss.Tokens() }
func nft(e *Experiment) any       { return e.Loss.NFT() }
func awm(e *Experiment) any       { return e.Loss.AWM() }
func crd(e *Experiment) any       { return e.Loss.CRD() }
func dgpo(e *Experiment) any      { return e.Loss.DGPO(4) }

// Estimators' names become rules and credit that their package has.
func TestEstimators(t *testing.T) {
	for _, k := range advantage.Rules() {
		if k.Name == "tree" {
			continue // of nodes: TestPresetsTranslate; or refused
		}
		text := least
		if k.TokensOnly || k.Credit != "" {
			text += "[episode]\n"
		}
		e := parse(t, text, fmt.Sprintf("advantage.estimator=%q", k.Name))
		if k.Credit == "" && (e.Advantage.Credit.How != "spread") || k.Credit != "" && e.Advantage.Credit.How != k.Credit {
			t.Errorf("%s: credit %q", k.Name, e.Advantage.Credit.How)
		}
		x := advantage.Tokens{Groups: []int{0, 0}, Mask: [][]float64{{1, 0, 1}, {1, 1, 1}}, Outcome: []float64{1, -1}, Rewards: [][]float64{{0, 0, 1}, {0, 0, 0.5}}, Greedy: []float64{0.25, 0.25},
			LogProb: [][]float64{{-1, -1, -1}, {-1, -2, -1}}, SumSquares: [][]float64{{0.2, 0.3, 0.4}, {0.1, 0.2, 0.3}}}
		a, _, err := e.Advantage.Credit.Of(x)
		if err != nil || a[0][0] == 0 {
			t.Errorf("%s: %v, %v", k.Name, a, err)
		}
		if k.Credit != "" {
			continue // looks at rewards of tokens
		}
		b := advantage.Batch{Groups: []int{0, 0, 0}, Rewards: [][]float64{{0.1, 0.2, 0.4}}, Prompts: []string{"a", "a", "a"}, Features: [][]float64{{1, 0}, {0, 1}, {1, 1}}, Lengths: []float64{3, 4, 5}}
		if a, _, err := e.Advantage.Rule().Advantages(b); err != nil || !(a[2] > a[0]) {
			t.Errorf("%s: %v, %v", k.Name, a, err)
		}
	}
	e := parse(t, least+"[episode]\n", "advantage.estimator=remax")
	a, _, _ := e.Advantage.Credit.Of(advantage.Tokens{Mask: [][]float64{{1}}, Rewards: [][]float64{{1}}, Greedy: []float64{0.25}})
	if a[0][0] != 0.75 {
		t.Errorf("remax: %v", a)
	}
}

// Rewards, their scales and gates, and the treatment of long answers.
func TestShaping(t *testing.T) {
	e := parse(t, least, "reward=[{name='ocr', weight=3, scale={kind='range', low=1, high=3, clamp=true}}, {name='layout', gate={by='ocr', at_least=2, else=-1}}, {name='aesthetic', train=false}]", "advantage.shares=true")
	got, err := e.Combination().Of([][]float64{{2, 1, 5}, {1, 1, 1}})
	if err != nil || !slices.Equal(got, []float64{0.75*0.5 + 0.25, -0.25, 1}) {
		t.Errorf("%v, %v", got, err)
	}
	if c := e.Combination(); len(c.Parts) != 2 || c.Parts[1].Gate != (rewards.Gate{By: "ocr", AtLeast: 2, Else: -1}) {
		t.Errorf("%+v", c)
	}
	both, weights, err := e.Combined([][]float64{{2, 1, 5}, {1, 1, 1}})
	if err != nil || len(both) != 1 || !slices.Equal(both[0], got) || weights != nil {
		t.Errorf("%v, %v, %v", both, weights, err)
	}
	e.Advantage.How = "advantages"
	both, weights, err = e.Combined([][]float64{{2, 1, 5}, {1, 1, 1}})
	if err != nil || len(both) != 2 || !slices.Equal(both[0], []float64{0.5, 0, 1}) || !slices.Equal(both[1], []float64{1, -1, 1}) || !slices.Equal(weights, []float64{0.75, 0.25}) {
		t.Errorf("%v, %v, %v", both, weights, err)
	}
	if _, _, err := e.Combined([][]float64{{1}}); err == nil {
		t.Error("one reward of two")
	}
	e = parse(t, least+"[episode]\n", "episode.overlong={limit=100, buffer=20}", "episode.truncated=0.5")
	for _, c := range []struct {
		tokens    int
		truncated bool
		want      float64
	}{{70, false, 1}, {90, false, 0.5}, {100, true, -0.5}, {200, false, 0}} {
		if got := e.Episode.Shaped(1, c.tokens, c.truncated); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if got := parse(t, least+"[episode]\n").Episode.Shaped(1, 1e6, true); got != 1 {
		t.Errorf("nothing is asked for, and a reward of 1 becomes %v", got)
	}
}
