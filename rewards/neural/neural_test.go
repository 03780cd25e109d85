package neural

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// linear is a tower whose vectors are a matrix times a picture's numbers, in batches of two.
type linear struct {
	rows  [][]float64
	calls *int
}

func newLinear(width, n int) linear {
	r := rand.New(rand.NewPCG(1, 2))
	l := linear{calls: new(int)}
	for range width {
		var row []float64
		for range n {
			row = append(row, r.NormFloat64())
		}
		l.rows = append(l.rows, row)
	}
	return l
}

func (l linear) of(x []float32) []float64 {
	out := make([]float64, len(l.rows))
	for i, row := range l.rows {
		for k, v := range x {
			out[i] += row[k] * float64(v)
		}
	}
	return out
}

func (l linear) Images(_ context.Context, pictures []*vision.Image) (all [][]float64, err error) {
	*l.calls++
	for _, m := range pictures {
		if m.Pix[0] == 13 {
			return nil, errors.New("an unlucky picture")
		}
		all = append(all, l.of(vision.Floats(nil, m, vision.Unit, vision.ChannelsLast)))
	}
	return all, nil
}

func (l linear) Pixels(_ context.Context, pictures []vision.Pixels) (all [][]float64, err error) {
	for _, p := range pictures {
		all = append(all, l.of(p.RGB))
	}
	return all, nil
}

func (l linear) PullPixels(ctx context.Context, pictures []vision.Pixels, at func(from int, vectors [][]float64) ([][]float64, error)) (grads [][]float32, err error) {
	for from := 0; from < len(pictures); from += 2 {
		part := pictures[from:min(from+2, len(pictures))]
		vectors, _ := l.Pixels(ctx, part)
		d, err := at(from, vectors)
		if err != nil {
			return nil, err
		}
		for i, p := range part {
			g := make([]float32, len(p.RGB))
			for k := range g {
				for j, row := range l.rows {
					g[k] += float32(d[i][j] * row[k])
				}
			}
			grads = append(grads, g)
		}
	}
	return grads, nil
}

func (l linear) Texts(_ context.Context, texts []string) (all [][]float64, err error) {
	for _, s := range texts {
		v := make([]float64, len(l.rows))
		for i, b := range []byte(s) {
			v[i%len(v)] += math.Sin(float64(int(b) * (i + 1)))
		}
		all = append(all, v)
	}
	return all, nil
}

func (l linear) Unread(text string) string { return text[min(len(text), 12):] }
func (l linear) Scale() float64            { return 20 }

const w, h = 3, 2

func pixels(n int) (all []vision.Pixels) {
	r := rand.New(rand.NewPCG(3, 4))
	for range n {
		p := vision.Pixels{Width: w, Height: h}
		for range 3 * w * h {
			p.RGB = append(p.RGB, r.Float32())
		}
		all = append(all, p)
	}
	return all
}

