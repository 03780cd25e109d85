package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// shaded is a picture of one level.
func shaded(level uint8) *vision.Image {
	m := vision.New(3, 2)
	for i := range m.Pix {
		m.Pix[i] = level + uint8(i)
	}
	return m
}

// TestItems: items come back as they were sent, and invalid ones are refused.
func TestItems(t *testing.T) {
	items := []rewards.Item{
		{Prompt: "a circle", Meta: rewards.Meta{"count": json.RawMessage("2")}, Image: shaded(1), Sources: []*vision.Image{shaded(9), shaded(1)}},
		{Prompt: "a clip", Clip: &video.Clip{Width: 1, Height: 2, Rate: video.Rate{Num: 8, Den: 1}, Frames: [][]uint8{{1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}}}},
		{Prompt: "a talk", Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: "seven", Tool: "zoom"}}, Tokens: []int{4, 5}, Pictures: 1, Width: 3, Height: 2,
			Crops: []rewards.Crop{{Picture: 0, Box: boxes.Box{0, 0.5, 1, 2}}}, Shown: []*vision.Image{shaded(3)}}},
	}
	data, err := PackItems(items)
	if err != nil {
		t.Fatal(err)
	}
	back, err := UnpackItems(data)
	if err != nil || !reflect.DeepEqual(back, items) {
		t.Errorf("%+v\ncame back as\n%+v, %v", items, back, err)
	}
	items[2].Transcript.Lost = errors.New("no answer")
	if _, err := PackItems(items); err == nil {
		t.Error("a conversation that is lost travels")
	}
	wrong, err := PackItems([]rewards.Item{{Clip: &video.Clip{Width: 2, Height: 2, Frames: [][]uint8{{1, 2, 3}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := UnpackItems(wrong); err == nil {
		t.Error("a frame has too few numbers")
	}
}

// TestScores: groups are judged beside each other by as many workers as there are; where a worker has no score the
// reward is asked here, and its reason is kept.
func TestScores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		scores, err := c.f.OpenScores(Setup{Config: "[run]", Train: []prompts.Prompt{{Text: "a"}}}, false)
		if err != nil {
			t.Fatal(err)
		}
		slow := func(value float64) rewards.Judge {
			return rewards.Each(rewards.Func(func(ctx context.Context, item rewards.Item) (rewards.Score, error) {
				if item.Prompt == "bad" {
					return rewards.Score{}, errors.New("the lamp is out")
				}
				if !sleep(ctx, 2*time.Second) {
					return rewards.Score{}, ctx.Err()
				}
				return rewards.Score{Value: value}, nil
			}), 1)
		}
		ask := func(prompt string) rewards.Result {
			return scores.Score(context.Background(), "shade", []rewards.Item{{Prompt: prompt}}, slow(1))[0]
		}
		if r := ask("alone"); r.Value != 1 {
			t.Errorf("without workers: %+v", r)
		}
		var stops []func()
		for i := range 8 {
			link := c.hub.Link(workerName(i))
			p := &Panel{Blobs: link, Open: func(Setup) (map[string]rewards.Judge, func() error, error) {
				return map[string]rewards.Judge{"shade": slow(2)}, func() error { return nil }, nil
			}}
			ctx, stop := context.WithCancel(context.Background())
			w := Worker{Name: workerName(i), Link: link, About: About{Class: "any"}, Beat: time.Second, Do: p.Do, Logf: t.Logf}
			c.work.Go(func() {
				if err := w.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			stops = append(stops, stop)
		}
		synctest.Wait()
		began := time.Now()
		got := make(chan rewards.Result, 16)
		for i := range cap(got) {
			go func() { got <- ask(workerName(i)) }()
		}
		for range cap(got) {
			if r := <-got; r.Value != 2 || r.Missing != nil {
				t.Errorf("by workers: %+v", r)
			}
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("16 groups of 2 s took 8 workers %v", took)
		}
		if r := ask("bad"); r.Missing == nil || r.Missing.Error() != "the lamp is out" {
			t.Errorf("without a score: %+v", r)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if r := scores.Score(ctx, "shade", []rewards.Item{{Prompt: "late"}}, slow(1))[0]; r.Missing == nil {
			t.Errorf("after its time: %+v", r)
		}
		scores.Close()
		c.end(stops...)
		if len(c.hub.kept) > 0 || len(c.hub.blobs) > 2 { // the setup, and a job that was not waited for
			t.Errorf("%d results and %d blobs are left", len(c.hub.kept), len(c.hub.blobs))
		}
	})
}

// TestScoresDeclined: a reward's own word that it has no score is an answer, which ends no job and holds up nothing; a
// worker's alone is not believed.
func TestScoresDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{Rules: Patient()})
		scores, err := c.f.OpenScores(Setup{Config: "[run]", Train: []prompts.Prompt{{Text: "a"}}}, false)
		if err != nil {
			t.Fatal(err)
		}
		link, asked := c.hub.Link("w"), 0
		judge := func(empty string) rewards.Judge {
			return rewards.Each(rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
				asked++
				if item.Prompt == empty {
					return rewards.Score{}, rewards.Declined{Why: "the picture is empty"}
				}
				return rewards.Score{Value: 2}, nil
			}), 1)
		}
		p := &Panel{Blobs: link, Open: func(Setup) (map[string]rewards.Judge, func() error, error) {
			return map[string]rewards.Judge{"shade": judge("empty"), "liar": judge("full")}, func() error { return nil }, nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		w := Worker{Name: "w", Link: link, Beat: time.Second, Do: p.Do, Logf: func(f string, args ...any) { t.Errorf(f, args...) }}
		c.work.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		began := time.Now()
		ask := func(reward string) []rewards.Result {
			return scores.Score(t.Context(), reward, []rewards.Item{{Prompt: "full"}, {Prompt: "empty"}}, judge("empty"))
		}
		for range 10 {
			if r := ask("shade"); r[0].Missing != nil || r[0].Value != 2 || r[1].Missing == nil || r[1].Missing.Error() != "it says: the picture is empty" {
				t.Fatalf("%+v", r)
			}
		}
		if r := ask("liar"); r[0].Missing != nil || r[1].Missing != nil {
			t.Errorf("by a worker's word: %+v", r)
		}
		if n := c.f.Counts(); n.Failed > 0 || n.Done != 11 || asked != 44 || time.Since(began) > time.Second {
			t.Errorf("after %v: %+v, asked about %d samples", time.Since(began), n, asked)
		}
		scores.Close()
		c.end(stop)
	})
}

