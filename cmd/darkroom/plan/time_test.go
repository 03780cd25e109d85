package plan

import (
	"bytes"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

func TestEvaluations(t *testing.T) {
	for _, c := range [][3]int{{10, 0, 2}, {10, 5, 3}, {10, 4, 4}, {10, 20, 2}, {10, 10, 2}} {
		if n := evaluations(c[0], c[1]); n != c[2] {
			t.Errorf("%d iterations, every %d: %d evaluations, not %d", c[0], c[1], n, c[2])
		}
	}
}

// TestEvaluatedSize: evaluations of another size weigh by their pixels and frames.
func TestEvaluatedSize(t *testing.T) {
	e := &experiment.Experiment{Sampler: experiment.Sampler{Width: 512, Height: 256, Frames: 1}}
	for want, v := range map[float64]experiment.Evaluate{1: {}, 2: {Width: 1024}, 8: {Width: 1024, Height: 1024}, 5: {Frames: 5}} {
		if e.Evaluate = v; evaluatedSize(e) != want {
			t.Errorf("%+v: %v, not %v", v, evaluatedSize(e), want)
		}
	}
}

// TestWorkersPlan: workers are of use up to the number of groups, or until they wait for the trainer.
func TestWorkersPlan(t *testing.T) {
	parts := map[string]float64{"roll": 40, "score": 2, "train": 8}
	for _, c := range []struct {
		groups, lag, most int
		least             float64
	}{{8, 0, 7, 15}, {8, 1, 4, 10}, {1, 1, 2, 20}, {2, 4, 4, 10}} {
		p := workersOf(parts, c.groups, c.lag, 1)
		last := p.Seconds[len(p.Seconds)-1]
		if p.Most != c.most || last.Workers != c.most || last.Seconds != c.least || p.Groups != c.groups*(c.lag+1) {
			t.Errorf("%+v: %+v", c, p)
		}
		for i, s := range p.Seconds[1:] {
			if s.Seconds >= p.Seconds[i].Seconds {
				t.Errorf("%+v: more workers, and no less time: %+v", c, p.Seconds)
			}
		}
	}
	if p := workersOf(parts, 1, 0, 1); p.Most != 0 || len(p.Seconds) != 0 {
		t.Errorf("one group: %+v", p)
	}
	if workersOf(map[string]float64{"train": 3}, 4, 0, 1) != nil {
		t.Error("nothing is rolled, and workers are of use")
	}
	var text bytes.Buffer
	workersOf(parts, 8, 1, 1).write(&text)
	if !strings.Contains(text.String(), "up to 4 workers are of use, for 16 groups") {
		t.Error(text.String())
	}
}

// TestGradientsPlan: of a run in shards plan says the traffic of gradients on workers, and their gain; and it refuses
// one that no wire carries, with its size.
func TestGradientsPlan(t *testing.T) {
	p := workersOf(map[string]float64{"roll": 40, "score": 2, "train": 8}, 8, 0, 4)
	if first, last := p.Seconds[0], p.Seconds[len(p.Seconds)-1]; first.Seconds != 30 || first.Gradients != 26 || last.Gradients != 2+2+5 {
		t.Errorf("%+v", p)
	}
	e := &experiment.Experiment{Run: experiment.Run{Shards: 8}}
	for bytesOf, says := range map[int64]string{717 << 20: "and at most 5.6 GiB: 4.8 s at 10 Gb/s", 32 << 30: "none, for a gradient has 32.0 GiB, and at most 2.0 GiB travel"} {
		var text bytes.Buffer
		if gradientsOf(e, bytesOf, 0).write(&text); !strings.Contains(text.String(), says) {
			t.Errorf("%d: %s", bytesOf, &text)
		}
	}
	points := pointsOf(&experiment.Plan{Stages: []experiment.StagePlan{{}, {Counts: &experiment.Counts{Judged: 575.5}}}}, 4<<20)
	var some bytes.Buffer
	if gradientsOf(e, 1, points).write(&some); points != 576*4<<20 || !strings.Contains(some.String(), "about 2.2 GiB an update, to all workers together: 1.9 s at 10 Gb/s") {
		t.Errorf("%d: %s", points, &some)
	}
	e.Model.Teacher = "adapter"
	var text bytes.Buffer
	if gradientsOf(e, 1, 0).write(&text); !strings.Contains(text.String(), "the trainer alone computes updates that learn from lessons") {
		t.Error(text.String())
	}
	if e.Run.Shards = 1; gradientsOf(e, 1, 0) != nil {
		t.Error("one chain of sums has no shards")
	}
}
