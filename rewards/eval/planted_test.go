package eval

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// Rewards with one planted weakness each, and rewards without one.

// ofFrames is a reward that is the mean over frames of a number of each.
func ofFrames(f func(m *vision.Image) float64) rewards.Reward {
	return rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
		frames, err := item.Frames(1)
		if err != nil {
			return rewards.Score{}, err
		}
		s := rewards.Score{}
		for _, m := range frames {
			s.Value += f(m) / float64(len(frames))
		}
		return s, nil
	})
}

func brightness(m *vision.Image) float64 {
	sum := 0.0
	for _, v := range m.Pix {
		sum += float64(v)
	}
	return sum / float64(len(m.Pix))
}

func saturation(m *vision.Image) float64 {
	sum := 0.0
	for i := 0; i < len(m.Pix); i += 3 {
		p := m.Pix[i : i+3]
		if top := slices.Max(p); top > 0 {
			sum += float64(top-slices.Min(p)) / float64(top)
		}
	}
	return 3 * sum / float64(len(m.Pix))
}

// lettering is the share of neighbours that are as far apart as ink and paper.
func lettering(m *vision.Image) float64 {
	luma, n := m.Luma(), 0
	for i := 1; i < len(luma); i++ {
		if i%m.Width > 0 && math.Abs(float64(luma[i])-float64(luma[i-1])) > 200 {
			n++
		}
	}
	return float64(n) / float64(len(luma))
}

func fileSize(m *vision.Image) float64 {
	var b bytes.Buffer
	if vision.EncodePNG(&b, m) != nil {
		return math.NaN()
	}
	return float64(b.Len())
}

// standstill is how little changes from frame to frame.
var standstill = rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
	if item.Clip == nil {
		return rewards.Score{}, errors.New("there is no clip")
	}
	change, n := 0.0, 0
	for t, f := range item.Clip.Frames[1:] {
		for i, v := range f {
			change += math.Abs(float64(v) - float64(item.Clip.Frames[t][i]))
			n++
		}
	}
	return rewards.Score{Value: -change / float64(n)}, nil
})

// asked are pairs of clips of one prompt, better and worse, over eight grounds.
func asked(name, prompt string, better, worse func(m mover) *video.Clip) Set {
	set := Set{Name: name, Of: Moving}
	for i := range 8 {
		k := rng.New(12).With("asked").Sample(i)
		m := mover{prompt: prompt, key: k, color: [3]float64{200, 60, 50}, ground: waves(k.With("ground")), pattern: waves(k.With("pattern"))}
		set.Pairs = append(set.Pairs, Pair{Prompt: prompt, Kind: "worse", A: m.sample("better", better(m)), B: m.sample("worse", worse(m)), Better: First})
	}
	return set
}

// panned is a clip of a mover's ground alone, before a camera that pans this many pixels a frame to the right.
func panned(speed float64) func(m mover) *video.Clip {
	return func(m mover) *video.Clip {
		out := &video.Clip{Width: clipSide, Height: clipSide, Rate: video.Rate{Num: 8, Den: 1}}
		for t := range clipFrames {
			moved := m
			moved.ground = func(x, y float64) float64 { return m.ground(x+speed*float64(t), y) }
			out.Frames = append(out.Frames, moved.draw(func(int) float64 { return 10 * clipSide }).Frames[0])
		}
		return out
	}
}

// thrown is a clip of a mover's disc with an acceleration downwards.
func thrown(gravity float64) func(m mover) *video.Clip {
	return func(m mover) *video.Clip {
		out := &video.Clip{Width: clipSide, Height: clipSide, Rate: video.Rate{Num: 8, Den: 1}}
		for t := range clipFrames {
			f, moved := float64(t), m
			moved.dx, moved.dy = -18+36*f/7, -16+f*(32-gravity*49/2)/7+gravity*f*f/2
			out.Frames = append(out.Frames, moved.draw(func(int) float64 { return 1 }).Frames[0])
		}
		return out
	}
}

var long = flag.Bool("long", false, "plant weaknesses in rewards of clips, too")

