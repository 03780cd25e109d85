package main

import (
	"encoding/json"
	"errors"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

var precisions = map[string]pipeline.Precision{"bf16": pipeline.BF16, "f32": pipeline.F32}

// said is the printed line.
type said struct {
	By        string `json:"by"`
	Precision string `json:"precision"`
	Batch     int    `json:"batch"`
	Loading   spent  `json:"loading"`
	Sampling  spent  `json:"sampling"`
	Training  *spent `json:"training,omitempty"`
	Decoding  *spent `json:"decoding,omitempty"`
}

// steps opens the folder, and times sampling and training in each batch.
func (a asked) steps(m meter, out *json.Encoder) (err error) {
	count, err := newCounted()
	if err != nil {
		return err
	}
	dry, err := a.stepper(a.options(count))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dry.p.Close()) }()
	var on *stepper
	loading, err := m.once(func() (err error) {
		on, err = a.stepper(a.options(m.be))
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.p.Close()) }()
	for _, batch := range a.batches {
		on.ask(batch)
		dry.ask(batch)
		s := said{By: "darkroom", Precision: a.precision, Batch: batch, Loading: loading}
		if s.Sampling, err = m.counted(count, on, dry, (*stepper).sample); err != nil {
			return err
		}
		if !a.forward {
			training, err := m.counted(count, on, dry, func(s *stepper) error { return s.train(a.again) })
			if err != nil {
				return err
			}
			s.Training = &training
		}
		if a.decode {
			decoding, err := m.counted(count, on, dry, (*stepper).decode)
			if err != nil {
				return err
			}
			s.Decoding = &decoding
		}
		if err := out.Encode(s); err != nil {
			return err
		}
		on.p.Pool.Trim()
		dry.p.Pool.Trim()
	}
	return nil
}

func (a asked) options(be kernels.Backend) pipeline.Options {
	o := pipeline.Options{Pool: tensor.NewPool(be), Precision: precisions[a.precision], Memory: pipeline.Memory{Lean: a.lean}}
	if decoder, ok := precisions[a.decoder]; ok {
		o.Decoder = &decoder
	}
	if a.full {
		o.Train = []string{".*"}
	}
	return o
}

// counted times a step, and counts its operations. On the host memory that waits is given back before more is asked
// for than the step needs at once, as a run does with a large model.
func (m meter) counted(count *counted, on, dry *stepper, step func(*stepper) error) (b spent, err error) {
	_, far := m.be.(onDevice)
	if pool := dry.p.Pool; !far {
		pool.Limit = 1
		pool.Trim()
		pool.ResetPeak()
	}
	before := count.operations
	count.ResetPeak()
	if err := step(dry); err != nil {
		return b, err
	}
	predicted, operations := count.Peak()>>20, count.operations-before
	if !far {
		on.p.Pool.Limit = dry.p.Pool.Stats().Peak
	}
	if b, err = m.best(func() error { return step(on) }); err != nil {
		return b, err
	}
	b.PredictedMiB = predicted
	return b.did(operations), nil
}
