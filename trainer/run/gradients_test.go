package run

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	episodes "github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// shardedRuns are experiments whose gradients are summed in four shards: of pictures with one update and with two, of
// noised samples, of clips, and of episodes with an anchor. -long adds a head of values.
func shardedRuns() map[string]func(t *testing.T) *experiment.Experiment {
	of := func(sets ...string) func(t *testing.T) *experiment.Experiment {
		return func(t *testing.T) *experiment.Experiment {
			return parse(t, append([]string{"run.iterations=2", "run.shards=4"}, sets...)...)
		}
	}
	all := map[string]func(t *testing.T) *experiment.Experiment{
		"pictures": of("optim.updates=1"),
		"updates":  of("optim.updates=2", "loss.kl.weight=0.01"),
		"nft":      of("loss.objective=nft", "loss.times=2", "loss.kl.weight=1e-3", "loss.kl.estimator=velocity"),
		"clips": func(t *testing.T) *experiment.Experiment {
			return parseClips(t, "run.iterations=2", "run.shards=4")
		},
		"episodes": func(t *testing.T) *experiment.Experiment {
			return homed()["tiny-vlm"](t, "run.shards=4", "loss.kl.weight=0.01")
		},
	}
	if *long {
		all["values"] = func(t *testing.T) *experiment.Experiment {
			return homed()["tiny-vlm"](t, "run.shards=4", "loss.kl.weight=0.01", "advantage.estimator=gae", "loss.value.warmup=1", "loss.value.lr=2e-4", "rollout.buffer={}")
		}
	}
	return all
}

// TestGradients: a run whose gradients workers compute, too, leaves the bytes of one that nobody helps, however many
// they are, and though they are killed in the midst of their jobs. -long tries more fleets.
func TestGradients(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded models: seconds, and minutes without assembly; left out by -short")
	}
	type party struct {
		workers int
		leaves  bool // the trainer computes no gradient while they are there
		kills   bool
	}
	parties := []party{{1, true, false}, {2, false, true}}
	if *long {
		parties = append(parties, party{workers: 2}, party{workers: 5, leaves: true}, party{workers: 5, kills: true})
	} else {
		t.Log("skipped: other fleets, without -long")
	}
	for name, e := range shardedRuns() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alone := filepath.Join(t.TempDir(), "alone")
			if _, err := trainAs(t, e(t), Options{Dir: alone}); err != nil {
				t.Fatal(err)
			}
			want := contents(t, alone)
			for _, p := range parties {
				c, dir := newCrew(t), filepath.Join(t.TempDir(), "helped")
				c.parts, c.leaves = fleet.NewInside(), p.leaves
				var kills []func()
				sent := traffic{from: c.parts, counts: name == "pictures" && p.leaves, seen: map[fleet.Blob]bool{}}
				for i := range p.workers {
					kills = append(kills, c.joins(c.parts, fmt.Sprint("g", i), sent.count, nil))
				}
				o := Options{Dir: dir}
				o.Report = func(l *ledger.Line, _ *ledger.TimingLine) {
					if p.kills && l.Iteration < 2 {
						for i, kill := range kills {
							time.AfterFunc(time.Duration(rand.IntN(300))*time.Millisecond, kill)
							kills[i] = c.joins(c.parts, fmt.Sprint("g", i, "after", l.Iteration), nil, nil)
						}
					}
				}
				_, _ = c.train(e(t), o, fleet.Options{Local: true, Audit: 0.2})
				c.close()
				jobs, err := os.ReadFile(filepath.Join(dir, ledger.FleetFile))
				if err != nil {
					t.Fatal(err)
				}
				// The roll knows the outputs of a first update, and without an anchor no others are asked for.
				if asks := bytes.Contains(jobs, []byte("(outputs of")); asks != (name != "pictures" && name != "clips") {
					t.Errorf("%s %+v: outputs are asked for: %v", name, p, asks)
				}
				by, n := workOf(t, dir), c.gradients.Counts()
				t.Logf("%+v: %v, %+v", p, by, n)
				// Of both updates of both iterations: a gradient in four subtrees, the anchor's outputs, and those of the weights
				// that moved. Steps of the sampler do not count: an update asks once.
				if most := 2 * (2*4 + 2*4 + 4); name == "updates" && n.Jobs > most {
					t.Errorf("%d jobs, and %d are enough where the questions of an update are asked at once", n.Jobs, most)
				}
				same(t, fmt.Sprintf("%+v", p), want, contents(t, dir))
				if sent.counts {
					plan, err := e(t).Plan()
					if err != nil {
						t.Fatal(err)
					}
					// 16 bytes a number, and the files' heads.
					if judged := 2 * plan.Stages[0].Counts.Judged; float64(sent.points) != judged || sent.bytes < 12*sent.numbers || sent.bytes > 20*sent.numbers {
						t.Errorf("%d points of %d numbers travel in %d bytes; plan says %v points", sent.points, sent.numbers, sent.bytes, judged)
					}
				}
				helped := 0
				for worker, jobs := range by {
					if worker != fleet.Here {
						helped += jobs
					}
				}
				if helped == 0 && p.leaves || n.Differed > 0 || len(c.gradients.Refused()) > 0 {
					t.Errorf("%+v: %v, %+v, refused %v", p, by, n, c.gradients.Refused())
				}
			}
		})
	}
}

