package run

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
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
				for i := range p.workers {
					kills = append(kills, c.joins(c.parts, fmt.Sprint("g", i), nil))
				}
				o := Options{Dir: dir}
				o.Report = func(l *ledger.Line, _ *ledger.TimingLine) {
					if p.kills && l.Iteration < 2 {
						for i, kill := range kills {
							time.AfterFunc(time.Duration(rand.IntN(300))*time.Millisecond, kill)
							kills[i] = c.joins(c.parts, fmt.Sprint("g", i, "after", l.Iteration), nil)
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

// TestGradientLiar: a worker that changes one bit of one gradient is dismissed, its shards are computed anew, and the
// run has the bytes of one without it.
func TestGradientLiar(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	e := shardedRuns()["pictures"]
	alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
	if _, err := trainAs(t, e(t), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t)
	c.parts, c.leaves = fleet.NewInside(), true
	lied := false
	c.joins(c.parts, "liar", func(j fleet.Job, payload []byte) []byte {
		if j.Gradient.Back && j.How.Iteration > 0 && !lied && len(payload) > 0 {
			lied = true
			payload = slices.Clone(payload)
			payload[len(payload)-4] ^= 1
		}
		return payload
	})
	c.train(e(t), Options{Dir: helped}, fleet.Options{Local: true, Audit: 1})
	c.close()
	if by := workOf(t, helped); by["liar"] == 0 || !lied || c.gradients.Refused()["liar"] == "" {
		t.Errorf("lied: %v, %v, refused %v", lied, by, c.gradients.Refused())
	}
	same(t, "with a liar", contents(t, alone), contents(t, helped))
}
