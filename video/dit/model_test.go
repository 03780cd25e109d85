package dit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// tiny is a network that reads a first and a last picture.
var tiny = Config{Patch: []int{1, 2, 2}, Heads: 2, HeadDim: 8, In: 5, Out: 3, Text: 6, Waves: 8, Inner: 12, Layers: 2, CrossNorm: true,
	QKNorm: acrossHeads, Eps: 1e-6, Image: 4, Added: 16, Longest: 16, Places: 6}

// bench is a network on the backend that defines bits.
type bench struct {
	t      *testing.T
	pool   *tensor.Pool
	params *nn.Params
	model  *Model
	o      autograd.Options
}

func newBench(t *testing.T, o autograd.Options) *bench { return newBenchOf(t, tiny, o) }

// newBenchOf is newBench of another network, of which some parameters are trained.
func newBenchOf(t *testing.T, c Config, o autograd.Options, train ...string) *bench {
	t.Helper()
	b := &bench{t: t, pool: tensor.NewPool(ref.Backend{}), o: o}
	p, err := nn.New(nn.Options{Pool: b.pool, Math: o.Math, Key: rng.New(1), Train: train})
	if err != nil {
		t.Fatal(err)
	}
	b.params, b.model = p, New(p, c)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return b
}

// run asks about clips of 3 x 4 x 6, which are drawn by their numbers; times are as Inputs has them.
func (b *bench) run(times []float32, clips ...int) (out []float32, grads [][]float32) {
	b.t.Helper()
	tp := autograd.New(b.pool, b.o)
	defer tp.Reset()
	draw := func(name string, shape ...int) *autograd.Value {
		n, all := 1, []float32(nil)
		for _, d := range shape {
			n *= d
		}
		for _, clip := range clips {
			x := make([]float32, n)
			rng.New(2).With(rng.Purpose(name)).Sample(clip).Normal(x, 0)
			all = append(all, x...)
		}
		return tp.Upload(name, all, append([]int{len(clips)}, shape...)...)
	}
	y := b.model.Forward(tp, Inputs{Latents: draw("latents", 3, 4, 6, 5), Text: draw("text", 7, 6), Picture: draw("picture", 6, 4), Time: times})
	out = y.F32()
	if b.o.Train {
		seed := make([]float32, len(out))
		rng.New(3).Normal(seed, 0)
		tp.Backward(autograd.Seed{Of: y, Grad: seed})
		for _, p := range b.params.Trained() {
			grads = append(grads, p.Grad().F32())
			p.ZeroGrad()
		}
	}
	return out, grads
}

// A clip's bits do not depend on its batch.
func TestBatch(t *testing.T) {
	for _, o := range []autograd.Options{{}, {DType: kernels.BF16, Math: kernels.MathBF16}} {
		b := newBench(t, o)
		both, _ := b.run([]float32{900, 300}, 4, 5)
		first, _ := b.run([]float32{900}, 4)
		second, _ := b.run([]float32{300}, 5)
		if !slices.Equal(both, slices.Concat(first, second)) {
			t.Errorf("%v: a batch of two differs from two batches of one", o)
		}
	}
}

// One time a sample is the same time for each of its frames; a frame of its own changes the answer.
func TestTimesOfFrames(t *testing.T) {
	b := newBench(t, autograd.Options{})
	one, _ := b.run([]float32{700}, 1)
	all, _ := b.run([]float32{700, 700, 700}, 1)
	given, _ := b.run([]float32{0, 700, 700}, 1)
	if !slices.Equal(one, all) {
		t.Error("a time for each frame differs from one of the sample")
	}
	if slices.Equal(one, given) {
		t.Error("a first frame at time 0 changes nothing")
	}
}

