package vlm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// small is a tiny model's settings.
func small(f Family) Config {
	c := f.defaults()
	c.Picture, c.Clip, c.Begin, c.End = 50, 51, 52, 53
	t, v := &c.Text, &c.Vision
	t.Vocabulary, t.Width, t.Inner, t.Layers, t.Heads, t.KVHeads = 60, 32, 48, 3, 4, 2
	v.Layers, v.Heads, v.Inner, v.Patch, v.Window = 3, 2, 40, 4, 16
	v.Width, v.Out, v.Embed, v.Ratio = 24, 32, 24, 2
	t.Sections = []int{1, 1, 2}
	v.Whole = []int{1}
	switch f {
	case FamilyQwen2VL:
		v.Width = 32 // settle reads it as Out
	case FamilyQwen3VL:
		v.Side, v.Deep = 36, []int{0, 2}
		t.Sections, t.HeadDim = []int{3, 1, 2}, 12
	case FamilyQwen3VLMoE:
		v.Side, v.Deep = 36, []int{0, 2}
		t.Sections, t.HeadDim = []int{3, 1, 2}, 12
		t.Experts, t.Chosen, t.ExpertInner, t.SparseStep, t.Dense = 5, 2, 10, 1, []int{1}
	case FamilyQwen35:
		v.Side, t.Layers, t.HeadDim, t.Turning = 36, 4, 12, 2./3
		t.Sections = []int{2, 1, 1}
		t.KeyHeads, t.ValueHeads, t.KeyDim, t.ValueDim = 2, 4, 6, 5
	}
	c.settle()
	return c
}

// workshop is a backend, and a model of drawn weights on it.
type workshop struct {
	pool *tensor.Pool
	m    *Model
	p    *nn.Params
	o    autograd.Options
}

func newWorkshop(t *testing.T, c Config, o autograd.Options, train ...string) workshop {
	t.Helper()
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	w := workshop{pool: tensor.NewPool(be), o: o}
	if w.p, err = nn.New(nn.Options{Pool: w.pool, Math: o.Math, Key: rng.New(5), Train: train}); err != nil {
		t.Fatal(err)
	}
	w.m = New(w.p, c)
	if err := w.p.Check(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.p.Free)
	return w
}

// precisions are the two arithmetics.
var precisions = map[string]autograd.Options{"f32": {}, "bf16": {DType: kernels.BF16, Math: kernels.MathBF16}}

// words are n tokens of text.
func words(r *rand.Rand, n int) Stretch {
	var s Stretch
	for range n {
		s.IDs = append(s.IDs, int32(r.IntN(50)))
	}
	return s
}

// pictured is a picture between its marks.
func pictured(r *rand.Rand, c Config, rows, columns int) Stretch {
	g := Grid{1, rows, columns}
	s := Stretch{IDs: []int32{c.Begin}, Pictures: Patches{Grids: []Grid{g}}}
	for range g.Tokens(c.Vision.Merge) {
		s.IDs = append(s.IDs, c.Picture)
	}
	s.IDs = append(s.IDs, c.End)
	for range g.Patches() * c.Vision.patchWidth() {
		s.Pictures.Values = append(s.Pictures.Values, float32(r.NormFloat64()))
	}
	return s
}

// filmed is a clip between its marks.
func filmed(r *rand.Rand, c Config, seconds float64) Stretch {
	g := Grid{2, 4, 6}
	s := Stretch{IDs: []int32{c.Begin}, Clips: Patches{Grids: []Grid{g}}, Seconds: []float64{seconds}}
	for range g.Tokens(c.Vision.Merge) {
		s.IDs = append(s.IDs, c.Clip)
	}
	s.IDs = append(s.IDs, c.End)
	for range g.Patches() * c.Vision.patchWidth() {
		s.Clips.Values = append(s.Clips.Values, float32(r.NormFloat64()))
	}
	return s
}

// together joins stretches, pixels and all.
func together(all ...Stretch) Stretch {
	var s Stretch
	for _, x := range all {
		pictures, clips := slices.Concat(s.Pictures.Values, x.Pictures.Values), slices.Concat(s.Clips.Values, x.Clips.Values)
		s = s.joined(x)
		s.Pictures.Values, s.Clips.Values = pictures, clips
	}
	return s
}

