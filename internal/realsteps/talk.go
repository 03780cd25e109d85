package main

import (
	"encoding/json"
	"errors"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/sampling"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// answered holds the measurements of answers.
type answered struct {
	By        string  `json:"by"`
	Precision string  `json:"precision"`
	Batch     int     `json:"batch"`
	Loading   spent   `json:"loading"`
	Reading   spent   `json:"reading"`
	Writing   spent   `json:"writing"`
	Read      float64 `json:"read_tokens_a_second"`
	Written   float64 `json:"written_tokens_a_second"`
}

// answers opens the folder, and times reading prompts and writing answers with kept keys and values.
func (a asked) answers(m meter, out *json.Encoder) (err error) {
	o := vlm.Options{Pool: tensor.NewPool(m.be), Template: "qwen2_5_vl"}
	if a.precision == "bf16" {
		o.DType, o.Math = kernels.BF16, kernels.MathBF16
	}
	var f *vlm.Folder
	loading, err := m.once(func() (err error) {
		f, err = vlm.Open(a.model, o)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, batch := range a.batches {
		s := answered{By: "darkroom", Precision: a.precision, Batch: batch, Loading: loading}
		if err := a.writer(f, batch).timed(m, &s); err != nil {
			return err
		}
		if err := out.Encode(s); err != nil {
			return err
		}
		o.Pool.Trim()
	}
	return nil
}

// writer reads prompts and writes tokens that are known before, one a row and step.
type writer struct {
	d      *vlm.Decoder
	rows   []int
	words  [][]int32 // of a row: its prompt, then its answer
	prompt int

	sampling *sampling.Options // how tokens are drawn; nil: they are not
}

func (a asked) writer(f *vlm.Folder, batch int) *writer {
	w := &writer{d: f.Decoder(batch), prompt: a.prompt}
	if a.draw {
		w.sampling = &a.sampling
	}
	for row := range batch {
		random := make([]uint32, a.prompt+a.answer)
		rng.New(7).Sample(row).Words(random, 0)
		ids := make([]int32, len(random))
		for i, x := range random {
			ids[i] = int32(x % 256) // letters
		}
		w.rows, w.words = append(w.rows, row), append(w.words, ids)
	}
	return w
}

func (w *writer) timed(m meter, s *answered) (err error) {
	defer w.d.Close()
	if s.Reading, err = m.best(w.read); err != nil {
		return err
	}
	s.Read = float64(len(w.rows)*w.prompt) / s.Reading.Seconds
	if m.repeat > 1 { // caches grow to their size
		if err := w.write(); err != nil {
			return err
		}
		if err := w.read(); err != nil {
			return err
		}
	}
	if s.Writing, err = m.once(w.write); err != nil {
		return err
	}
	s.Written = float64(len(w.rows)*(len(w.words[0])-w.prompt)) / s.Writing.Seconds
	return nil
}

// drawn draws a token of each row as conversations do. The next step reads the known token all the same.
func (w *writer) drawn(at int) error {
	s := vlm.Sampling{Temperature: w.sampling.Temperature, TopK: w.sampling.TopK, TopP: w.sampling.TopP, MinP: w.sampling.MinP, Repetition: w.sampling.Repetition}
	for row := range w.rows {
		s.Uniform = append(s.Uniform, rng.New(7).Sample(row).Step(at).Draw().Float64())
	}
	drawn, err := w.d.Draw(s)
	for _, d := range drawn {
		err = errors.Join(err, d.Err)
	}
	return err
}

func (w *writer) read() error {
	prompts := make([]vlm.Stretch, len(w.rows))
	for row := range w.rows {
		prompts[row].IDs = w.words[row][:w.prompt]
		w.d.Clear(row)
	}
	return w.d.Read(w.rows, prompts)
}

func (w *writer) write() error {
	next := make([]int32, len(w.rows))
	for at := w.prompt; at < len(w.words[0]); at++ {
		for row := range next {
			next[row] = w.words[row][at]
		}
		if w.sampling == nil { // their logits come down
			if _, err := w.d.Step(w.rows, next); err != nil {
				return err
			}
			continue
		}
		if err := w.d.Next(w.rows, next); err != nil {
			return err
		}
		if err := w.drawn(at); err != nil {
			return err
		}
	}
	return nil
}