// A token of two frames is one of a single frame whose channels are both frames', those of the first channel first,
// with the same weights.
func TestFramesOfToken(t *testing.T) {
	const frames, side, in = 4, 4, 3
	x, text := make([]float32, frames*side*side*in), make([]float32, 5*6)
	rng.New(4).Normal(x, 0)
	rng.New(5).Normal(text, 0)
	folded := make([]float32, len(x))
	for i, v := range x {
		channel, place, frame := i%in, i/in%(side*side), i/in/(side*side)
		folded[((frame/2*side*side+place)*in+channel)*2+frame%2] = v
	}
	answer := func(c Config, x []float32, shape ...int) []float32 {
		pool := tensor.NewPool(ref.Backend{})
		p, err := nn.New(nn.Options{Pool: pool, Key: rng.New(1)})
		if err != nil {
			t.Fatal(err)
		}
		m := New(p, c)
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		tp := autograd.New(pool, autograd.Options{})
		defer tp.Reset()
		return m.Forward(tp, Inputs{Latents: tp.Upload("latents", x, shape...), Text: tp.Upload("text", text, 1, 5, 6), Time: []float32{500}}).F32()
	}
	c := Config{Patch: []int{2, 2, 2}, Heads: 1, HeadDim: 8, In: in, Out: in, Text: 6, Waves: 8, Inner: 12, Layers: 1, CrossNorm: true,
		QKNorm: acrossHeads, Eps: 1e-6, Longest: 16}
	got := answer(c, x, 1, frames, side, side, in)
	c.Patch, c.In, c.Out = []int{1, 2, 2}, 2*in, 2*in
	want := answer(c, folded, 1, frames/2, side, side, 2*in)
	for i, v := range got {
		channel, col, row, frame := i%in, i/in%side, i/in/side%side, i/in/(side*side)
		// A token's numbers are its first frame's four places, then its second's:
		// of two channels of one frame the places differ.
		at := ((frame%2*2+row%2)*2+col%2)*in + channel
		place, rest := at/(2*in), at%(2*in)
		if w := want[((frame/2*side+row/2*2+place/2)*side+col/2*2+place%2)*2*in+rest]; v != w {
			t.Fatalf("frame %d, row %d, column %d, channel %d is %g, want %g", frame, row, col, channel, v, w)
		}
	}
}

// Blocks that run again, their inputs on the device or on the host, give the gradients of blocks that keep values, with
// adapters on both attentions and on the MLP.
func TestCheckpoint(t *testing.T) {
	var want [][]float32
	five, peak := tiny, 0
	five.Layers = 5
	for i, checkpoint := range []int{0, 1, autograd.AllBlocks, autograd.AllBlocks} {
		o := autograd.Options{Train: true, Checkpoint: checkpoint}
		if i == 3 {
			o.Aside = new(autograd.Aside)
		}
		b := newBenchOf(t, five, o)
		if _, err := b.params.AddLoRA(nn.LoRA{Rank: 2, Alpha: 4, Targets: []string{"to_q", "add_k_proj", "to_out.0", "ffn.net.0.proj"}, Key: rng.New(8)}); err != nil {
			t.Fatal(err)
		}
		for i, p := range b.params.Trained() { // B is zero when an adapter is new
			x := p.Value.F32()
			rng.New(9).Step(i).Normal(x, 0)
			p.Value.UploadF32(x)
			p.Updated()
		}
		b.pool.ResetPeak()
		_, grads := b.run([]float32{500}, 3)
		if each := 18 * 16 * 4; i == 3 && (o.Aside.Held != 0 || o.Aside.Peak != 4*each || b.pool.Stats().Peak >= peak) {
			t.Errorf("%d bytes lay on the host, and %d do at the end: %d bytes at most, and %d with all on the device", o.Aside.Peak, o.Aside.Held, b.pool.Stats().Peak, peak)
		}
		peak = b.pool.Stats().Peak
		if want == nil {
			want = grads
		}
		if len(grads) != 2*five.Layers*6 {
			t.Fatalf("%d gradients", len(grads))
		}
		for i := range grads {
			if !slices.Equal(grads[i], want[i]) || slices.Max(grads[i]) == slices.Min(grads[i]) {
				t.Errorf("gradient %d differs, or is one number", i)
			}
		}
	}
}

// Settings that make no sense are all reported.
func TestConfig(t *testing.T) {
	dir := t.TempDir()
	bad := `{"_class_name": "WanTransformer3DModel", "patch_size": [17, 2, 2], "attention_head_dim": 7, "num_layers": 0,
		"qk_norm": null, "image_dim": 5, "added_kv_proj_dim": null, "pos_embed_seq_len": 3}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadConfig(dir)
	for _, want := range []string{`"patch_size" is [17 2 2]`, `"attention_head_dim" is 7`, `"num_layers" is 0`, `"image_dim" is 5`, `"pos_embed_seq_len" is 3`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if err := tiny.Check(); err != nil {
		t.Error(err)
	}
}