// whole is the logits of a row that is read at once, a slice a token.
func (w workshop) whole(t *testing.T, s Stretch) [][]float32 {
	t.Helper()
	tp := autograd.New(w.pool, w.o)
	defer tp.Reset()
	h, err := w.m.Hidden(tp, s)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]float32
	for x := w.m.Logits(tp, h).F32(); len(x) > 0; x = x[w.m.Text.Vocabulary:] {
		rows = append(rows, x[:w.m.Text.Vocabulary])
	}
	return rows
}

// TestDecodingIsReading: with kept keys and values, in stretches and token by token, pictures in
// the middle, logits and log-probabilities have the bits of one reading of the whole.
func TestDecodingIsReading(t *testing.T) {
	for f := range families {
		for name, o := range precisions {
			t.Run(fmt.Sprint(Family(f), name), func(t *testing.T) {
				c := small(Family(f))
				w := newWorkshop(t, c, o)
				r := rand.New(rand.NewPCG(1, uint64(f)))
				d := w.m.NewDecoder(w.pool, o, 1)
				defer d.Close()
				all := Stretch{}
				got := map[int][]float32{} // by the place of the token before
				logps := map[int]float32{}
				extend := func(s Stretch) {
					z, err := d.Extend(0, s)
					if err != nil {
						t.Fatal(err)
					}
					all = together(all, s)
					got[len(all.IDs)-1] = slices.Clone(z)
				}
				extend(together(words(r, 3), pictured(r, c, 6, 10), words(r, 2), pictured(r, c, 4, 4), words(r, 5), filmed(r, c, 0.75)))
				for turn := range 2 {
					for range 4 + 130*turn {
						s := words(r, 1)
						lp, err := d.LogProbs(s.IDs, 0.7)
						if err != nil {
							t.Fatal(err)
						}
						logps[len(all.IDs)-1] = lp[0]
						z, err := d.Step([]int{0}, s.IDs)
						if err != nil {
							t.Fatal(err)
						}
						all = together(all, s)
						got[len(all.IDs)-1] = z[0]
					}
					extend(together(words(r, 1), pictured(r, c, 4, 6+2*turn), filmed(r, c, 2), words(r, 2)))
				}
				want := w.whole(t, all)
				for at, z := range got {
					if !slices.Equal(z, want[at]) {
						t.Fatalf("the logits behind token %d of %d differ: %v..., read at once %v...", at, len(want), z[:3], want[at][:3])
					}
				}
				var rows, tokens []int32
				for at := range len(all.IDs) - 1 {
					if _, ok := logps[at]; ok {
						rows, tokens = append(rows, int32(at)), append(tokens, all.IDs[at+1])
					}
				}
				tp := autograd.New(w.pool, o)
				defer tp.Reset()
				h, err := w.m.Hidden(tp, all)
				if err != nil {
					t.Fatal(err)
				}
				for i, lp := range w.m.LogProbs(tp, h, rows, tokens, 0.7).F32() {
					if lp != logps[int(rows[i])] {
						t.Fatalf("the log-probability of token %d is %v, and was %v when it was drawn", rows[i]+1, lp, logps[int(rows[i])])
					}
				}
				if at, _, err := c.Positions(all); err != nil || at[0][len(at[0])-1] == len(at[0])-1 {
					t.Errorf("indices count tokens alone (%v): the case shows nothing", err)
				}
			})
		}
	}
}

