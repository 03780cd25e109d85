package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/sde"
)

// recorded are small pipelines with every part, one a family.
var recorded = golden.Folder("models")

var small = []string{"pipe_sd3", "pipe_flux", "pipe_sd15", "pipe_qwen_image"}

func pool(t *testing.T, threads int) *tensor.Pool {
	t.Helper()
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.NewWith(cpu.Options{Threads: threads, Path: path})
	t.Cleanup(be.Close)
	return tensor.NewPool(be)
}

func open(t *testing.T, dir string, o Options) *Pipeline {
	t.Helper()
	if o.Pool == nil {
		o.Pool = pool(t, 2)
	}
	if o.TextLength == 0 {
		o.TextLength = 32
	}
	p, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// copied is a folder's copy that a test may spoil.
func copied(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(recorded, name))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// edit changes an object in a JSON file; a nil value takes a key away.
func edit(t *testing.T, path string, changes map[string]any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := map[string]any{}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for k, v := range changes {
		if doc[k] = v; v == nil {
			delete(doc, k)
		}
	}
	if data, err = json.Marshal(doc); err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// stochastic is a sampler of four steps, the middle two of which draw and are recorded.
func stochastic(t *testing.T, p *Pipeline, guidance Guidance) Sampler {
	t.Helper()
	at, err := p.Shape(32, 48)
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := p.Schedule(4, at)
	if err != nil {
		t.Fatal(err)
	}
	s := Sampler{At: at, Times: schedule.Timesteps, Guidance: guidance, Record: []int{1, 2}}
	if s.Rows, err = p.Rows(schedule, 0); err != nil {
		t.Fatal(err)
	}
	for _, i := range s.Record {
		if p.Flow() {
			s.Rows[i] = sde.FlowSDE(schedule, i, 0.7, 0)
		} else if s.Rows[i], err = sde.DDIM(schedule, i, 1, p.Prediction(), false); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// pictures are n of each of two prompts.
func pictures(t *testing.T, p *Pipeline, n int) []Picture {
	t.Helper()
	texts, err := p.Encode("a red cat", "a small robot, low poly", "")
	if err != nil {
		t.Fatal(err)
	}
	var all []Picture
	for k, text := range texts[:2] {
		for j := range n {
			pic := Picture{Text: text, Negative: texts[2]}
			pic.StartKey, pic.StepKey = Draws(7, k, j)
			all = append(all, pic)
		}
	}
	return all
}

func sample(t *testing.T, p *Pipeline, pics []Picture, s Sampler) []Track {
	t.Helper()
	tracks, err := p.Sample(context.Background(), pics, s)
	if err != nil {
		t.Fatal(err)
	}
	return tracks
}

func same(t *testing.T, what string, got, want []Track) {
	t.Helper()
	for i := range want {
		if !slices.Equal(got[i].Final, want[i].Final) {
			t.Errorf("%s: picture %d ends elsewhere", what, i)
		}
		for k, step := range want[i].Steps {
			g := got[i].Steps[k]
			if g.LogProb != step.LogProb || !slices.Equal(g.Before, step.Before) || !slices.Equal(g.After, step.After) || !slices.Equal(g.Mean, step.Mean) {
				t.Errorf("%s: picture %d, step %d: log-probability %v, was %v", what, i, step.Index, g.LogProb, step.LogProb)
			}
		}
	}
}

// A picture has the same bits alone, in a batch, in another order and on one thread.
func TestBatchesChangeNothing(t *testing.T) {
	for _, name := range small {
		for _, precision := range []Precision{F32, BF16} {
			p := open(t, filepath.Join(recorded, name), Options{Precision: precision})
			s := stochastic(t, p, Guidance{Scale: 3, Embedded: 2})
			pics := pictures(t, p, 4)
			s.Batch = 8
			whole := sample(t, p, pics, s)
			if slices.Equal(whole[0].Final, whole[1].Final) || slices.Equal(whole[0].Final, whole[4].Final) {
				t.Fatalf("%s: two pictures are one", name)
			}
			if len(whole[0].Steps) != 2 || whole[0].Steps[0].Index != 1 || whole[0].Steps[0].LogProb == 0 {
				t.Fatalf("%s: records %+v", name, whole[0].Steps)
			}
			s.Batch = 1
			same(t, name+" alone", sample(t, p, pics, s), whole)
			s.Batch = 3
			turned := slices.Clone(pics)
			slices.Reverse(turned)
			got := sample(t, p, turned, s)
			slices.Reverse(got)
			same(t, name+" turned", got, whole)
			one := open(t, filepath.Join(recorded, name), Options{Precision: precision, Pool: pool(t, 1)})
			same(t, name+" on one thread", sample(t, one, pictures(t, one, 4), s), whole)
		}
	}
}

// A recorded step, asked again for training in another batch and with an adapter that
// changes nothing yet, has the log-probability that was recorded: the first ratio is 1.
func TestFirstRatioIsOne(t *testing.T) {
	for _, name := range small {
		for _, precision := range []Precision{F32, BF16} {
			p := open(t, filepath.Join(recorded, name), Options{Precision: precision})
			params, err := p.Denoiser()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := params.AddLoRA(nn.LoRA{Rank: 2, Alpha: 4, Targets: []string{"to_q", "to_v"}}); err != nil {
				t.Fatal(err)
			}
			s := stochastic(t, p, Guidance{Scale: 2.5, Embedded: 2})
			pics := pictures(t, p, 2)
			tracks := sample(t, p, pics, s)
			for k, step := range s.Record {
				var points []Point
				for i := len(pics) - 1; i > 0; i-- {
					points = append(points, Point{Latents: tracks[i].Steps[k].Before, Time: tracks[i].Steps[k].Time, Text: pics[i].Text, Negative: pics[i].Negative})
				}
				for _, checkpoint := range []int{0, 2, autograd.AllBlocks} {
					tape := p.Tape(true, checkpoint)
					a, err := p.Forward(tape, s.At, s.Guidance, points)
					if err != nil {
						t.Fatal(err)
					}
					for q, output := range a.Outputs {
						was := tracks[len(pics)-1-q].Steps[k]
						var h sde.History
						h.Push(was.Before, output)
						if lp := s.Rows[step].LogProb(s.Rows[step].Mean(&h), was.After); lp != was.LogProb {
							t.Errorf("%s %s: step %d: log-probability %v, recorded %v", name, precision, step, lp, was.LogProb)
						}
					}
					tape.Reset()
				}
			}
		}
	}
}

// Gradients that are given back at guided outputs are those of finite differences.
func TestBack(t *testing.T) {
	for _, name := range small {
		for _, norm := range []bool{false, true} {
			p := open(t, filepath.Join(recorded, name), Options{Train: []string{`.*to_q\.weight`}})
			params, err := p.Denoiser()
			if err != nil {
				t.Fatal(err)
			}
			s := stochastic(t, p, Guidance{Scale: 2.5, Embedded: 2, Norm: norm})
			pics := pictures(t, p, 1)
			var points []Point
			for i, pic := range pics {
				start := make([]float32, s.At.Len())
				pic.StartKey.Normal(start, 0)
				points = append(points, Point{Latents: widened(start), Time: s.Times[i+1], Text: pic.Text, Negative: pic.Negative})
			}
			grads := make([][]float64, len(points))
			for i := range grads {
				g := make([]float32, s.At.Len())
				pics[i].StepKey.Normal(g, 0)
				grads[i] = widened(g)
			}
			tape := p.Tape(true, 0)
			loss := func() (sum float64) {
				a, err := p.Forward(tape, s.At, s.Guidance, points)
				if err != nil {
					t.Fatal(err)
				}
				for i, out := range a.Outputs {
					for e, v := range out {
						sum += v * grads[i][e]
					}
				}
				tape.Reset()
				return sum
			}
			a, err := p.Forward(tape, s.At, s.Guidance, points)
			if err == nil {
				err = a.Back(grads)
			}
			if err != nil {
				t.Fatal(err)
			}
			tape.Reset()
			// Along the gradient itself the loss changes by its square.
			w := params.Trained()[0]
			g, x := w.Grad().F32(), w.Value.F32()
			norm2 := 0.0
			for _, v := range g {
				norm2 += float64(v) * float64(v)
			}
			const h = 2e-4
			move := func(by float64) float64 {
				y := slices.Clone(x)
				for i, v := range g {
					y[i] += float32(by * float64(v) / norm2)
				}
				w.Value.UploadF32(y)
				w.Updated()
				return loss()
			}
			up, down := move(h*norm2), move(-h*norm2)
			if slope := (up - down) / (2 * h * norm2); !(slope > 0.98 && slope < 1.02) {
				t.Errorf("%s, norm kept %v: the loss changes %v times as the gradient says (|g|² = %v)", name, norm, slope, norm2)
			}
		}
	}
}

// Pictures that share their start and their text are one until a step draws: the network is
// asked once, and the bits are those of pictures apart.
func TestSharedBeginningIsComputedOnce(t *testing.T) {
	p := open(t, filepath.Join(recorded, "pipe_sd3"), Options{})
	s := stochastic(t, p, Guidance{})
	pics := pictures(t, p, 3)
	for i := range pics {
		pics[i].StartKey = pics[i/3*3].StartKey
	}
	asked := 0
	s.Progress = func(done, _ int) { asked = done }
	together := sample(t, p, pics, s)
	if asked != 2+2+6+6 { // two prompts until step 1 has drawn, then six pictures
		t.Errorf("the network was asked about %d pictures", asked)
	}
	for i := range pics {
		same(t, "apart", sample(t, p, pics[i:i+1], s), together[i:i+1])
	}
	if slices.Equal(together[0].Final, together[1].Final) {
		t.Error("pictures that drew differently are one")
	}
}

// Solvers that look back see all that they ask for, and nothing more is kept.
func TestHistory(t *testing.T) {
	p := open(t, filepath.Join(recorded, "pipe_sd3"), Options{})
	s := stochastic(t, p, Guidance{})
	schedule, err := p.Schedule(5, s.At)
	if err != nil {
		t.Fatal(err)
	}
	pics := pictures(t, p, 1)[:1]
	for name, row := range map[string]func(sde.Schedule, int) sde.Row{
		"unipc": sde.UniPC{Order: 2}.Row, "dpm++3m": sde.Multistep{Order: 3, Heun: true, LowerOrderFinal: true}.Row,
	} {
		s.Rows, s.Times, s.Record = nil, schedule.Timesteps, nil
		for i := range schedule.Steps() {
			s.Rows = append(s.Rows, row(schedule, i))
		}
		start := make([]float32, s.At.Len())
		pics[0].StartKey.Normal(start, 0)
		tape := p.Tape(false, 0)
		want := sde.Run(s.Rows, widened(start), func(x []float64, step int) []float64 {
			a, err := p.Forward(tape, s.At, Guidance{}, []Point{{Latents: rounded(x), Time: s.Times[step], Text: pics[0].Text}})
			if err != nil {
				t.Fatal(err)
			}
			tape.Reset()
			return a.Outputs[0]
		}, nil)
		got := sample(t, p, pics, s)[0].Final
		for i, v := range want.States[5] {
			if d := got[i] - v; d > 1e-4 || d < -1e-4 {
				t.Fatalf("%s: latent %d is %v, sde.Run has %v", name, i, got[i], v)
			}
		}
	}
}

func TestTexts(t *testing.T) {
	cache := t.TempDir()
	dir := copied(t, "pipe_sd3")
	p := open(t, dir, Options{Cache: Cache{Dir: cache}})
	long := strings.Repeat("two golden birds near a castle ", 12)
	texts, err := p.Encode("a cat", long, "a cat")
	if err != nil {
		t.Fatal(err)
	}
	if texts[0] != texts[2] || texts[0] == texts[1] {
		t.Error("a prompt's text is not computed once")
	}
	if texts[0].Cut[0] != "" || texts[1].Cut[0] == "" || texts[1].Cut[2] == "" || !strings.HasSuffix(strings.TrimSpace(texts[1].Cut[0]), "castle") {
		t.Errorf("cut %q, %q", texts[0].Cut, texts[1].Cut)
	}
	for i, n := range []int{77, 77, 32} {
		if len(texts[1].IDs[i]) != n {
			t.Errorf("encoder %d read %d tokens", i, len(texts[1].IDs[i]))
		}
	}
	// Another pipeline of the same files finds them without any encoder's weights.
	for _, part := range []string{"text_encoder", "text_encoder_2", "text_encoder_3"} {
		path := filepath.Join(dir, part, "model.safetensors")
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		clear(data[len(data)/2:]) // the header still says the same
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	again, err := open(t, dir, Options{Cache: Cache{Dir: cache}}).Encode("a cat", long)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range again {
		if !slices.Equal(text.States, texts[i].States) || !slices.Equal(text.Pooled, texts[i].Pooled) || !slices.Equal(text.Cut, texts[i].Cut) || !slices.EqualFunc(text.IDs, texts[i].IDs, slices.Equal) {
			t.Errorf("text %d is not what was kept", i)
		}
	}
	// Other settings, another text.
	other, err := open(t, dir, Options{Cache: Cache{Dir: cache}, TextLength: 24}).Encode("a cat")
	if err != nil {
		t.Fatal(err)
	}
	if other[0].Tokens != 77+24 {
		t.Errorf("%d tokens", other[0].Tokens)
	}
	// A file that is damaged is computed anew.
	all, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil || len(all) != 3 {
		t.Fatalf("%v %v", all, err)
	}
	for _, path := range all {
		if err := os.WriteFile(path, []byte("torn"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := open(t, dir, Options{Cache: Cache{Dir: cache}}).Encode("a cat"); err != nil {
		t.Error(err)
	}
}

// Without a third encoder its states are zeros, as many as it would read.
func TestWithoutT5(t *testing.T) {
	dir := copied(t, "pipe_sd3")
	edit(t, filepath.Join(dir, "model_index.json"), map[string]any{"text_encoder_3": []any{nil, nil}, "tokenizer_3": []any{nil, nil}})
	for _, part := range []string{"text_encoder_3", "tokenizer_3"} {
		if err := os.RemoveAll(filepath.Join(dir, part)); err != nil {
			t.Fatal(err)
		}
	}
	texts, err := open(t, dir, Options{}).Encode("a cat")
	if err != nil {
		t.Fatal(err)
	}
	with, err := open(t, filepath.Join(recorded, "pipe_sd3"), Options{}).Encode("a cat")
	if err != nil {
		t.Fatal(err)
	}
	n := 77 * with[0].Width
	if texts[0].Tokens != 77+32 || !slices.Equal(texts[0].States[:n], with[0].States[:n]) || slices.ContainsFunc(texts[0].States[n:], func(v float32) bool { return v != 0 }) {
		t.Errorf("%d tokens, or other states", texts[0].Tokens)
	}
}

func TestShapes(t *testing.T) {
	p := open(t, filepath.Join(recorded, "pipe_sd3"), Options{})
	for _, c := range []struct {
		height, width int
		says          string
	}{{64, 63, "multiples of 16"}, {0, 64, "multiples of 16"}, {-16, 64, "multiples of 16"}, {208, 64, "positions end at 192"}, {64, 96, ""}} {
		_, err := p.Shape(c.height, c.width)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d x %d: %v", c.height, c.width, err)
		}
	}
	if d := p.Defaults(); d.Height != 64 || d.Steps != 28 || d.Guidance != 7 || d.Embedded {
		t.Errorf("%+v", d)
	}
	dir := copied(t, "pipe_sd3")
	for _, size := range []int{1 << 40, 1 << 62, -3} {
		edit(t, filepath.Join(dir, "transformer", "config.json"), map[string]any{"sample_size": size})
		large := open(t, dir, Options{})
		if _, err := large.Shape(large.Defaults().Height, large.Defaults().Width); err == nil {
			t.Errorf("a model of pictures of %d: its usual size is taken", size)
		}
	}
	if d := open(t, filepath.Join(recorded, "pipe_flux"), Options{}).Defaults(); d.Height != 1024 || !d.Embedded {
		t.Errorf("%+v", d)
	}
}

// A text that was not encoded, or does not fit, is an error and no panic.
func TestAskRefuses(t *testing.T) {
	p := open(t, filepath.Join(recorded, "pipe_sd3"), Options{})
	s := stochastic(t, p, Guidance{})
	pics := pictures(t, p, 1)
	x := make([]float64, s.At.Len())
	for says, ask := range map[string]func() error{
		"no question": func() error { _, err := p.Forward(p.Tape(false, 0), s.At, Guidance{}, nil); return err },
		"has no text": func() error {
			_, err := p.Forward(p.Tape(false, 0), s.At, Guidance{Scale: 2}, []Point{{Latents: x, Text: pics[0].Text}})
			return err
		},
		"latents of 3": func() error {
			_, err := p.Forward(p.Tape(false, 0), s.At, Guidance{}, []Point{{Latents: x[:3], Text: pics[0].Text}})
			return err
		},
		"starts at 1": func() error {
			_, err := p.Sample(context.Background(), []Picture{{Text: pics[0].Text, Start: x[:1]}}, s)
			return err
		},
		"a time for each": func() error {
			_, err := p.Sample(context.Background(), pics, Sampler{At: s.At, Rows: s.Rows})
			return err
		},
		"context canceled": func() error {
			ctx, stop := context.WithCancel(context.Background())
			stop()
			_, err := p.Sample(ctx, pics, s)
			return err
		},
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// adapted puts an adapter with drawn numbers on a pipeline, and writes it.
func adapted(t *testing.T, p *Pipeline, dir string) {
	t.Helper()
	params, err := p.Denoiser()
	if err != nil {
		t.Fatal(err)
	}
	set, err := params.AddLoRA(nn.LoRA{Rank: 3, Alpha: 6, Targets: []string{"to_q", "to_v", "to_out.0", "proj_out", "conv_in"}, Key: rng.New(5)})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range set.Params() {
		x := make([]float32, w.Value.Len())
		rng.New(6).With(rng.Purpose(w.Name)).Normal(x, 0)
		for i := range x {
			x[i] *= 0.1
		}
		w.Value.UploadF32(x)
		w.Updated()
	}
	if err := peft.Write(dir, set, peft.Settings{Rank: 3, Alpha: 6}); err != nil {
		t.Fatal(err)
	}
}

// mergeInto writes a copy of a pipeline's folder with an adapter folded into the denoiser, as darkroom export does.
func mergeInto(dir, adapter, out string, pool *tensor.Pool) (layers int, err error) {
	component, err := ComponentOf(dir)
	if err != nil {
		return 0, err
	}
	a, err := peft.Open(adapter, component)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	return len(a.Modules()), Changed(dir, out, peft.Fold{Adapter: a, Pool: pool})
}

// An adapter that was written and read gives the same bits; merged into the folder it gives
// the same pictures but for rounding, and the base folder others.
func TestAdapterAndMerge(t *testing.T) {
	for _, name := range small {
		dir := t.TempDir()
		lora, merged := filepath.Join(dir, "lora"), filepath.Join(dir, "merged")
		base := open(t, filepath.Join(recorded, name), Options{})
		pics := pictures(t, base, 1)
		s := stochastic(t, base, Guidance{Scale: 2, Embedded: 2})
		plain := sample(t, base, pics, s)
		adapted(t, base, lora)
		want := sample(t, base, pics, s)

		again := open(t, filepath.Join(recorded, name), Options{})
		if err := again.AddLoRA(lora); err != nil {
			t.Fatal(err)
		}
		same(t, name+" read again", sample(t, again, pics, s), want)

		layers, err := mergeInto(filepath.Join(recorded, name), lora, merged, pool(t, 2))
		if err != nil {
			t.Fatal(err)
		}
		if layers < 4 {
			t.Errorf("%s: %d layers", name, layers)
		}
		got := sample(t, open(t, merged, Options{}), pics, s)
		far := 0.0
		for i, v := range want[0].Final {
			if d := math.Abs(got[0].Final[i] - v); !(d <= 1e-4*(1+math.Abs(v))) {
				t.Fatalf("%s: latent %d is %v, want %v", name, i, got[0].Final[i], v)
			}
			far = max(far, math.Abs(plain[0].Final[i]-v))
		}
		if far < 0.01 {
			t.Errorf("%s: the adapter changes latents by at most %v", name, far)
		}
		if _, err := mergeInto(filepath.Join(recorded, name), lora, merged, pool(t, 2)); err == nil || !strings.Contains(err.Error(), "exists already") {
			t.Errorf("a second merge: %v", err)
		}
	}
}

// A failed merge leaves nothing behind.
func TestMergeOfAnotherModel(t *testing.T) {
	dir := t.TempDir()
	lora, merged := filepath.Join(dir, "lora"), filepath.Join(dir, "merged")
	adapted(t, open(t, filepath.Join(recorded, "pipe_flux"), Options{}), lora)
	if _, err := mergeInto(filepath.Join(recorded, "pipe_sd3"), lora, merged, pool(t, 1)); err == nil || !strings.Contains(err.Error(), "no such layer") && !strings.Contains(err.Error(), "do not fit") {
		t.Errorf("%v", err)
	}
	for _, path := range []string{merged, merged + ".part"} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left", path)
		}
	}
}
