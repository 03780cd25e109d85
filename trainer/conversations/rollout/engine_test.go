package rollout_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/internal/rigs/enginetest"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/engine"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// engineTemperature makes the small model's words differ.
const engineTemperature = 1.5

// played is a policy whose tokens an engine draws, and the engine, which has a network of its own from the same folder.
// far makes the policy's side of a server of one kind: the server stays, so that faults can take turns.
func played(t *testing.T) (*rollout.Policy, *enginetest.Server, func(kind string)) {
	t.Helper()
	p, a := withAdapter(t, 64, 2, true)
	p.Limits, p.TurnTokens, p.Sampling.Temperature = tools.Limits{Turns: 2}, 12, engineTemperature
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	dir, pool := p.VLM.Dir, tensor.NewPool(be)
	s, err := enginetest.Serve(func() (*chat.VLM, error) {
		return chat.Open(dir, chat.Options{Pool: pool})
	})
	if err != nil {
		t.Fatal(err)
	}
	far := func(kind string) {
		if err := p.Engine.Close(); err != nil {
			t.Fatal(err)
		}
		e, err := engine.Open(engine.Options{Kind: kind, URL: s.URL, Model: "tiny", Timeout: time.Minute, Tries: 1, AtOnce: 2})
		if err != nil {
			t.Fatal(err)
		}
		p.Engine = &rollout.Engine{Engine: e, Tolerance: 0.2, Folder: t.TempDir(), Write: func(dir string) error {
			return peft.Write(dir, a, peft.Settings{Rank: 4, Alpha: 8})
		}}
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Engine.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		be.Close()
	})
	return p, s, far
}

// moved changes the policy's weights.
func moved(p *rollout.Policy) {
	for _, w := range p.Params().(*model.Learner).Moved() {
		x := slices.Clone(w.Value.F32())
		for i := range x {
			x[i] += 0.2 * float32(math.Sin(float64(i)))
		}
		w.Value.UploadF32(x)
		w.Updated()
	}
	p.Engine.Moved()
}

// few are two episodes of one question.
func few() []trainer.Key { return keys(0)[:2] }

// TestEngine: an engine's answer by either protocol is an episode like any other: pictures that tools make come back,
// likelihoods have the bits of Eval, and the engine's own are near.
// It follows the weights, and holds one adapter.
func TestEngine(t *testing.T) {
	p, s, far := played(t)
	pictures := 0
	for _, kind := range []string{"vllm", "sglang"} {
		far(kind)
		for version := range 2 {
			samples, err := p.Roll(trainer.Current, few())
			if err != nil {
				t.Fatal(kind, err)
			}
			a, err := p.Eval(trainer.Current, points(samples))
			if err != nil {
				t.Fatal(err)
			}
			for i, sample := range samples {
				e := rollout.EpisodeOf(sample)
				if e.Lost != nil || len(sample.Decisions.Step) == 0 {
					t.Fatalf("%s: %d tokens, %v", kind, len(sample.Decisions.Step), e.Lost)
				}
				pictures = max(pictures, len(e.Album.Pictures))
				if !slices.Equal(a.Outputs[i], sample.Decisions.LogProb) {
					t.Errorf("%s: Eval says %v, and the roll %v", kind, a.Outputs[i], sample.Decisions.LogProb)
				}
				for k, at := range sample.Decisions.Step {
					if d := e.LogProb[at] - sample.Decisions.LogProb[k]; math.Abs(d) > 1e-3 {
						t.Errorf("%s: token %d lies %v from the engine's", kind, at, d)
					}
				}
			}
			if p.Engine.Gap > 1e-3 || s.Loaded() != 1 {
				t.Errorf("%s, version %d: words lie %v apart, and the engine holds %d adapters", kind, version, p.Engine.Gap, s.Loaded())
			}
			moved(p)
		}
	}
	if pictures < 2 {
		t.Errorf("no tool's picture was shown to an engine")
	}
}

// TestEngineIsChecked: before the first token is learned from, each fault is named and refused.
func TestEngineIsChecked(t *testing.T) {
	p, s, far := played(t)
	for _, c := range []struct{ kinds, fault, want, says string }{
		{"vllm sglang", "wrong ids", engine.WrongIDs, "of a vocabulary of"},
		{"vllm sglang", "another tokenizer", engine.WrongIDs, "its tokenizer is another"},
		{"vllm", "banned", engine.WrongIDs, "which is banned"},
		{"vllm sglang", "dropped pictures", engine.LostPictures, "picture"},
		{"vllm sglang", "grey pictures", engine.LostPictures, "nearer to what we say behind a grey one"},
		{"vllm", "another processor", engine.LostPictures, "places there and"},
		{"vllm", "another precision", engine.OtherNumbers, "tolerance is 0.2"},
		{"sglang", "temperature", engine.OtherNumbers, "--logprobs-mode processed_logprobs"},
		{"sglang", "no log-probabilities", engine.NoLogProbs, "log-probabilities"},
		{"vllm", "too many tokens", engine.TooMany, "at most 16"},
		{"vllm", "garbage", engine.Unreadable, "<html>"},
		{"sglang", "dies", "", "EOF"},
		{"vllm", "stale name", engine.Stale, "darkroom-0-old"},
	} {
		for _, kind := range strings.Fields(c.kinds) {
			s.Commit(c.fault, 0)
			far(kind)
			p.Sampling.Temperature = engineTemperature
			if c.fault == "temperature" {
				p.Sampling.Temperature = 4
				p.Engine.Tolerance = 0.01
			}
			_, err := p.Roll(trainer.Current, few())
			if err == nil || engine.Refused(err) != c.want || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s of %s: %v (%q)", c.fault, kind, err, engine.Refused(err))
			}
			if c.fault != "another precision" {
				continue
			}
			p.Engine.Moved() // a later stage, or a worker's next job
			if _, again := p.Roll(trainer.Current, few()); engine.Refused(again) != c.want {
				t.Errorf("%s of %s, asked a second time by the same weights: %v", c.fault, kind, again)
			}
		}
	}
}

