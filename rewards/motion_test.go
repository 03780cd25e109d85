package rewards

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// walking is a soft pattern that moves to the right, by speed pixels a frame.
func walking(frames int, speed float64) *video.Clip {
	c := &video.Clip{Width: 64, Height: 48, Rate: video.Rate{Num: 8, Den: 1}}
	for t := range frames {
		f := make([]uint8, 3*c.Width*c.Height)
		for i := range c.Width * c.Height {
			x, y := float64(i%c.Width)-speed*float64(t), float64(i/c.Width)
			v := 127 + 40*math.Sin(x/3+math.Sin(y/5)) + 40*math.Sin(y/4+x/9)
			f[3*i], f[3*i+1], f[3*i+2] = uint8(v), uint8(v*0.8), uint8(255-v)
		}
		c.Frames = append(c.Frames, f)
	}
	return c
}

// TestMotion: every measure of a clip that moves and of one that stands still.
func TestMotion(t *testing.T) {
	cut := walking(6, 0)
	for _, f := range cut.Frames[3:] {
		for i := range f {
			f[i] = 255 - f[len(f)-1-i]/2
		}
	}
	for _, k := range []struct {
		measure       string
		moving, still [2]float64 // between
	}{
		{"true", [2]float64{0.7, 1}, [2]float64{0, 0}},
		{"magnitude", [2]float64{1.7, 2.3}, [2]float64{0, 0.01}},
		{"dynamic", [2]float64{1, 1}, [2]float64{0, 0}},
		{"flicker", [2]float64{0.5, 0.95}, [2]float64{1, 1}},
		{"smoothness", [2]float64{0.5, 0.99}, [2]float64{1, 1}},
		{"warp", [2]float64{-0.01, -1e-9}, [2]float64{-1e-6, 0}},
	} {
		for _, method := range []string{"dis", "farneback"} {
			r := Motion{k.measure, MotionOptions{method, 8}}
			for i, c := range []*video.Clip{walking(6, 2), walking(6, 0)} {
				s, err := r.Score(t.Context(), Item{Clip: c})
				if err != nil {
					t.Errorf("%s, %s: %v", k.measure, method, err)
					continue
				}
				low, high := k.moving[0], k.moving[1]
				if i == 1 {
					low, high = k.still[0], k.still[1]
				}
				if method == "farneback" && i == 1 { // its edges are not quite still
					low, high = low-0.001, high+0.05
				}
				if !(s.Value >= low && s.Value <= high) {
					t.Errorf("%s, %s, clip %d: %g, want %g..%g", k.measure, method, i, s.Value, low, high)
				}
			}
		}
	}
	s, err := UsualMotion.Score(t.Context(), Item{Clip: cut})
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, e := range s.Evidence {
		said += e.What + " " + e.Text + "\n"
	}
	if s.Value > 0.02 || !strings.Contains(said, "frame 3 is not frame 2 moved") {
		t.Errorf("a cut: %g\n%s", s.Value, said)
	}
}

// TestMotionThinned: a clip of many frames a second is judged by as many as VBench looks at.
func TestMotionThinned(t *testing.T) {
	fast := walking(16, 0.5)
	fast.Rate = video.Rate{Num: 32, Den: 1}
	a, err := Motion{"magnitude", MotionOptions{PerSecond: 8}}.Score(t.Context(), Item{Clip: fast})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Evidence) != 3 || a.Value < 1.7 || a.Value > 2.3 {
		t.Errorf("%g pixels between %d frames, want 2 between 4", a.Value, len(a.Evidence)+1)
	}
}