// TestScoresLate: a worker whose lease ran out has a score before the trainer,
// which asks meanwhile, has one: that counts.
func TestScoresLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{Rules: Rules{Lease: 5 * time.Second, Silence: time.Hour, Tries: 1}})
		scores, err := c.f.OpenScores(Setup{Config: "[run]", Train: []prompts.Prompt{{Text: "a"}}}, false)
		if err != nil {
			t.Fatal(err)
		}
		after := func(seconds time.Duration, value float64) rewards.Judge {
			return rewards.Each(rewards.Func(func(ctx context.Context, _ rewards.Item) (rewards.Score, error) {
				if !sleep(ctx, seconds*time.Second) {
					return rewards.Score{}, ctx.Err()
				}
				return rewards.Score{Value: value}, nil
			}), 1)
		}
		link := c.hub.Link("late")
		p := &Panel{Blobs: link, Open: func(Setup) (map[string]rewards.Judge, func() error, error) {
			return map[string]rewards.Judge{"shade": after(8, 2)}, func() error { return nil }, nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		w := Worker{Name: "late", Link: link, Beat: time.Hour, Do: p.Do, Logf: t.Logf}
		c.work.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if r := scores.Score(t.Context(), "shade", []rewards.Item{{Prompt: "a"}}, after(30, 1))[0]; r.Missing != nil || r.Value != 2 {
			t.Errorf("%+v", r)
		}
		c.says("it is done here")
		scores.Close()
		c.end(stop)
	})
}

// lamp is a device that fails.
type lamp struct{}

func (lamp) Error() string    { return "the lamp is out" }
func (lamp) OnDevice() string { return "cuda:0" }

// TestScoresLost: a worker whose device fails at a reward ends, so that it takes no further job.
func TestScoresLost(t *testing.T) {
	hub := NewInside()
	defer hub.Close()
	text, err := Setup{Config: "[run]", Train: []prompts.Prompt{{Text: "a"}}}.pack()
	if err != nil {
		t.Fatal(err)
	}
	items, err := PackItems([]rewards.Item{{Prompt: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	setup, err := hub.Put(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := hub.Put(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	p := &Panel{Blobs: hub, Open: func(Setup) (map[string]rewards.Judge, func() error, error) {
		return map[string]rewards.Judge{"net": failing{}}, func() error { return nil }, nil
	}}
	var end Unfit
	if _, err := p.Do(t.Context(), Job{Setup: setup, Score: &Scoring{Reward: "net", Items: blob, Count: 1, Network: true}}); !errors.As(err, &end) || !errors.Is(err, lamp{}) {
		t.Error(err)
	}
}

// failing is a network on such a device.
type failing struct{}

func (failing) Judge(context.Context, []rewards.Item) []rewards.Result { panic(lamp{}) }