// traffic is that of points, and of gradients at their outputs, of pictures to a single worker. A job that is done
// twice, on a loaded machine, counts once.
type traffic struct {
	from                   fleet.Blobs
	counts                 bool
	seen                   map[fleet.Blob]bool
	points, numbers, bytes int64
}

func (s *traffic) count(j fleet.Job, payload []byte) []byte {
	if !s.counts || !j.Gradient.Back {
		return payload
	}
	for _, p := range j.Gradient.Parts {
		if s.seen[p.Points] {
			continue
		}
		s.seen[p.Points] = true
		s.bytes += p.Points.Size + p.Grads.Size
		data, err := s.from.Get(context.Background(), p.Points)
		if err != nil {
			continue // the test misses its points
		}
		at, err := fleet.UnpackPoints(data, nil)
		if err != nil {
			continue
		}
		for _, one := range at {
			s.points, s.numbers = s.points+1, s.numbers+int64(len(one.State))
		}
	}
	return payload
}

// TestGradientLiar: a worker that changes one bit of one gradient, of its digest of outputs, or of outputs that it was
// asked for, is dismissed, the job is computed anew, and the run has the bytes of one without it. Audits find the first
// alone.
func TestGradientLiar(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	for name, c := range map[string]struct {
		run   string
		audit float64
		lie   func(j fleet.Job, payload []byte) (at int) // the place of a bit; -1: none
	}{
		"gradient": {"pictures", 1, func(j fleet.Job, payload []byte) int {
			if !j.Gradient.Back {
				return -1
			}
			return len(payload) - 4
		}},
		"digest": {"pictures", 0, func(j fleet.Job, payload []byte) int {
			if !j.Gradient.Back {
				return -1
			}
			return bytes.Index(payload, []byte(`outputs":"[\"`)) + len(`outputs":"[\"`)
		}},
		"outputs": {"updates", 0, func(j fleet.Job, payload []byte) int {
			if j.Gradient.Back || j.Gradient.Of != trainer.Current {
				return -1
			}
			return len(payload) - 4
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := shardedRuns()[c.run]
			alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
			if _, err := trainAs(t, e(t), Options{Dir: alone}); err != nil {
				t.Fatal(err)
			}
			w := newCrew(t)
			w.parts, w.leaves = fleet.NewInside(), true
			lied := false
			w.joins(w.parts, "liar", func(j fleet.Job, payload []byte) []byte {
				if j.How.Iteration == 0 || lied || len(payload) == 0 {
					return payload
				}
				if at := c.lie(j, payload); at >= 0 {
					lied = true
					payload = slices.Clone(payload)
					payload[at] ^= 1
				}
				return payload
			}, nil)
			w.train(e(t), Options{Dir: helped}, fleet.Options{Local: true, Audit: c.audit})
			w.close()
			if by := workOf(t, helped); by["liar"] == 0 || !lied || w.gradients.Refused()["liar"] == "" {
				t.Errorf("lied: %v, %v, refused %v", lied, by, w.gradients.Refused())
			}
			same(t, "with a liar", contents(t, alone), contents(t, helped))
		})
	}
}

// fibs is a worker's model of conversations that changes log-probabilities of an iteration's tokens.
type fibs struct{ *conversations.Model }

func (m fibs) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	samples, err := m.Model.Roll(w, keys)
	for _, s := range samples {
		if e := episodes.EpisodeOf(s); s.Key.Iteration == 1 && len(s.Decisions.Step) > 0 {
			s.Decisions.LogProb[0] -= 1.0 / 1024
			e.ModelLogProb[s.Decisions.Step[0]] = s.Decisions.LogProb[0]
		}
	}
	return samples, err
}

