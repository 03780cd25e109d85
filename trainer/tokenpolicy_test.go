package trainer

import (
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// speaker is a policy of tokens whose log-probabilities are given.
type speaker struct {
	now, reference map[Key][]float64
	entropy        float64
	back           [][]float64
}

func (s *speaker) Roll(Weights, []Key) ([]Sample, error) { return nil, nil }
func (s *speaker) Params() Params                        { return nil }

func (s *speaker) Eval(w Weights, at []Point) (Forward, error) {
	var a Forward
	for _, p := range at {
		of := s.now
		if w == Reference {
			of = s.reference
		}
		out := append([]float64(nil), of[p.Key]...)
		if p.Entropy {
			for range of[p.Key] {
				out = append(out, s.entropy)
			}
		}
		a.Outputs = append(a.Outputs, out)
	}
	a.Back = func(grads [][]float64) error { s.back = grads; return nil }
	return a, nil
}

// conversation is an episode of tokens.
type conversation struct {
	prompt  int
	logProb []float64
}

func (c conversation) Begins() int             { return c.prompt }
func (c conversation) Length() int             { return len(c.logProb) - c.prompt }
func (c conversation) Chosen() []int           { return nil }
func (c conversation) Drawn(place int) float64 { return c.logProb[place] }

// saidSample is an episode with a prompt of two tokens, a turn, an observation of three, a turn.
func saidSample(k Key, logProbs ...float64) Sample {
	s := Sample{Key: k}
	half := len(logProbs) / 2
	t := conversation{2, make([]float64, 2+len(logProbs)+3)}
	for i, lp := range logProbs {
		at := 2 + i
		if i >= half {
			at += 3
		}
		t.logProb[at] = lp
		s.Decisions.Step = append(s.Decisions.Step, at)
		s.Decisions.LogProb = append(s.Decisions.LogProb, lp)
		s.Decisions.Trained = append(s.Decisions.Trained, true)
	}
	s.Item.Episode = t
	return s
}

func spokenBatch() ([]Sample, *speaker) {
	a, b := Key{Sample: 0}, Key{Sample: 1}
	samples := []Sample{saidSample(a, -1, -2), saidSample(b, -0.5, -0.25, -3, -1)}
	now := map[Key][]float64{a: samples[0].Decisions.LogProb, b: samples[1].Decisions.LogProb}
	return samples, &speaker{now: now, reference: map[Key][]float64{a: {-1, -1}, b: {-1, -1, -1, -1}}}
}

// TestTokenPolicyFirstUpdate: right after a roll every ratio is 1, and the gradient is that of the
// policy, whatever is between turns.
func TestTokenPolicyFirstUpdate(t *testing.T) {
	for _, objective := range []string{"clip", "gspo", "cispo", "sapo"} {
		samples, p := spokenBatch()
		o := TokenPolicy{Loss: loss.DefaultTokens()}
		o.Loss.Objective = objective
		b, err := o.Evaluate(p, samples, []float64{1, -2})
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Metrics["ratio"]) != 6 {
			t.Errorf("%s: %d ratios", objective, len(b.Metrics["ratio"]))
		}
		for _, r := range b.Metrics["ratio"] {
			if r != 1 {
				t.Errorf("%s: a ratio is %v", objective, r)
			}
		}
		for i, want := range []float64{-1. / 6, 2. / 6} {
			for k, g := range p.back[i] {
				if math.Abs(g-want) > 1e-12 {
					t.Errorf("%s: gradient of token %d of sample %d is %v, not %v", objective, k, i, g, want)
				}
			}
		}
	}
}

// TestTokenPolicySilence: tokens that are not trained get no gradient, and do not count.
func TestTokenPolicySilence(t *testing.T) {
	samples, p := spokenBatch()
	samples[1].Decisions.Trained = make([]bool, 4)
	if _, err := (TokenPolicy{Loss: loss.DefaultTokens()}).Evaluate(p, samples, []float64{1, -2}); err != nil {
		t.Fatal(err)
	}
	if p.back[0][0] != -0.5 || p.back[1][0] != 0 {
		t.Errorf("gradients %v", p.back)
	}
}

// TestTokenPolicyReference: a penalty compares with the reference, and an entropy has its gradient
// behind those of the log-probabilities.
func TestTokenPolicyReference(t *testing.T) {
	samples, p := spokenBatch()
	p.entropy = 0.7
	o := TokenPolicy{Loss: loss.DefaultTokens(), Reference: true}
	o.Loss.KL, o.Loss.EntropyWeight = loss.Penalty{Weight: 1, Estimator: "k1"}, 0.5
	b, err := o.Evaluate(p, samples, []float64{0, 0})
	if err != nil {
		t.Fatal(err)
	}
	if want := (0 - 1 + 0.5 + 0.75 - 2 + 0) / 6; math.Abs(b.Metrics["kl"][0]-want) > 1e-12 {
		t.Errorf("kl %v, not %v", b.Metrics["kl"], want)
	}
	if n := len(p.back[1]); n != 8 || math.Abs(p.back[1][7]+0.5/6) > 1e-12 {
		t.Errorf("gradients %v", p.back[1])
	}
}

// TestTokenPolicyOwnAdvantages: credit that was given to tokens goes before the sample's.
func TestTokenPolicyOwnAdvantages(t *testing.T) {
	samples, p := spokenBatch()
	samples[0].Decisions.Advantage = []float64{3, -6}
	if _, err := (TokenPolicy{Loss: loss.DefaultTokens()}).Evaluate(p, samples, []float64{0, 0}); err != nil {
		t.Fatal(err)
	}
	if math.Abs(p.back[0][0]+0.5) > 1e-12 || math.Abs(p.back[0][1]-1) > 1e-12 {
		t.Errorf("gradients %v", p.back[0])
	}
	samples[0].Item.Episode = nil
	if _, err := (TokenPolicy{Loss: loss.DefaultTokens()}).Evaluate(p, samples, []float64{0, 0}); err == nil {
		t.Error("a picture was blamed for its words")
	}
}
