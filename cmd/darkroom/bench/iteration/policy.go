package iteration

import (
	"fmt"
	"time"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// policy is the model, with all that samples from it, trains it and updates it: grpo.go times it.
type policy struct {
	*bench
	p       *pipeline.Pipeline
	sampler pipeline.Sampler
	text    *pipeline.Text
	lora    nn.LoRA
	adapter *nn.Adapters
	mover   *optim.Optimizer
	clip    loss.Clip
}

// best is an iteration, and on a device, where one takes a moment, the fastest of some.
func (q *policy) best(from, window int) (*Iteration, error) {
	best, err := q.iteration(from, window)
	for range q.Repeat - 1 {
		if err != nil || best.Device == nil {
			break
		}
		var next *Iteration
		if next, err = q.iteration(from, window); err == nil && next.Seconds < best.Seconds {
			best = next
		}
	}
	return best, err
}

// policy opens the model, puts adapters on it and draws a text.
func (b *bench) policy() (*policy, *Iterations, error) {
	p, err := b.open()
	if err != nil {
		return nil, nil, err
	}
	params, err := p.Denoiser()
	if err != nil {
		return nil, nil, err
	}
	r := &Iterations{LoRAType: "float32", Config: map[string]any{"layers": b.Layers, "heads": b.Heads, "head_dim": 64, "latents": []int{16, b.Latent, b.Latent},
		"text_tokens": b.Text, "joint_attention_dim": jointWidth, "pooled": pooledWidth, "lora_rank": rank, "group": b.Group, "steps": b.Steps, "window": b.Window, "micro_batch": b.Micro}}
	for _, w := range params.All() {
		r.Parameters += count(w.Shape)
	}
	q := &policy{bench: b, p: p, clip: loss.DefaultClip(), lora: nn.LoRA{Rank: rank, Alpha: 2 * rank, Targets: targets, Key: rng.New(3)}}
	if q.adapter, err = params.AddLoRA(q.lora); err != nil {
		return nil, nil, err
	}
	for _, w := range q.adapter.Params() {
		r.LoRA += count(w.Shape)
	}
	o := optim.Defaults()
	q.mover = optim.NewOptimizer(1, optim.Group{Params: q.adapter.Params(), Rate: 1, Options: o})
	s := &q.sampler
	if s.At, err = p.Shape(8*b.Latent, 8*b.Latent); err != nil {
		return nil, nil, err
	}
	schedule, err := p.Schedule(b.Steps, s.At)
	if err != nil {
		return nil, nil, err
	}
	s.Times, s.Batch = schedule.Timesteps, b.Micro
	for i := range b.Steps {
		s.Rows = append(s.Rows, sde.Euler(schedule, i))
	}
	q.text = &pipeline.Text{Tokens: b.Text, Width: jointWidth, States: narrow(drawn(rng.New(4), b.Text*jointWidth)), Pooled: narrow(drawn(rng.New(5), pooledWidth))}
	return q, r, nil
}

func count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// taken is a step of one picture, with its results.
type taken struct {
	pipeline.Step
	advantage float64
}

// train goes forward and backward over steps of one index. Where they were sampled with the
// weights of now, ratios must be 1.
func (q *policy) train(steps []taken, checkpoint int, fresh bool) error {
	tape := q.p.Tape(true, checkpoint)
	defer tape.Reset()
	var points []pipeline.Point
	for _, s := range steps {
		points = append(points, pipeline.Point{Latents: s.Before, Time: s.Time, Text: q.text})
	}
	a, err := q.p.Forward(tape, q.sampler.At, pipeline.Guidance{}, points)
	if err != nil {
		return err
	}
	row, terms := q.row(steps[0].Index), loss.Terms{}
	histories, means := make([]sde.History, len(steps)), make([][]float64, len(steps))
	for i, s := range steps {
		histories[i].Push(s.Before, a.Outputs[i])
		means[i] = row.Mean(&histories[i])
		terms.LogProb, terms.Old, terms.Advantage = append(terms.LogProb, row.LogProb(means[i], s.After)), append(terms.Old, s.LogProb), append(terms.Advantage, s.advantage)
	}
	result, err := q.clip.Of(terms)
	if err != nil {
		return err
	}
	grads := make([][]float64, len(steps))
	for i, s := range steps {
		if fresh && result.Ratio[i] != 1 {
			return fmt.Errorf("step %d: the first ratio is %v and not 1", s.Index, result.Ratio[i])
		}
		grads[i] = row.LogProbGrad(means[i], s.After)
		for e, slope := range row.Slope(&histories[i]) {
			grads[i][e] *= result.GradLogProb[i] * slope
		}
	}
	return a.Back(grads)
}

// row is the step's, as it draws.
func (q *policy) row(step int) sde.Row {
	schedule, err := q.p.Schedule(q.Steps, q.sampler.At)
	if err != nil {
		panic(err) // it was made before
	}
	return sde.FlowSDE(schedule, step, 0.7, 0)
}

// iteration samples a group, trains the steps of a window and updates the adapters.
func (q *policy) iteration(from, window int) (*Iteration, error) {
	q.reset()
	s := q.sampler
	s.Rows = append([]sde.Row(nil), s.Rows...)
	for i := from; i < from+window; i++ {
		s.Rows[i], s.Record = q.row(i), append(s.Record, i)
	}
	var pictures []pipeline.Picture
	for i := range q.Group {
		pic := pipeline.Picture{Text: q.text}
		pic.StartKey, pic.StepKey = pipeline.Draws(6, 0, i)
		pictures = append(pictures, pic)
	}
	q.wait()
	asks, start := q.asks(), time.Now()
	tracks, err := q.p.Sample(q.ctx, pictures, s)
	if err != nil {
		return nil, err
	}
	q.wait()
	sampled := time.Now()
	advantages := drawn(rng.New(7), q.Group)
	for k := range s.Record {
		for i := 0; i < q.Group; i += q.Micro {
			var steps []taken
			for j := i; j < min(i+q.Micro, q.Group); j++ {
				steps = append(steps, taken{tracks[j].Steps[k], advantages[j]})
			}
			if err := q.train(steps, 0, true); err != nil {
				return nil, err
			}
			if err := q.ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	if _, err := q.mover.Step(1e-4); err != nil {
		return nil, err
	}
	asked := asks()
	q.wait()
	end := time.Now()
	return &Iteration{Seconds: rounded(end.Sub(start).Seconds()), Sampling: rounded(sampled.Sub(start).Seconds()), Training: rounded(end.Sub(sampled).Seconds()),
		Peak: q.process.Peak(), Sampled: q.Group * q.Steps, Trained: q.Group * window, Device: asked, Held: q.held()}, nil
}