// TestBatchOfRows: rows of other lengths beside it change no bit of a row, nor the order in
// which they are named, nor rows that wait.
func TestBatchOfRows(t *testing.T) {
	for name, f := range map[string]Family{"f32": FamilyQwen25VL, "bf16": FamilyQwen25VL, "f32, states": FamilyQwen35, "bf16, states": FamilyQwen35, "f32, experts": FamilyQwen3VLMoE, "bf16, experts": FamilyQwen3VLMoE} {
		t.Run(name, func(t *testing.T) {
			precision, _, _ := strings.Cut(name, ",")
			o := precisions[precision]
			c := small(f)
			w := newWorkshop(t, c, o)
			const n = 8
			alone := func(row int, steps []int32) (all [][]float32) {
				d := w.m.NewDecoder(w.pool, o, 1)
				defer d.Close()
				z, err := d.Extend(0, prompt(c, row))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, z)
				for _, id := range steps {
					z, err := d.Step([]int{0}, []int32{id})
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, z[0])
				}
				return all
			}
			d := w.m.NewDecoder(w.pool, o, n)
			defer d.Close()
			r := rand.New(rand.NewPCG(9, 9))
			said, got := make([][]int32, n), make([][][]float32, n)
			for row := range n {
				z, err := d.Extend(row, prompt(c, row))
				if err != nil {
					t.Fatal(err)
				}
				got[row] = append(got[row], slices.Clone(z))
			}
			for step := range 6 {
				rows := r.Perm(n)
				if step%2 == 0 {
					rows = rows[:1+r.IntN(n)] // the others wait
				} else {
					slices.Sort(rows)
				}
				ids := words(r, len(rows)).IDs
				z, err := d.Step(rows, ids)
				if err != nil {
					t.Fatal(err)
				}
				for i, row := range rows {
					said[row], got[row] = append(said[row], ids[i]), append(got[row], z[i])
				}
			}
			for row := range n {
				for i, want := range alone(row, said[row]) {
					if !slices.Equal(want, got[row][i]) {
						t.Fatalf("row %d, reading %d: in a batch %v..., alone %v...", row, i, got[row][i][:3], want[:3])
					}
				}
			}
			d.Copy(2, 5)
			a, err := d.Step([]int{2, 5}, []int32{7, 7})
			if err != nil || !slices.Equal(a[0], a[1]) || d.Len(2) != d.Len(5) {
				t.Errorf("a row that was copied goes on otherwise (%v)", err)
			}
			d.Clear(5)
			if z, err := d.Extend(5, prompt(c, 5)); err != nil || !slices.Equal(z, got[5][0]) {
				t.Errorf("a row that was cleared remembers (%v)", err)
			}
		})
	}
}