// TestMisled: a worker whose outputs at decisions are false is found by the forward pass of the first gradient, here or
// on a worker, before that update is applied. The worker is dismissed, the iteration begins anew, and the run has the
// bytes of one without it, though no result is compared by chance.
func TestMisled(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded models: seconds, and minutes without assembly; left out by -short")
	}
	for name, parsed := range map[string]func(t *testing.T) *experiment.Experiment{
		"pictures": func(t *testing.T) *experiment.Experiment {
			return parse(t, "run.iterations=2", "optim.updates=1", "advantage.estimator=history")
		},
		"pictures, gradients": shardedRuns()["pictures"],
		"episodes": func(t *testing.T) *experiment.Experiment {
			return homed()["tiny-vlm"](t, "run.iterations=2", "rollout.buffer={}", "loss.kl.weight=0")
		},
		"episodes, gradients": func(t *testing.T) *experiment.Experiment {
			return homed()["tiny-vlm"](t, "run.iterations=2", "run.shards=4", "loss.kl.weight=0.01")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
			e := parsed(t)
			if _, err := trainAs(t, e, Options{Dir: alone}); err != nil {
				t.Fatal(err)
			}
			c := newCrew(t)
			if e.Run.Parted() {
				c.parts, c.leaves = fleet.NewInside(), true
				c.joins(c.parts, "honest", nil, nil)
			}
			if e.Episode == nil {
				c.join("liar", subtle(t, e, 1))
			} else {
				c.joins(c.hub, "liar", nil, func(m model.Model) model.Model { return fibs{m.(*conversations.Model)} })
			}
			said, steady := false, false
			_, f := c.train(parsed(t), Options{Dir: helped, Logf: func(format string, args ...any) {
				line := fmt.Sprintf(format, args...)
				said = said || strings.Contains(line, "the update is dropped")
				if strings.Contains(line, "worker liar is dismissed") && !steady {
					steady = true
					c.join("steady", nil)
				}
			}}, fleet.Options{})
			c.close()
			by := workOf(t, helped)
			same(t, "with a liar", contents(t, alone), contents(t, helped))
			if !said || f.Refused()["liar"] == "" || by["liar"] == 0 || c.gradients != nil && len(c.gradients.Refused()) > 0 {
				t.Errorf("an update was dropped: %v; refused %v; who did how much: %v", said, f.Refused(), by)
			}
		})
	}
}

// fakes is a gradient worker's model of conversations. Outputs of an iteration are false, in answers and in digests.
type fakes struct{ *conversations.Model }

func (m fakes) Eval(w trainer.Weights, at []trainer.Point) (trainer.Forward, error) {
	out, err := m.Model.Eval(w, at)
	if w == trainer.Current {
		falsify(at, out.Outputs)
	}
	return out, err
}

func (m fakes) Replay(at []trainer.Point, grads [][]float64) ([][]float64, error) {
	outputs, err := m.Model.Replay(at, grads)
	falsify(at, outputs)
	return outputs, err
}

func falsify(at []trainer.Point, outputs [][]float64) {
	for i, x := range outputs {
		if at[i].Key.Iteration == 1 && len(x) > 0 {
			x[0] -= 1.0 / 1024
		}
	}
}

// TestFalseAnswers: a gradient worker answers points that a roll knows, beside entropies that no roll knows, and has
// the digests of its own false answers. It is dismissed, and not the honest worker that rolled the samples.
func TestFalseAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	e := func() *experiment.Experiment {
		return homed()["tiny-vlm"](t, "run.iterations=2", "run.shards=4", "loss.entropy_weight=0.01")
	}
	alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
	if _, err := trainAs(t, e(), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t)
	c.parts, c.leaves = fleet.NewInside(), true
	c.join("honest", nil)
	c.joins(c.parts, "liar", nil, func(m model.Model) model.Model { return fakes{m.(*conversations.Model)} })
	_, f := c.train(e(), Options{Dir: helped}, fleet.Options{})
	c.close()
	if by := workOf(t, helped); by["honest"] == 0 || by["liar"] == 0 || f.Refused()["honest"] != "" || c.gradients.Refused()["liar"] == "" {
		t.Errorf("%v; refused %v, %v", by, f.Refused(), c.gradients.Refused())
	}
	same(t, "with a liar", contents(t, alone), contents(t, helped))
}
