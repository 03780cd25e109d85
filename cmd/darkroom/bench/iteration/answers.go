package iteration

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Answers is the part of a vision-language model of Qwen2.5-VL's kind: reading prompts, writing
// answers token by token with kept keys and values, seeing a picture of 224 x 224.
type Answers struct {
	Config     map[string]any `json:"config"`
	Parameters int            `json:"parameters"`
	Prefill    Tokens         `json:"prefill"`
	Decode     Tokens         `json:"decode"`
	Vision     Timed          `json:"vision_224"`
	Peak       int            `json:"peak_rss_mb"`
}

// Tokens is timed work on tokens.
type Tokens struct {
	Timed
	PerSecond float64 `json:"tokens_per_s"`
	Step      float64 `json:"step_ms,omitempty"` // of a token in each row
}

func (t *Tokens) count(tokens int) { t.PerSecond = rounded(float64(tokens) / t.Best) }

// talker is the settings of the model.
func talker(vocabulary int) vlm.Config {
	n := int32(vocabulary)
	return vlm.Config{Family: vlm.FamilyQwen25VL, Tied: true, Picture: n - 5, Clip: n - 6, Begin: n - 8, End: n - 7,
		Text: vlm.TextConfig{Vocabulary: vocabulary, Width: 1024, Inner: 2816, Layers: 4, Heads: 8, KVHeads: 2, HeadDim: 128,
			Eps: 1e-6, Act: "silu", Theta: 1e6, Sections: []int{16, 24, 24}},
		Vision: vlm.TowerConfig{Layers: 4, Width: 640, Inner: 1728, Heads: 8, Out: 1024, Patch: 14, Merge: 2, Frames: 2, Channels: 3,
			Window: 112, Whole: []int{3}, PerSecond: 4, Act: "silu"}}
}

func (b *bench) answers() (*Answers, error) {
	o := autograd.Options{}
	if b.precision == pipeline.BF16 {
		o = autograd.Options{DType: kernels.BF16, Math: kernels.MathBF16}
	}
	c := talker(b.Vocabulary)
	p, err := nn.New(nn.Options{Pool: b.pool, Math: o.Math, Key: rng.New(1)})
	if err != nil {
		return nil, err
	}
	defer p.Free()
	m := vlm.New(p, c)
	if err := p.Check(); err != nil {
		return nil, err
	}
	b.reset()
	r := &Answers{Config: map[string]any{"layers": c.Text.Layers, "hidden": c.Text.Width, "heads": c.Text.Heads, "kv_heads": c.Text.KVHeads,
		"intermediate": c.Text.Inner, "vocab": c.Text.Vocabulary, "batch": b.Rows, "prompt": b.Prompt, "new_tokens": b.New, "image": []int{224, 224}}}
	for _, shape := range p.Requested() {
		n := 1
		for _, d := range shape {
			n *= d
		}
		r.Parameters += n
	}
	d := m.NewDecoder(b.pool, o, b.Rows)
	defer d.Close()
	if err := b.sameBits(m, o, d); err != nil {
		return nil, err
	}
	w := writer{b, d, make([]int, b.Rows), make([]int32, b.Rows)}
	if r.Prefill.Timed, err = b.timed(w.read); err != nil {
		return nil, err
	}
	r.Prefill.count(b.Rows * b.Prompt)
	if r.Decode.Timed, err = b.timedAfter(w.read, w.write); err != nil {
		return nil, err
	}
	r.Decode.count(b.Rows * b.New)
	r.Decode.Step = rounded(r.Decode.Best / float64(b.New) * 1e3)
	if r.Vision, err = b.seeing(m, o); err != nil {
		return nil, err
	}
	r.Peak = b.process.Peak()
	return r, nil
}

// prompt is a row's.
func (b *bench) prompt(row, n int) []int32 {
	words := make([]uint32, n)
	rng.New(7).Sample(row).Words(words, 0)
	ids := make([]int32, n)
	for i, x := range words {
		ids[i] = int32(x % uint32(b.Vocabulary-100))
	}
	return ids
}

// sameBits holds a token that is read by itself to one that is read with its prompt.
func (b *bench) sameBits(m *vlm.Model, o autograd.Options, d *vlm.Decoder) error {
	ids := b.prompt(0, b.Prompt+1)
	if _, err := d.Extend(0, vlm.Stretch{IDs: ids[:b.Prompt]}); err != nil {
		return err
	}
	got, err := d.Step([]int{0}, ids[b.Prompt:])
	if err != nil {
		return err
	}
	tp := autograd.New(b.pool, o)
	defer tp.Reset()
	h, err := m.Hidden(tp, vlm.Stretch{IDs: ids})
	if err != nil {
		return err
	}
	want := m.Logits(tp, tp.Gather(h, []int32{int32(b.Prompt)}, 1, 1)).F32()
	if !slices.Equal(got[0], want) {
		return fmt.Errorf("decoding: the logits of a token that is read by itself are not those of the whole")
	}
	return nil
}

// writer reads prompts and writes the likeliest tokens.
type writer struct {
	*bench
	d    *vlm.Decoder
	rows []int
	next []int32
}

func (w writer) read() error {
	prompts := make([]vlm.Stretch, len(w.rows))
	for row := range w.rows {
		w.rows[row], prompts[row].IDs = row, w.prompt(row, w.Prompt)
		w.d.Clear(row)
	}
	logits, err := w.d.ExtendAll(w.rows, prompts)
	for row, z := range logits {
		w.next[row] = w.likeliest(z)
	}
	return err
}

func (w writer) write() error {
	for range w.New {
		logits, err := w.d.Step(w.rows, w.next)
		if err != nil {
			return err
		}
		for row, z := range logits {
			w.next[row] = w.likeliest(z)
		}
	}
	return nil
}

// likeliest is the likeliest token that is a word.
func (w writer) likeliest(logits []float32) int32 {
	best := 0
	for i, z := range logits[:w.Vocabulary-100] {
		if z > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// seeing times the tower.
func (b *bench) seeing(m *vlm.Model, o autograd.Options) (Timed, error) {
	grid := []vlm.Grid{{Frames: 1, Rows: 16, Columns: 16}}
	x := make([]float32, 256*1176)
	rng.New(2).Normal(x, 0)
	tp := autograd.New(b.pool, o)
	defer tp.Reset()
	return b.timed(func() error {
		defer tp.Reset()
		_, err := m.Tower.Forward(tp, tp.Upload("patches", x, 256, 1176), grid)
		return err
	})
}