// TestMotionMissing: no clip, too short a clip, an unknown measure, and a run that ends are
// missing, not 0.
func TestMotionMissing(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for name, k := range map[string]struct {
		ctx     context.Context
		measure string
		item    Item
	}{
		"picture": {t.Context(), "true", Item{Image: vision.New(4, 4)}},
		"short":   {t.Context(), "true", Item{Clip: walking(1, 1)}},
		"broken":  {t.Context(), "true", Item{Clip: &video.Clip{Width: 3}}},
		"name":    {t.Context(), "speed", Item{Clip: walking(2, 1)}},
		"ended":   {ended, "true", Item{Clip: walking(2, 1)}},
	} {
		if s, err := (Motion{Measure: k.measure}).Score(k.ctx, k.item); err == nil {
			t.Errorf("%s: %v", name, s)
		} else if name == "ended" && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestShared: rewards of one item find the flow of its clip once for each method and choice of frames, and their scores
// have the bits of rewards that share nothing. A flow that was not found is looked for again.
func TestShared(t *testing.T) {
	steady, all := MotionOptions{Method: "farneback"}, MotionOptions{Method: "dis"}
	meta := Meta{"motion": json.RawMessage("[2, 0]"), "camera": json.RawMessage(`"pan left"`)}
	item := Item{Clip: walking(6, 2), Meta: meta}
	item.Clip.Rate.Num = 16
	item.Share()
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := (Heading{}).Score(ended, item); err == nil {
		t.Fatal("a score after the end")
	}
	rewards := []Reward{Heading{}, Heading{Measure: "direction"}, Heading{Measure: "speed"}, Heading{MotionOptions: steady}, Camera{steady}, Camera{}, Camera{all}}
	for _, measure := range []string{"true", "magnitude", "dynamic", "warp"} {
		rewards = append(rewards, Motion{measure, steady}, Motion{measure, all}, Motion{measure, UsualMotion.MotionOptions})
	}
	for _, r := range rewards {
		want, err := r.Score(t.Context(), Item{Clip: item.Clip, Meta: meta})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Score(t.Context(), item); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %+v, %v; without sharing %+v", r, got, err, want)
		}
	}
	if n := len(item.Shared.found); n != 3 { // by each method of all frames, and by DIS of those at 8 a second
		t.Errorf("%d flows of one clip", n)
	}
}

// TestSharedOfOtherClip: a copy of an item that has another clip has that clip's score, and both stay found.
func TestSharedOfOtherClip(t *testing.T) {
	item := Item{Clip: walking(4, 2)}
	item.Share()
	changed := item
	changed.Clip = walking(4, 1)
	for range 2 {
		for _, of := range []Item{item, changed} {
			want, err := UsualMotion.Score(t.Context(), Item{Clip: of.Clip})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := UsualMotion.Score(t.Context(), of); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v; without sharing %+v", got, err, want)
			}
		}
	}
	if n := len(item.Shared.found); n != 2 {
		t.Errorf("%d flows of two clips", n)
	}
}

// TestSharedTogether: rewards that ask for one flow at a time find it once, and one whose context ends does not wait;
// other methods do not wait; after an error or a panic, one of those that wait finds the flow.
func TestSharedTogether(t *testing.T) {
	errFound := errors.New("no flow")
	for name, end := range map[string]func() (*motion.Steps, error){
		"found":  func() (*motion.Steps, error) { return &motion.Steps{}, nil },
		"failed": func() (*motion.Steps, error) { return nil, errFound },
		"ended":  func() (*motion.Steps, error) { return nil, context.Canceled },
		"panic":  func() (*motion.Steps, error) { panic(errFound) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				item := Item{Clip: walking(2, 1)}
				item.Share()
				key := flowKey{clip: item.Clip, method: "dis"}
				var looked atomic.Int32
				release := make(chan struct{})
				go func() {
					defer func() { _ = recover() }()
					_, _ = item.Shared.steps(t.Context(), key, func() (*motion.Steps, error) {
						<-release
						looked.Add(1)
						return end()
					})
				}()
				synctest.Wait()
				find := func() (*motion.Steps, error) { looked.Add(1); return &motion.Steps{}, nil }
				var got [3]*motion.Steps
				for i := range got {
					go func() { got[i], _ = item.Shared.steps(t.Context(), key, find) }()
				}
				impatient, cancel := context.WithCancel(t.Context())
				over := make(chan error, 1)
				go func() {
					_, err := item.Shared.steps(impatient, key, find)
					over <- err
				}()
				if s, err := item.Shared.steps(t.Context(), flowKey{clip: item.Clip, method: "farneback"}, find); s == nil || err != nil {
					t.Errorf("by another method: %v, %v", s, err)
				}
				synctest.Wait()
				cancel()
				if err := <-over; !errors.Is(err, context.Canceled) {
					t.Errorf("a wait that ended: %v", err)
				}
				close(release)
				synctest.Wait()
				want := int32(2) // by each method
				if name != "found" {
					want++
				}
				if n := looked.Load(); n != want || got[0] == nil || got[1] != got[0] || got[2] != got[0] {
					t.Errorf("looked %d times, not %d: %v", n, want, got)
				}
			})
		})
	}
}