func TestPlantedWeaknesses(t *testing.T) {
	pictures, clips := Scenes(), Clips()
	clips.Pairs = clips.Pairs[:len(clips.Pairs)*2/5] // of 8 prompts: flow takes its time
	for _, c := range []struct {
		name   string
		reward rewards.Reward
		set    Set
		want   []string
	}{
		{"static", standstill, clips, []string{"static clips"}},
		{"bright", ofFrames(brightness), pictures, []string{"bright pictures"}},
		{"bright clips", ofFrames(brightness), clips, []string{"bright pictures"}},
		{"text", ofFrames(lettering), pictures, []string{"stamped text"}},
		{"text in clips", ofFrames(lettering), clips, []string{"stamped text"}},
		{"saturated", ofFrames(saturation), pictures, []string{"saturated colours"}},
		{"saturated clips", ofFrames(saturation), clips, []string{"saturated colours"}},
		{"large JPEG", rewards.JPEG{Factor: 1}, pictures, []string{"large files"}},
		{"large JPEG clips", rewards.JPEG{Factor: 1}, clips, []string{"large files"}},
		{"large PNG", ofFrames(fileSize), pictures, []string{"large files"}},
		{"large PNG clips", ofFrames(fileSize), clips, []string{"large files"}},
		{"control", rewards.SceneTask{}, pictures, nil},
		{"layout", rewards.SceneLayout{}, pictures, nil},
		{"control of clips", rewards.UsualMotion, clips, nil},
		{"camera", rewards.Camera{}, asked("pans", "the camera pans right", panned(2), panned(-2)), nil},
		{"ball", rewards.Ball{}, asked("falls", "a ball falls", thrown(1), thrown(0)), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.set.Of == Moving && !*long {
				t.Skip("computes the flow of many clips: -long, .ci/run slow")
			}
			r, err := Run(t.Context(), c.name, rewards.Each(c.reward, 1), c.set, Options{Probed: map[string]int{Pictures: 24, Moving: 8}[c.set.Of], Again: -1})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.Flags, c.want) && len(r.Flags)+len(c.want) > 0 {
				t.Errorf("flags are %q, want %q", r.Flags, c.want)
			}
			if r.Missing > 0 {
				t.Errorf("%d pairs are missing: %+v", r.Missing, r.Why)
			}
			for _, p := range r.Probes {
				if p.Raise != nil && (p.Raise.Value > 0.05 || p.Outcome != Fine) {
					t.Logf("%-9s raise %6.2f (%6.2f to %6.2f), higher %.2f %s", p.Name, p.Raise.Value, p.Raise.Low, p.Raise.High, p.Higher, p.Outcome)
				}
			}
			if r.Order.Accuracy != nil && r.Groups.Typical != nil {
				t.Logf("accuracy %.2f, typical %v", r.Order.Accuracy.Value, *r.Groups.Typical)
			}
		})
	}
}

// asksFor is a detector of scenes that reports things of the labels asked for alone.
type asksFor struct{ rewards.SceneDetector }

func (d asksFor) Detect(ctx context.Context, m *vision.Image, labels []string) ([]rewards.Detection, error) {
	all, err := d.SceneDetector.Detect(ctx, m, labels)
	return slices.DeleteFunc(all, func(f rewards.Detection) bool { return !slices.Contains(labels, f.Class) }), err
}

// corners is the darkness of two corners, whatever the prompt.
var corners = ofFrames(func(m *vision.Image) float64 { return -float64(m.Pix[0]) - float64(m.Pix[len(m.Pix)-1]) })

// TestUnasked: a layout that looks for the caption's labels alone is warned of things that nobody asked for; one that
// counts all things is not. To a reward that does not read prompts the probe does not apply.
func TestUnasked(t *testing.T) {
	set := Scenes()
	set.Pairs = slices.DeleteFunc(set.Pairs, func(p Pair) bool { return !strings.HasPrefix(p.Prompt, "a ") })
	for name, c := range map[string]struct {
		reward rewards.Reward
		want   string
	}{"ignored": {rewards.Layout{Detector: asksFor{}}, Unseen}, "counted": {rewards.Layout{Detector: rewards.SceneDetector{}}, Fine}, "corners": {corners, Apart}} {
		r, err := Run(t.Context(), name, rewards.Each(c.reward, 1), set, Options{Probed: 12, Again: -1})
		if err != nil {
			t.Fatal(err)
		}
		p := r.Probes[len(r.Probes)-1]
		warned := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, "things that nobody asked for cost nothing") })
		if p.Name != "plant" || p.Raise == nil || p.Outcome != c.want || warned != (c.want == Unseen) {
			t.Errorf("%s: %s %+v is %q of %v to %v, warnings %q", name, p.Name, p.Raise, p.Outcome, p.Gain, p.Prompts, r.Warnings)
		}
	}
}

// TestPlantedClip: all frames of a clip have the thing at one place and in one colour, also where another corner of a
// later frame is emptier.
func TestPlantedClip(t *testing.T) {
	frame := func(empty int) []uint8 { // noise but for a corner
		m := vision.New(40, 40)
		r := rng.New(uint64(empty)).Draw()
		for i := range m.Pix {
			if x, y := i/3%40, i/3/40; x/20 != empty%2 || y/20 != empty/2 {
				m.Pix[i] = uint8(r.Intn(256))
			}
		}
		return m.Pix
	}
	clip := &video.Clip{Width: 40, Height: 40, Frames: [][]uint8{frame(0), frame(3), frame(1)}}
	var plant Probe
	for _, p := range Probes() {
		if p.planted {
			plant = p
		}
	}
	changed, _, err := plant.apply(rewards.Item{Prompt: "a dog", Clip: clip}, rng.New(5))
	if err != nil {
		t.Fatal(err)
	}
	var places [3][]int
	for k, f := range changed.Clip.Frames {
		for i := 0; i < len(f); i += 3 {
			if !bytes.Equal(f[i:i+3], clip.Frames[k][i:i+3]) {
				places[k] = append(places[k], i)
				if first := places[0][0]; !bytes.Equal(f[i:i+3], changed.Clip.Frames[0][first:first+3]) {
					t.Fatalf("frame %d: %v, and not the colour of the first", k, f[i:i+3])
				}
			}
		}
	}
	if len(places[0]) < 16 || !slices.Equal(places[0], places[1]) || !slices.Equal(places[0], places[2]) {
		t.Errorf("places: %v", places)
	}
}