// TestRowsAbreast: keys of rows that follow each other and hold as many tokens are written at once, with the bits of
// rows alone, whichever rows of a batch they are.
func TestRowsAbreast(t *testing.T) {
	o, c := precisions["bf16"], small(FamilyQwen25VL)
	w := newWorkshop(t, c, o)
	d, alone := w.m.NewDecoder(w.pool, o, 6), w.m.NewDecoder(w.pool, o, 1)
	defer d.Close()
	defer alone.Close()
	r := rand.New(rand.NewPCG(3, 3))
	said := make([][]int32, 6)
	for row := range said {
		said[row] = words(r, 9).IDs[:5+row/3] // three hold as many, and three others
		if _, err := d.Extend(row, Stretch{IDs: said[row]}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		rows []int
		want []abreast
	}{
		{[]int{0, 1, 2, 3, 4, 5}, []abreast{{0, 5, 0, 3}, {3, 6, 3, 3}}},
		{[]int{4, 5, 1, 2}, []abreast{{4, 7, 0, 2}, {1, 6, 2, 2}}},
		{[]int{2, 1, 0, 3}, []abreast{{2, 7, 0, 1}, {1, 7, 1, 1}, {0, 6, 2, 1}, {3, 7, 3, 1}}},
	} {
		if got := d.stores(step.rows); !slices.Equal(got, step.want) {
			t.Errorf("rows %v are abreast as %v, want %v", step.rows, got, step.want)
		}
		next := words(r, len(step.rows)).IDs
		got, err := d.Step(step.rows, next)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range step.rows {
			said[row] = append(slices.Clone(said[row]), next[i])
			alone.Clear(0)
			if z, err := alone.Extend(0, Stretch{IDs: said[row]}); err != nil || !slices.Equal(z, got[i]) {
				t.Fatalf("row %d of %v: other bits than alone (%v)", row, step.rows, err)
			}
		}
	}
}

// TestRowsReadAtOnce: stretches that are read at once have the bits of those read one by one.
func TestRowsReadAtOnce(t *testing.T) {
	for f := range families {
		for name, o := range precisions {
			c := small(Family(f))
			w := newWorkshop(t, c, o)
			one, all := w.m.NewDecoder(w.pool, o, 5), w.m.NewDecoder(w.pool, o, 5)
			for turn := range 3 {
				rows := [][]int{{4, 0, 2, 1}, {1, 4}, {3, 2, 4}}[turn]
				stretches := make([]Stretch, len(rows))
				for i, r := range rows {
					stretches[i] = prompt(c, 3*turn+r)
				}
				got, err := all.ExtendAll(rows, stretches)
				if err != nil {
					t.Fatal(err)
				}
				lp, err := all.LogProbs(make([]int32, len(rows)), 1)
				if err != nil {
					t.Fatal(err)
				}
				for i, r := range rows {
					want, err := one.Extend(r, stretches[i])
					if err != nil {
						t.Fatal(err)
					}
					alone, err := one.LogProbs([]int32{0}, 1)
					if err != nil || !slices.Equal(want, got[i]) || lp[i] != alone[0] || one.Len(r) != all.Len(r) {
						t.Fatalf("%v, %s, turn %d: row %d differs (%v)", Family(f), name, turn, r, err)
					}
				}
			}
			n := all.Len(4)
			if _, err := all.ExtendAll([]int{4, 0}, []Stretch{prompt(c, 1), {}}); err == nil || all.Len(4) != n {
				t.Errorf("a row was read though another was refused (%v)", err)
			}
			one.Close()
			all.Close()
		}
	}
}

// TestSequencesAtOnce: sequences that go through the network together have the bits of each alone.
func TestSequencesAtOnce(t *testing.T) {
	for f := range families {
		for name, o := range precisions {
			c := small(Family(f))
			w := newWorkshop(t, c, o)
			for _, list := range [][]int{{4, 0, 2, 1}, {3}, {5, 5}, {0, 6, 3}} {
				var all []Stretch
				for _, i := range list {
					all = append(all, prompt(c, i))
				}
				tp := autograd.New(w.pool, w.o)
				h, err := w.m.HiddenAll(tp, all)
				if err != nil {
					t.Fatal(err)
				}
				got := slices.Clone(w.m.Logits(tp, h).F32())
				tp.Reset()
				for i, s := range all {
					want := slices.Concat(w.whole(t, s)...)
					if !slices.Equal(got[:len(want)], want) {
						t.Errorf("%v, %s: sequence %d of %v differs", Family(f), name, i, list)
					}
					got = got[len(want):]
				}
			}
			tp := autograd.New(w.pool, w.o)
			if _, err := w.m.HiddenAll(tp, []Stretch{prompt(c, 1), {}}); err == nil || !strings.Contains(err.Error(), "stretch 1") {
				t.Errorf("a sequence without tokens: %v", err)
			}
			tp.Reset()
		}
	}
}

// prompt is one of several, of different lengths.
func prompt(c Config, i int) Stretch {
	r := rand.New(rand.NewPCG(3, uint64(i)))
	if i%3 == 0 {
		return words(r, 1+3*i)
	}
	return together(words(r, 2+5*i), pictured(r, c, 4, 2+2*i), words(r, 3))
}

// TestSlowTwin: attention written as it is read, in float64, gives the same logits.
func TestSlowTwin(t *testing.T) {
	for f := range families {
		c := small(Family(f))
		w := newWorkshop(t, c, autograd.Options{})
		s := prompt(c, 4)
		tp := autograd.New(w.pool, w.o)
		in, err := w.m.input(tp, nil, []Stretch{s}, onTape{})
		if err != nil {
			t.Fatal(err)
		}
		h := w.m.run(tp, in, nil, looks{func(_ int, q, k, v *autograd.Value) *autograd.Value {
			return tp.Upload("attention", slowAttention(c.Text, q.F32(), k.F32(), v.F32()), q.Shape()...)
		}, w.m.whole(tp, in.ends).runs}, nil)
		got, most := w.m.Logits(tp, h).F32(), 0.0
		for i, want := range slices.Concat(w.whole(t, s)...) {
			most = max(most, math.Abs(float64(want-got[i])))
		}
		if tp.Reset(); most > 2e-5 || most == 0 {
			t.Errorf("%v: logits are %g apart", Family(f), most)
		}
	}
}

func slowAttention(c TextConfig, q, k, v []float32) []float32 {
	dim, n := c.HeadDim, len(q)/(c.Heads*c.HeadDim)
	out := make([]float32, len(q))
	for i := range n {
		for h := range c.Heads {
			kv, weights, total := h/(c.Heads/c.KVHeads), make([]float64, i+1), 0.0
			for j := range weights {
				dot := 0.0
				for d := range dim {
					dot += float64(q[(i*c.Heads+h)*dim+d]) * float64(k[(j*c.KVHeads+kv)*dim+d])
				}
				weights[j] = math.Exp(dot / math.Sqrt(float64(dim)))
				total += weights[j]
			}
			for d := range dim {
				sum := 0.0
				for j, x := range weights {
					sum += x / total * float64(v[(j*c.KVHeads+kv)*dim+d])
				}
				out[(i*c.Heads+h)*dim+d] = float32(sum)
			}
		}
	}
	return out
}

// TestLogProbsGradient: the gradient through chunks of the head is that through all logits.
func TestLogProbsGradient(t *testing.T) {
	c := small(FamilyQwen3VL)
	w := newWorkshop(t, c, autograd.Options{Train: true}, ".*")
	s := together(prompt(c, 4), words(rand.New(rand.NewPCG(1, 1)), 90))
	gradient := func(whole bool, again int) (lp, g []float32) {
		w.p.ZeroGrad()
		o := w.o
		o.Checkpoint = again
		tp := autograd.New(w.pool, o)
		defer tp.Reset()
		h, err := w.m.Hidden(tp, s)
		if err != nil {
			t.Fatal(err)
		}
		var rows, next []int32
		for i := 0; i+1 < len(s.IDs); i++ {
			rows, next = append(rows, int32(i)), append(next, s.IDs[i+1])
		}
		y := w.m.LogProbs(tp, h, rows, next, 0.8)
		if whole {
			y = tp.LogProbs(w.m.Logits(tp, tp.Gather(h, rows, 1, len(rows))), next, 0.8)
		}
		lp = y.F32()
		_, seed := autograd.Mean(y)
		tp.Backward(seed)
		for _, name := range []string{"model.visual.patch_embed.proj.weight", "lm_head.weight"} {
			x, err := w.p.Grad(name)
			if err != nil {
				t.Fatal(err)
			}
			f, err := x.Float32(nil)
			if err != nil {
				t.Fatal(err)
			}
			g = append(g, f...)
		}
		return lp, g
	}
	lp, g := gradient(false, 0)
	if lp2, g2 := gradient(false, autograd.AllBlocks); !slices.Equal(lp, lp2) || !slices.Equal(g, g2) {
		t.Error("layers that run again in backward have other bits")
	}
	lp2, g2 := gradient(true, 0)
	if !slices.Equal(lp, lp2) {
		t.Error("log-probabilities of chunks differ from those of all logits")
	}
	patches := len(g) - c.Text.Vocabulary*c.Text.Width
	if !slices.Equal(g[:patches], g2[:patches]) {
		t.Error("gradients behind the head differ")
	}
	for i := range g {
		if d := math.Abs(float64(g[i] - g2[i])); d > 1e-6 {
			t.Fatalf("element %d of the gradients: %v and %v", i, g[i], g2[i])
		}
	}
}

// TestRefused: parts that do not fit each other are refused by type, and leave a row as it was.
func TestRefused(t *testing.T) {
	c := small(FamilyQwen25VL)
	w := newWorkshop(t, c, autograd.Options{})
	d := w.m.NewDecoder(w.pool, w.o, 2)
	defer d.Close()
	r := rand.New(rand.NewPCG(4, 4))
	good := together(words(r, 3), pictured(r, c, 4, 4))
	if _, err := d.Extend(0, good); err != nil {
		t.Fatal(err)
	}
	cut, few, stray, unread := good, good, good, good
	cut.IDs = cut.IDs[:len(cut.IDs)-2]
	few.Pictures.Values = few.Pictures.Values[1:]
	stray.Pictures = Patches{}
	unread.IDs = append(slices.Clone(unread.IDs), 60)
	var mismatch Mismatch
	var unknown UnknownToken
	var said MarkAsWord
	for name, s := range map[string]Stretch{"cut": cut, "no pictures": stray} {
		if _, err := d.Extend(0, s); !errors.As(err, &mismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.Extend(0, unread); !errors.As(err, &unknown) || unknown.ID != 60 {
		t.Errorf("a token beyond the vocabulary: %v", err)
	}
	if _, err := d.Step([]int{0}, []int32{c.Picture}); !errors.As(err, &said) {
		t.Errorf("a mark that is said: %v", err)
	}
	if _, err := d.Step([]int{0}, []int32{-1}); !errors.As(err, &unknown) {
		t.Errorf("a negative token: %v", err)
	}
	for name, f := range map[string]func() error{
		"few numbers":                 func() error { _, err := d.Extend(0, few); return err },
		"nothing":                     func() error { _, err := d.Extend(0, Stretch{}); return err },
		"no such row":                 func() error { _, err := d.Extend(2, good); return err },
		"an empty row":                func() error { _, err := d.Step([]int{1}, []int32{3}); return err },
		"twice":                       func() error { _, err := d.Step([]int{0, 0}, []int32{3, 3}); return err },
		"no tokens":                   func() error { _, err := d.Step([]int{0}, nil); return err },
		"log-probabilities of others": func() error { _, err := d.LogProbs([]int32{1, 2}, 1); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if n := d.Len(0); n != len(good.IDs) {
		t.Errorf("row 0 has %d tokens after refusals, not %d", n, len(good.IDs))
	}
}