// TestEngineFails: an engine that fails while episodes are played makes them missing, and names why; one whose weights
// are not those that were asked for ends the roll.
func TestEngineFails(t *testing.T) {
	p, s, far := played(t)
	for _, kind := range []string{"vllm", "sglang"} {
		s.Commit("", 0)
		far(kind)
		if _, err := p.Roll(trainer.Current, few()[:1]); err != nil { // the check, once: the weights stay
			t.Fatal(err)
		}
		patient := p.Engine.Engine
		hasty, err := engine.Open(engine.Options{Kind: kind, URL: s.URL, Model: "tiny", Timeout: 300 * time.Millisecond, Tries: 1, AtOnce: 2})
		if err != nil {
			t.Fatal(err)
		}
		for fault, want := range map[string]string{"slow": "no answer in time", "dies": "EOF", "garbage": "<html>", "too many tokens": "at most 12 were asked for", "wrong ids": engine.WrongIDs,
			"no log-probabilities": engine.NoLogProbs, "dropped pictures": engine.LostPictures} {
			if kind == "vllm" && fault == "dropped pictures" {
				continue // which is seen when a picture is rendered
			}
			if p.Engine.Engine = patient; fault == "slow" {
				p.Engine.Engine = hasty
			}
			s.Commit(fault, 0)
			samples, err := p.Roll(trainer.Current, few())
			if err != nil {
				t.Errorf("%s of %s ends the roll: %v", fault, kind, err)
				continue
			}
			for _, sample := range samples {
				e := rollout.EpisodeOf(sample)
				if e.Lost == nil || !strings.Contains(e.Lost.Error(), want) {
					t.Errorf("%s of %s: the episode is lost by %v", fault, kind, e.Lost)
				}
			}
		}
		p.Engine.Engine = patient
	}
	for kind, fault := range map[string]string{"vllm": "stale name", "sglang": "another version"} {
		s.Commit("", 0)
		far(kind)
		if _, err := p.Roll(trainer.Current, few()[:1]); err != nil {
			t.Fatal(err)
		}
		s.Commit(fault, 0)
		if _, err := p.Roll(trainer.Current, few()); engine.Refused(err) != engine.Stale {
			t.Errorf("%s of %s: %v", fault, kind, err)
		}
	}
}

// TestEngineStaysBehind: an engine that says it has taken new weights and has not is found by its numbers.
func TestEngineStaysBehind(t *testing.T) {
	p, s, far := played(t)
	far("sglang")
	s.Commit("stale weights", 1)
	if _, err := p.Roll(trainer.Current, few()[:1]); err != nil {
		t.Fatal(err)
	}
	moved(p)
	if _, err := p.Roll(trainer.Current, few()[:1]); engine.Refused(err) != engine.Stale || !strings.Contains(err.Error(), "the one before it") {
		t.Errorf("it goes on by old weights: %v", err)
	}
}

// TestEnginesShared: two policies by one name of a process have an adapter each, in one folder and of one engine; and
// an engine that scores other words than before is compared by those that it scores.
func TestEnginesShared(t *testing.T) {
	p, s, far := played(t)
	far("vllm")
	s.Commit("fewer scores", 0)
	if _, err := p.Roll(trainer.Current, few()[:1]); err != nil {
		t.Fatal(err)
	}
	s.Commit("", 0)
	first := p.Engine
	e, err := engine.Open(first.Options)
	if err != nil {
		t.Fatal(err)
	}
	p.Engine = &rollout.Engine{Engine: e, Tolerance: first.Tolerance, Folder: first.Folder, Write: first.Write}
	if _, err := p.Roll(trainer.Current, few()[:1]); err != nil || s.Loaded() != 2 {
		t.Errorf("the engine holds %d adapters, %v", s.Loaded(), err)
	}
	if err := p.Engine.Close(); err != nil || s.Loaded() != 1 {
		t.Errorf("the engine holds %d adapters when one is closed, %v", s.Loaded(), err)
	}
	p.Engine = first
	moved(p)
	if _, err := p.Roll(trainer.Current, few()[:1]); err != nil {
		t.Errorf("it scores all words now: %v", err)
	}
}
