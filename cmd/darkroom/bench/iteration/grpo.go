package iteration

import (
	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Iterations is the part of the transformer.
type Iterations struct {
	Config     map[string]any `json:"config"`
	Parameters int            `json:"parameters"`
	LoRA       int            `json:"lora_parameters"`
	LoRAType   string         `json:"lora_dtype"`

	SamplingEach      float64 `json:"sampling_s_per_image_step"`
	Sampling          *Phase  `json:"sampling"`
	CheckpointingEach float64 `json:"training_checkpointing_s_per_image_step"`
	Checkpointing     *Phase  `json:"training_checkpointing"`
	TrainingEach      float64 `json:"training_s_per_image_step"`
	Training          *Phase  `json:"training"`

	Mix  *Iteration `json:"mixgrpo,omitempty"`
	Flow *Iteration `json:"flowgrpo,omitempty"`
}

// Iteration is one whole iteration: sampling, training of the sampled steps, one update.
type Iteration struct {
	Seconds  float64 `json:"iteration_s"`
	Sampling float64 `json:"sampling_s"`
	Training float64 `json:"training_s"`
	Peak     int     `json:"peak_rss_mb"`
	Sampled  int     `json:"sampled_image_steps"`
	Trained  int     `json:"trained_image_steps"`

	Device *kernels.Traffic `json:"device,omitempty"`
	Held   int              `json:"device_mb,omitempty"` // of a device's memory
}

// The text's widths, as SD3 has them.
const (
	jointWidth  = 4096
	pooledWidth = 2048
	rank        = 32
)

// targets are the layers that get adapters.
var targets = []string{"to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"}

// open is the pipeline with drawn weights.
func (b *bench) open() (*pipeline.Pipeline, error) {
	d := pipeline.Drawn{Shift: 3, Key: rng.New(0), Decoder: decoder(), Network: mmdit.Config{SampleSize: b.Latent, PatchSize: 2, In: 16, Out: 16,
		Layers: b.Layers, Heads: b.Heads, HeadDim: 64, Context: jointWidth, ContextWidth: 64 * b.Heads, Pooled: pooledWidth, PositionsSide: 192}}
	return d.Open(pipeline.Options{Pool: b.pool, Precision: b.precision})
}

func (b *bench) iterations() (*Iterations, error) {
	q, r, err := b.policy()
	if err != nil {
		return nil, err
	}
	defer q.p.Close()
	at := q.sampler.At
	work := pipeline.Work{At: at, Pictures: b.Micro, Batch: b.Micro, Text: q.text, Train: &q.lora}
	kept, err := q.p.Need(work, b.process.Dry())
	if err != nil {
		return nil, err
	}
	work.Checkpoint = autograd.AllBlocks
	again, err := q.p.Need(work, b.process.Dry())
	if err != nil {
		return nil, err
	}
	step := 3
	if step >= b.Steps-1 {
		step = b.Steps - 2
	}
	points, steps := make([]pipeline.Point, b.Micro), make([]taken, b.Micro)
	for i := range points {
		x := drawn(rng.New(2).Sample(i), at.Len())
		next := make([]float64, len(x))
		for e, v := range x {
			next[e] = v + 0.1
		}
		points[i] = pipeline.Point{Latents: x, Time: q.sampler.Times[step], Text: q.text}
		steps[i] = taken{Step: pipeline.Step{Index: step, Time: q.sampler.Times[step], Before: x, After: next}, advantage: 1}
	}
	each := func(t *Phase) float64 { return rounded(t.Best / float64(b.Micro)) }
	b.reset()
	before := b.process.Peak()
	tape := q.p.Tape(false, 0)
	if r.Sampling, err = b.phase(b.Micro, func() error {
		defer tape.Reset()
		_, err := q.p.Forward(tape, at, pipeline.Guidance{}, points)
		return err
	}); err != nil {
		return nil, err
	}
	r.SamplingEach, r.Sampling.Before, r.Sampling.Guess = each(r.Sampling), before, b.predicted(kept.Sampling)
	for _, c := range []struct {
		checkpoint int
		phase      **Phase
		each       *float64
	}{{autograd.AllBlocks, &r.Checkpointing, &r.CheckpointingEach}, {0, &r.Training, &r.TrainingEach}} {
		b.reset()
		if *c.phase, err = b.phase(b.Micro, func() error { return q.train(steps, c.checkpoint, false) }); err != nil {
			return nil, err
		}
		*c.each = each(*c.phase)
	}
	r.Checkpointing.Guess, r.Training.Guess = b.predicted(again.Training), b.predicted(kept.Training)
	for _, w := range q.adapter.Params() {
		w.ZeroGrad()
	}
	if b.Group == 0 {
		return r, nil
	}
	if r.Mix, err = q.best(min(2, b.Steps-1-b.Window), b.Window); err == nil {
		r.Flow, err = q.best(0, b.Steps-1)
	}
	return r, err
}
