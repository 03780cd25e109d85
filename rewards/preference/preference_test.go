package preference

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Prompts have the tokens that scores are read at, in order, and keep users' text as it is.
func TestPrompts(t *testing.T) {
	const wild = "100 % {braces} \"quotes\""
	text, err := VideoPrompt("detailed_special", wild)
	if err != nil || !strings.Contains(text, wild) {
		t.Errorf("%q (%v)", text, err)
	}
	at := -1
	for _, token := range VideoTokens {
		if i := strings.Index(text, token); i <= at {
			t.Errorf("%s is missing or out of order", token)
		} else {
			at = i
		}
	}
	if text := PicturePrompt(wild); !strings.Contains(text, wild) || strings.Count(text, PictureTokens[0]) != 1 {
		t.Errorf("%q", text)
	}
	for i, text := range EditPrompts(wild) {
		about := [2]string{"**Instruction Following & Semantic Fidelity**", "**Visual Quality & Realism**"}[i]
		if !strings.Contains(text, "Text instruction - "+wild+"\n") || !strings.Contains(text, about) || strings.Count(text, PictureTokens[0]) != 1 {
			t.Errorf("%q", text)
		}
	}
	for _, bad := range [][]string{{"nosuch", "VQ"}, {"simple", "nosuch"}, {"simple", "VQ", "nosuch"}} {
		if _, err := VideoPrompt(bad[0], "x", bad[1:]...); err == nil || !strings.Contains(err.Error(), "nosuch") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// Frames lie within the clip; unreadable clips are refused.
func TestReading(t *testing.T) {
	for total := 2; total < 200; total += 7 {
		for _, r := range []Reading{{FPS: 2}, {FPS: 8, Most: 6}, {Count: 10}, {FPS: 0.5, Least: 2}, {MultiPoints: true}} {
			frames, err := r.Of(total, 24)
			if err == nil && (len(frames) < 2 || slices.Min(frames) < 0 || slices.Max(frames) >= total || !r.MultiPoints && !slices.IsSorted(frames)) {
				t.Errorf("%+v of %d frames: %v", r, total, frames)
			}
			if err != nil && !r.MultiPoints {
				t.Errorf("%+v of %d frames: %v", r, total, err)
			}
		}
	}
	for _, total := range []int{0, 1} {
		if _, err := (Reading{FPS: 2}).Of(total, 24); err == nil {
			t.Errorf("%d frames are read", total)
		}
	}
	if _, err := (Reading{FPS: 2}).Of(10, 0); err == nil {
		t.Error("a clip without a rate is read")
	}
}

// A frame of its own size stays, one tone stays that tone, and edges do not leave the bytes.
func TestFrame(t *testing.T) {
	m := vision.New(30, 20)
	for i := range m.Pix {
		m.Pix[i] = 77
	}
	if Frame(m, 30, 20) != m {
		t.Error("a frame of the size that is wanted is resized")
	}
	if out := Frame(m, 14, 28); slices.Min(out.Pix) != 77 || slices.Max(out.Pix) != 77 {
		t.Errorf("one tone becomes %d to %d", slices.Min(out.Pix), slices.Max(out.Pix))
	}
	for i := range m.Pix {
		m.Pix[i] = uint8(255 * (i / 3 % 30 / 15))
	}
	out := Frame(m, 60, 40)
	if out.Pix[0] != 0 || out.Pix[3*59] != 255 {
		t.Errorf("black is %d, white %d", out.Pix[0], out.Pix[3*59])
	}
}

// TestResizing: the bits of PyTorch's interpolate (bicubic, antialias) on a machine with AVX-512, 21 x 13 to 4 x 5;
// going back is the adjoint.
func TestResizing(t *testing.T) {
	r := Resizing{21, 13, 4, 5}
	x := make([]float32, 21*13*3)
	for i := range x {
		x[i] = float32((37*i*i + 11*i) % 256)
	}
	y := r.Of(x)
	for i, want := range []uint32{0x42d8ddcc, 0x42ef6f11, 0x4322495e, 0x42f312ce, 0x42fb4ff0, 0x42feab12, 0x4301d95e, 0x42ffefc6, 0x42ecdf0f, 0x42e26140,
		0x4301e9b3, 0x43048998, 0x43140b85, 0x42c3bc23, 0x431e0cd4, 0x431aba57, 0x42e7e786, 0x43026021, 0x42e65835, 0x430ca704, 0x42e4dc15, 0x42e8a8a1} {
		if math.Float32bits(y[i]) != want {
			t.Errorf("number %d is %v, and PyTorch's %v", i, y[i], math.Float32frombits(want))
		}
	}
	for i := range y {
		y[i] /= 8
	}
	there, back := 0.0, 0.0
	for i, v := range r.Of(x) {
		there += float64(v) * float64(y[i])
	}
	for i, v := range r.Back(y) {
		back += float64(v) * float64(x[i])
	}
	if math.Abs(there-back) > 1e-6*there {
		t.Errorf("<Ax, y> is %v, and <x, A'y> %v", there, back)
	}
}

// Scores are read at the answers' tokens alone, and positions are plain; a text that lacks a token is refused.
func TestScores(t *testing.T) {
	c := vlm.Config{Family: vlm.FamilyQwen2VL, Tied: true, Picture: 12, Clip: 13, Plain: true,
		Text:   vlm.TextConfig{Vocabulary: 16, Width: 16, Inner: 24, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 8, Eps: 1e-6, Act: "silu", Theta: 1e4, Sections: []int{1, 1, 2}},
		Vision: vlm.TowerConfig{Layers: 1, Width: 8, Inner: 16, Heads: 2, Out: 16, Channels: 3, Patch: 14, Merge: 2, Frames: 2, Act: "quick_gelu"}}
	p, err := nn.New(nn.Options{Pool: tensor.NewPool(ref.Backend{}), Key: rng.New(1)})
	if err != nil {
		t.Fatal(err)
	}
	n := NewVideo(p, c, 2)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	tp := autograd.New(tensor.NewPool(ref.Backend{}), autograd.Options{})
	ask := func(ids ...int32) ([]float32, error) {
		defer tp.Reset()
		v, err := n.Scores(tp, vlm.Stretch{IDs: ids}, []int32{14, 15}, nil, nil)
		if err != nil {
			return nil, err
		}
		return slices.Clone(v.F32()), nil
	}
	short, err := ask(1, 2, 14, 3, 15)
	if err != nil || len(short) != 2 {
		t.Fatalf("%v (%v)", short, err)
	}
	if long, err := ask(1, 2, 14, 3, 15, 4, 5); err != nil || !slices.Equal(short, long) {
		t.Errorf("what follows changes scores: %v, %v (%v)", short, long, err)
	}
	if _, err := ask(1, 2, 14); err == nil || !strings.Contains(err.Error(), "1 of the 2 tokens") {
		t.Error(err)
	}
	if at, delta, _ := c.Positions(vlm.Stretch{IDs: []int32{1, 2, 3}}); delta != 0 || !slices.Equal(at[2], []int{0, 1, 2}) {
		t.Errorf("positions %v", at)
	}
}
