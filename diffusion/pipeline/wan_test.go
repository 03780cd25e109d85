package pipeline

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/vision"
)

// clipsOf is an open pipeline of clips, their shape, and two texts.
func clipsOf(t *testing.T, name string, o Options) (*Pipeline, Shape, []*Text) {
	t.Helper()
	p := open(t, filepath.Join(recorded, name), o)
	at, err := p.ClipShape(5, 32, 48)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := p.Encode("a cat", "")
	if err != nil {
		t.Fatal(err)
	}
	return p, at, texts
}

// gray is a picture of one tone.
func gray(tone uint8) *vision.Image {
	m := vision.New(40, 30)
	for i := range m.Pix {
		m.Pix[i] = tone + uint8(i%7)
	}
	return m
}

// A clip has the same bits beside another one, which began with other pictures; each network is asked on its
// side of the boundary.
func TestClipsAlone(t *testing.T) {
	for name, g := range map[string]Guidance{"pipe_wan22_t2v": {Scale: 4, Second: 3}, "pipe_wan_flf2v": {Scale: 4}} {
		p, at, texts := clipsOf(t, name, Options{Precision: BF16})
		schedule, err := p.Schedule(4, at)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := p.Rows(schedule, 0)
		if err != nil {
			t.Fatal(err)
		}
		clip := func(i int) Picture {
			pic := Picture{Text: texts[0], Negative: texts[1]}
			pic.StartKey, pic.StepKey = Draws(3, 0, 0) // the same noise: pictures tell them apart
			if may, _, _, _ := p.Gives(); may {
				if pic.Given, err = p.Give(context.Background(), at, gray(uint8(20*i)), gray(200)); err != nil {
					t.Fatal(err)
				}
			} else {
				pic.StartKey, _ = Draws(3, 0, i)
			}
			return pic
		}
		run := func(pics ...Picture) (finals [][]float64) {
			tracks, err := p.Sample(context.Background(), pics, Sampler{At: at, Rows: rows, Times: schedule.Timesteps, Guidance: g, Batch: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, track := range tracks {
				finals = append(finals, track.Final)
			}
			return finals
		}
		first, second := clip(0), clip(1)
		both := run(first, second)
		if !slices.Equal(both[0], run(first)[0]) || !slices.Equal(both[1], run(second)[0]) {
			t.Errorf("%s: a clip depends on its batch", name)
		}
		if slices.Equal(both[0], both[1]) {
			t.Errorf("%s: two different clips are one", name)
		}
		if p.Experts() == 2 && (p.Expert(schedule.Timesteps[0]) != 0 || p.Expert(schedule.Timesteps[3]) != 1) {
			t.Error("the boundary is not between the first and the last step")
		}
	}
}

// A recorded step, asked again on a tape that trains, has the output's bits and so its log-probability: the
// first ratio is 1.
func TestClipsAgain(t *testing.T) {
	p, at, texts := clipsOf(t, "pipe_wan22_t2v", Options{Precision: BF16})
	g := Guidance{Scale: 4, Second: 3}
	schedule := sde.FlowUniPC(3, 4, false)
	var rows []sde.Row
	for i := range 3 {
		rows = append(rows, sde.FlowSDE(schedule, i, 0.7, 0))
	}
	pic := Picture{Text: texts[0], Negative: texts[1], StartKey: rng.New(1), StepKey: rng.New(2)}
	tracks, err := p.Sample(context.Background(), []Picture{pic}, Sampler{At: at, Rows: rows, Times: schedule.Timesteps, Guidance: g, Record: []int{0, 1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range tracks[0].Steps {
		tape := p.Tape(true, autograd.AllBlocks)
		a, err := p.Forward(tape, at, g, []Point{{Latents: step.Before, Time: step.Time, Text: texts[0], Negative: texts[1]}})
		if err != nil {
			t.Fatal(err)
		}
		var h sde.History
		h.Push(step.Before, a.Outputs[0])
		tape.Reset()
		if mean := rows[step.Index].Mean(&h); rows[step.Index].LogProb(mean, step.After) != step.LogProb {
			t.Errorf("step %d: another log-probability", step.Index)
		}
	}
}

// Settings that contradict each other are refused with the reason.
func TestClipsRefused(t *testing.T) {
	p, at, texts := clipsOf(t, "pipe_wan22_t2v", Options{})
	q := func(time float64) Point {
		return Point{Latents: make([]float64, at.Len()), Time: time, Text: texts[0], Negative: texts[1]}
	}
	ask := func(g Guidance, points ...Point) error {
		tape := p.Tape(false, 0)
		defer tape.Reset()
		_, err := p.Forward(tape, at, g, points)
		return err
	}
	says := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	says(ask(Guidance{Scale: 4}, q(900)), "the second one's is missing")
	says(ask(Guidance{Scale: 4, Second: 3}, q(900), q(100)), "in one batch")
	if err := ask(Guidance{Scale: 4, Second: 1}, q(100)); err != nil {
		t.Error(err)
	}
	_, err := p.Give(context.Background(), at, gray(1), nil)
	says(err, "reads none")
	if picture, err := p.Shape(32, 48); err != nil || picture.Frames != 1 || len(picture.Latents) != 4 {
		t.Errorf("a picture is %+v (%v), not a clip of one frame", picture, err)
	}
	for frames, want := range map[int]string{0: "such as 1", 4: "such as 1", 7: "such as 5", 1 << 20: "multiple of 4", 1<<20 + 1: "at most"} {
		_, err := p.ClipShape(frames, 32, 48)
		says(err, want)
	}
	alone := at.Tokens
	p.layout.together = 2 // as of a patch_size [2, 2, 2]
	if at, err = p.ClipShape(5, 32, 48); err != nil || at.Times != 2 || 2*at.Tokens != alone {
		t.Errorf("two frames a token: %+v (%v), and %d tokens without", at, err, alone)
	}
	if at, err = p.Shape(32, 48); err != nil || at.Frames != 5 {
		t.Errorf("the shortest clip of two frames a token is %+v (%v)", at, err)
	}
	_, err = p.ClipShape(9, 32, 48)
	says(err, "has 3 of latents, and the network reads 2 at once")

	p, at, texts = clipsOf(t, "pipe_wan_flf2v", Options{})
	says(ask(Guidance{Scale: 4}, q(900)), "reads a picture with every clip")
	says(ask(Guidance{Scale: 4, Second: 3}, q(900)), "has one network")
	_, err = p.Give(context.Background(), at, gray(1), nil)
	says(err, "give the last one")
	_, err = p.Give(context.Background(), at, nil, gray(1))
	says(err, "without its first")
}

// Gradients at latents, through the decoder, agree with differences; so do those through the network beside
// given pictures.
func TestClipGradients(t *testing.T) {
	p, at, texts := clipsOf(t, "pipe_wan_flf2v", Options{})
	given, err := p.Give(context.Background(), at, gray(10), gray(90))
	if err != nil {
		t.Fatal(err)
	}
	latents, weight := noise(at.Len(), 1), noise(at.Len(), 2)
	pixels := noise(3*at.Pixels(), 3)
	decoded := func(x []float64) (sum float64) {
		raw, err := p.Decode(x, at)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range raw {
			sum += float64(v) * pixels[i]
		}
		return sum
	}
	answered := func(x []float64) (sum float64) {
		tape := p.Tape(false, 0)
		defer tape.Reset()
		a, err := p.Forward(tape, at, Guidance{Scale: 3}, []Point{{Latents: x, Time: 600, Text: texts[0], Negative: texts[1], Given: given}})
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range a.Outputs[0] {
			sum += v * weight[i]
		}
		return sum
	}
	back, err := p.PullDecode([][]float64{latents}, at, func(int, [][]float32) ([][]float32, error) { return [][]float32{narrowed(pixels)}, nil })
	if err != nil {
		t.Fatal(err)
	}
	alongBy(t, 4e-3, "the decoder", latents, back[0], decoded)
	tape := p.Tape(true, 0)
	defer tape.Reset()
	pulled, err := p.Pull(tape, at, Guidance{Scale: 3}, []Point{{Latents: latents, Time: 600, Text: texts[0], Negative: texts[1], Given: given}}, [][]float64{weight})
	if err != nil {
		t.Fatal(err)
	}
	along(t, "the network", latents, pulled[0], answered)
}

func noise(n int, seed uint64) []float64 {
	x := make([]float32, n)
	rng.New(seed).Normal(x, 0)
	return widened(x)
}

// Tiles are of whole clips: one that holds all of a clip changes no bit, and smaller ones keep every frame.
func TestClipTiles(t *testing.T) {
	p, at, _ := clipsOf(t, "pipe_wan22_t2v", Options{})
	latents := noise(at.Len(), 4)
	whole, err := p.Decode(latents, at)
	if err != nil {
		t.Fatal(err)
	}
	for tile, same := range map[int]bool{64: true, 32: false} {
		p.Tile = tile
		got, err := p.Decode(latents, at)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(whole) || slices.Equal(got, whole) != same {
			t.Errorf("tiles of %d: %d numbers, the same: %v", tile, len(got), slices.Equal(got, whole))
		}
		each, side := len(got)/5, 8*3 // the first pixels of a frame are those of its first tile alone
		if !same && slices.Equal(got[:side], got[4*each:4*each+side]) {
			t.Error("the first frame is the last one's")
		}
	}
}
