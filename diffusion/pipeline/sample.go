package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/sde"
)

// The one sampling loop, for every family and every solver:
//
//	for each row: ask the network at all pictures' latents, in batches;
//	              mean, draw and log-probability are the row's own (package sde)
//
// Latents are rounded to fp32 after every step: that value is the network's next input, the
// choice that is judged, and what a record holds. While nothing was drawn, pictures that
// began at the same latents with the same text are one, and computed once.
//
// Invariants (tests): a picture has the same bits in any batch; re-evaluated, a recorded
// step has the log-probability that was recorded, bit for bit.

// A Picture is what is asked for.
type Picture struct {
	Text, Negative *Text
	Start          []float64 // latents to begin at; nil: drawn by StartKey
	StartKey       rng.Key
	StepKey        rng.Key // of steps that draw: Step(i) is the key of step i
}

// Draws are the keys of a picture: of its start, and of its steps.
func Draws(seed uint64, prompt, sample int) (start, step rng.Key) {
	k := rng.New(seed)
	return k.With("start noise").Prompt(uint64(prompt)).Sample(sample), k.With("step noise").Prompt(uint64(prompt)).Sample(sample)
}

// A Sampler is how pictures come about.
type Sampler struct {
	At       Shape
	Rows     []sde.Row
	Times    []float64 // the schedule's timesteps, one a row
	Guidance Guidance
	Record   []int // steps that a Track keeps
	Batch    int   // pictures in a run of the network; 0: as many as make about 4096 tokens
	// Watch, where set, sees every step of every picture: the network's output, and the
	// latents after it.
	Watch func(step, picture int, output, next []float64)
	// Progress, where set, hears how many of all runs of pictures through the network are
	// done.
	Progress func(done, all int)
}

// A Track is how one picture came about: its last latents, and the steps that were asked for.
type Track struct {
	Final []float64
	Steps []Step
}

// A Step is one transition. Time is what the network was told.
type Step struct {
	Index               int
	Time                float64
	Before, Mean, After []float64
	LogProb             float64 // 0 where nothing was drawn
}

// Sample makes pictures.
func (p *Pipeline) Sample(ctx context.Context, pictures []Picture, s Sampler) ([]Track, error) {
	if len(s.Rows) == 0 || len(s.Times) < len(s.Rows) {
		return nil, fmt.Errorf("%d rows and %d times: a sampler needs a time for each of its rows", len(s.Rows), len(s.Times))
	}
	r := &run{Sampler: s, p: p, tape: p.tape(p.Precision), pictures: pictures, tracks: make([]Track, len(pictures))}
	defer r.tape.Reset()
	if err := r.begin(); err != nil {
		return nil, err
	}
	for step := range s.Rows {
		if err := r.step(ctx, step); err != nil {
			return nil, err
		}
	}
	for i := range pictures {
		r.tracks[i].Final = r.state(i)
	}
	return r.tracks, nil
}

// run is a sampling under way.
type run struct {
	Sampler
	p        *Pipeline
	tape     *autograd.Tape
	pictures []Picture
	now      [][]float64   // latents, by picture; those of a twin are not kept
	twin     []int         // the picture whose latents are the same so far; its own number for the first
	history  []sde.History // by picture
	tracks   []Track
	lags     int // how far back rows look
	done     int
}

// begin draws what pictures start at.
func (r *run) begin() error {
	if r.Batch == 0 {
		r.Batch = usualBatch(r.At)
	}
	r.history = make([]sde.History, len(r.pictures))
	type origin struct {
		text, negative *Text
		start          *float64
		key            rng.Key
	}
	first := map[origin]int{}
	for i, pic := range r.pictures {
		o := origin{text: pic.Text, negative: pic.Negative, key: pic.StartKey}
		start := pic.Start
		if start == nil {
			z := make([]float32, r.At.Len())
			pic.StartKey.Normal(z, 0)
			start = widened(z)
		}
		if len(start) != r.At.Len() {
			return fmt.Errorf("picture %d starts at %d numbers; one of %d x %d has %d", i, len(start), r.At.Width, r.At.Height, r.At.Len())
		}
		if pic.Start != nil {
			o.start, o.key, start = &start[0], rng.Key{}, rounded(start)
		}
		if _, ok := first[o]; !ok {
			first[o] = i
		}
		r.now, r.twin = append(r.now, start), append(r.twin, first[o])
	}
	for _, row := range r.Rows {
		r.lags = max(r.lags, row.Lags())
	}
	return nil
}

// usualBatch is as many pictures as make about 4096 tokens.
func usualBatch(at Shape) int { return max(1, 4096/max(1, at.Tokens)) }

// state is a picture's latents.
func (r *run) state(i int) []float64 { return r.now[r.twin[i]] }

// step takes every picture through one row.
func (r *run) step(ctx context.Context, step int) error {
	row := r.Rows[step]
	var ask []int // pictures that the network is asked about
	for i, t := range r.twin {
		if i == t {
			ask = append(ask, i)
		}
	}
	outputs := make([][]float64, len(r.pictures))
	for some := range slices.Chunk(ask, r.Batch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		questions := make([]Question, len(some))
		for k, i := range some {
			questions[k] = Question{Latents: r.now[i], Time: r.Times[step], Text: r.pictures[i].Text, Negative: r.pictures[i].Negative}
		}
		answers, err := r.p.Ask(r.tape, r.At, r.Guidance, questions)
		if err != nil {
			return err
		}
		for k, i := range some {
			outputs[i] = answers.Outputs[k]
		}
		r.tape.Reset()
		r.done += len(some)
		if r.Progress != nil {
			r.Progress(r.done, r.done+len(ask)*(len(r.Rows)-step)-r.before(ask, some))
		}
	}
	means := make([][]float64, len(r.pictures))
	for _, i := range ask {
		h := &r.history[i]
		h.Push(r.now[i], outputs[i])
		h.Keep(r.lags + 1)
		means[i] = row.Mean(h)
	}
	return r.draw(step, row, outputs, means)
}

// before counts the pictures of this step up to and with some.
func (r *run) before(ask, some []int) int {
	return slices.Index(ask, some[len(some)-1]) + 1
}

// draw takes pictures from their means on. Where the row draws, twins part.
func (r *run) draw(step int, row sde.Row, outputs, means [][]float64) error {
	next := make([][]float64, len(r.pictures))
	old := slices.Clone(r.twin)
	for i, t := range old {
		mean := means[t]
		switch {
		case row.Stochastic():
			z := make([]float32, r.At.Len())
			r.pictures[i].StepKey.Step(step).Normal(z, 0)
			next[i] = rounded(row.Draw(mean, widened(z)))
			if i != t {
				r.twin[i], r.history[i] = i, r.history[t].Clone()
			}
		case i == t:
			next[i] = rounded(mean)
		default:
			next[i] = next[t]
		}
		if r.Watch != nil {
			r.Watch(step, i, outputs[t], next[i])
		}
		if slices.Contains(r.Record, step) {
			r.tracks[i].Steps = append(r.tracks[i].Steps, Step{Index: step, Time: r.Times[step], Before: r.now[t], Mean: mean, After: next[i], LogProb: row.LogProb(mean, next[i])})
		}
		if !finite(next[i]) {
			return fmt.Errorf("step %d: picture %d: %w", step, i, errNotFinite)
		}
	}
	r.now = next
	return nil
}

var errNotFinite = errors.New("the latents are infinite or none: the network's outputs are out of range (try f32)")

func finite[T float32 | float64](x []T) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// rounded is numbers at the precision that latents have.
func rounded(x []float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(float32(v))
	}
	return y
}