// checkGradient holds gradients to differences of value.
func checkGradient(t *testing.T, name string, pictures []vision.Pixels, grads [][]float32, value func() float64) {
	t.Helper()
	if len(grads) != len(pictures) {
		t.Fatalf("%s: %d gradients", name, len(grads))
	}
	largest := 0.0
	for i, p := range pictures {
		for k := range p.RGB {
			const step = 1. / 256
			old := p.RGB[k]
			p.RGB[k] = old + step
			up := value()
			p.RGB[k] = old - step
			down := value()
			p.RGB[k] = old
			want := (up - down) / (2 * step)
			largest = max(largest, math.Abs(want))
			if math.Abs(float64(grads[i][k])-want) > 2e-4*(1+math.Abs(want)) {
				t.Errorf("%s: picture %d, number %d: %v, differences say %v", name, i, k, grads[i][k], want)
			}
		}
	}
	if largest == 0 {
		t.Errorf("%s: nothing was tested: all differences are 0", name)
	}
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

func TestGradients(t *testing.T) {
	tower, ctx := newLinear(5, 3*w*h), context.Background()
	pictures, prompts := pixels(3), []string{"a red cup", "a cat", "two dogs"}
	for _, s := range Scalings() {
		m := Match{Towers: tower, Scaling: s}
		values, grads, err := m.Gradient(ctx, prompts, pictures)
		if err != nil {
			t.Fatal(err)
		}
		if s.Floor && slices.Min(values) > 0 {
			t.Errorf("%s: no cosine is negative: %v", s.Name, values)
		}
		checkGradient(t, s.Name, pictures, grads, func() float64 {
			values, _, err := m.Gradient(ctx, prompts, pictures)
			if err != nil {
				t.Fatal(err)
			}
			return sum(values)
		})
	}
	a := Aesthetic{Pictures: tower, Head: &Head{Weights: []float64{1, -2, 0.5, 3, 1}, Bias: 5}}
	values, grads, err := a.Gradient(ctx, pictures)
	if err != nil || len(values) != 3 {
		t.Fatal(values, err)
	}
	checkGradient(t, "aesthetic", pictures, grads, func() float64 {
		v, _, _ := a.Gradient(ctx, pictures)
		return sum(v)
	})
	l := Likeness{Pictures: tower}
	references := []*vision.Image{drawn(1), drawn(2), drawn(3)}
	_, grads, err = l.Gradient(ctx, pictures, references)
	if err != nil {
		t.Fatal(err)
	}
	checkGradient(t, "likeness", pictures, grads, func() float64 {
		v, _, _ := l.Gradient(ctx, pictures, references)
		return sum(v)
	})
	_, grads, err = l.ConsistencyGradient(ctx, pictures)
	if err != nil {
		t.Fatal(err)
	}
	checkGradient(t, "consistency", pictures, grads, func() float64 {
		v, _, _ := l.ConsistencyGradient(ctx, pictures)
		return v
	})
}

func drawn(seed uint8) *vision.Image {
	m := vision.New(w, h)
	for i := range m.Pix {
		m.Pix[i] = seed*91 + uint8(i*i)*37
	}
	m.Pix[0] = seed
	return m
}

// TestJudge: a sample's score does not depend on its group; one that cannot be judged is
// missing alone; a clip's is the mean of its frames'.
func TestJudge(t *testing.T) {
	tower, ctx := newLinear(5, 3*w*h), context.Background()
	m := Match{Towers: tower, Scaling: Scalings()[0]}
	clip := &video.Clip{Width: w, Height: h, Frames: [][]uint8{drawn(5).Pix, drawn(6).Pix}}
	items := []rewards.Item{{Prompt: "a red cup", Image: drawn(1)}, {Prompt: "a cat"}, {Prompt: "a cat", Image: drawn(13)}, {Prompt: "a long prompt", Image: drawn(2)}, {Prompt: "a cat", Clip: clip}}
	a := Aesthetic{Pictures: tower, Head: &Head{Weights: []float64{1, -2, 0.5, 3, 1}, Bias: 5}}
	l := Likeness{Pictures: tower, Reference: func(context.Context, rewards.Item) (*vision.Image, error) { return drawn(4), nil }}
	for name, judge := range map[string]interface {
		rewards.Judge
		rewards.Reward
	}{"match": m, "aesthetic": a, "likeness": l} {
		results := judge.Judge(ctx, items)
		for i, r := range results {
			if bad := i == 1 || i == 2; bad != (r.Missing != nil) {
				t.Errorf("%s: sample %d: %v, %v", name, i, r.Value, r.Missing)
			}
			s, err := judge.Score(ctx, items[i])
			if s.Value != r.Value || (err == nil) != (r.Missing == nil) {
				t.Errorf("%s: sample %d: %v in its group, %v alone", name, i, r.Value, s.Value)
			}
		}
		var frames float64
		for _, seed := range []uint8{5, 6} {
			s, err := judge.Score(ctx, rewards.Item{Prompt: "a cat", Image: drawn(seed)})
			if err != nil {
				t.Fatal(err)
			}
			frames += s.Value / 2
		}
		if math.Abs(frames-results[4].Value) > 1e-12 {
			t.Errorf("%s: a clip is worth %v, its frames %v", name, results[4].Value, frames)
		}
	}
	results := m.Judge(ctx, items)
	if e := results[3].Evidence; len(e) != 1 || e[0].What != "unread" || e[0].Text != "t" {
		t.Errorf("evidence %v", e)
	}
	*tower.calls = 0
	m.Judge(ctx, []rewards.Item{items[0], items[3]})
	if *tower.calls != 1 {
		t.Errorf("%d calls for two pictures", *tower.calls)
	}
}

func TestSubject(t *testing.T) {
	tower, ctx := newLinear(5, 3*w*h), context.Background()
	s := Subject{Likeness: Likeness{Pictures: tower}}
	still := &video.Clip{Width: w, Height: h, Frames: [][]uint8{drawn(5).Pix, drawn(5).Pix, drawn(5).Pix}}
	got, err := s.Score(ctx, rewards.Item{Clip: still})
	if err != nil || math.Abs(got.Value-1) > 1e-12 {
		t.Errorf("a still clip: %v, %v", got, err)
	}
	cut := &video.Clip{Width: w, Height: h, Frames: [][]uint8{drawn(5).Pix, drawn(5).Pix, drawn(9).Pix}}
	got, err = s.Score(ctx, rewards.Item{Clip: cut})
	if err != nil || got.Value >= 1 || got.Evidence[0].Text != "frame 2" {
		t.Errorf("a cut: %v, %v", got, err)
	}
	for _, item := range []rewards.Item{{}, {Image: drawn(1)}, {Clip: &video.Clip{Width: w, Height: h, Frames: still.Frames[:1]}}, {Clip: &video.Clip{Width: 9, Height: h, Frames: still.Frames}}} {
		if r := s.Judge(ctx, []rewards.Item{item})[0]; r.Missing == nil {
			t.Errorf("%v has the score %v", item, r.Value)
		}
	}
}

// TestScalings: the names are different, and the error of an unknown one lists the known ones.
func TestScalings(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Scalings() {
		if seen[s.Name] {
			t.Errorf("%s is there twice", s.Name)
		}
		seen[s.Name] = true
		if _, err := ScalingNamed(s.Name); err != nil {
			t.Error(err)
		}
	}
	if _, err := ScalingNamed("pickscore"); err == nil || !strings.Contains(err.Error(), "pickscore_flow_grpo") {
		t.Errorf("%v", err)
	}
}

// TestNoDirection: vectors of zeros or of no number give no score.
func TestNoDirection(t *testing.T) {
	tower, ctx := newLinear(5, 3*w*h), context.Background()
	tower.rows[0][0] = math.NaN()
	m := Match{Towers: tower, Scaling: Scalings()[0]}
	if r := m.Judge(ctx, []rewards.Item{{Prompt: "a cat", Image: drawn(1)}})[0]; r.Missing == nil {
		t.Errorf("NaN has the score %v", r.Value)
	}
	black := vision.New(w, h)
	if r := (Match{Towers: newLinear(5, 3*w*h), Scaling: Scalings()[0]}).Judge(ctx, []rewards.Item{{Prompt: "a cat", Image: black}})[0]; r.Missing == nil {
		t.Errorf("a vector of zeros has the score %v", r.Value)
	}
	if _, _, err := m.Gradient(ctx, []string{"one"}, pixels(2)); err == nil {
		t.Error("two pictures for one prompt")
	}
}

// TestColors: the outside of a mask is painted, and an unusable mask gives an error.
func TestColors(t *testing.T) {
	m := drawn(7)
	mask := make([]bool, w*h)
	mask[1] = true
	for background, want := range map[string][]uint8{"": {0x99, 0x99, 0x99}, "#999": {0x99, 0x99, 0x99}, "#1a2B3c": {0x1a, 0x2b, 0x3c}, "original": m.Pix[:3]} {
		out, err := Colors{Background: background}.Crops(m, []Object{{Box: [4]float64{0, 0, 2, 1}, Mask: mask}})
		if err != nil || out[0].Width != 2 || out[0].Height != 1 {
			t.Fatal(out, err)
		}
		if !slices.Equal(out[0].Pix[:3], want) || !slices.Equal(out[0].Pix[3:], m.Pix[3:6]) {
			t.Errorf("%q: %v", background, out[0].Pix)
		}
	}
	for _, c := range []struct {
		Colors
		Object
	}{{Colors{Background: "gray"}, Object{}}, {Colors{Background: "#12"}, Object{}}, {Colors{Background: "999"}, Object{}}, {Colors{}, Object{Mask: []bool{true}}},
		{Colors{}, Object{Box: [4]float64{2, 0, 1, 1}}}, {Colors{}, Object{Box: [4]float64{math.NaN(), 0, 1, 1}}}} {
		if _, err := c.Crops(m, []Object{c.Object}); err == nil {
			t.Errorf("%+v was cut out", c)
		}
	}
}
