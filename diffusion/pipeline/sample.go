package pipeline

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/sde"
)

// The one sampling loop, for every family and every solver:
//
//	for each row: run the network at all pictures' latents, in batches;
//	              mean, draw and log-probability are the row's own (package sde)
//
// Latents are rounded to fp32 after every step: that value is the network's next input, the choice that is judged,
// and the recorded one. Pictures that began at the same latents with the same text and drew the same noise so far are
// one, and computed once: a group until it first draws, the branches of a tree until they part.
//
// Invariants (tests): a picture has the same bits in any batch, and whether or not another
// shares its way; re-evaluated, a recorded step has the log-probability that was recorded, bit
// for bit; the network runs as often as pictures differ.

// A Picture is a request.
type Picture struct {
	Text, Negative *Text
	Given          *Given    // a clip's input from pictures; nil for nothing
	Start          []float64 // latents to begin at; nil: drawn by StartKey
	StartKey       rng.Key
	StepKey        rng.Key // of steps that draw: Step(i) is the key of step i
	// Draw, where set, is the picture's draw at a step, in place of StepKey: it is on the way to a leaf of a tree.
	Draw func(step int) Draw
}

// A Draw is the noise of a step. The zero one draws nothing.
type Draw struct {
	On    bool
	Key   rng.Key
	Scale float64 // of the noise; the density keeps the row's own deviation
}

// Draws are the keys of a picture: of its start, and of its steps.
func Draws(seed uint64, prompt, sample int) (start, step rng.Key) {
	k := rng.New(seed)
	return k.With("start noise").Prompt(uint64(prompt)).Sample(sample), k.With("step noise").Prompt(uint64(prompt)).Sample(sample)
}

// A Sampler is how pictures come about.
type Sampler struct {
	At            Shape
	Rows          []sde.Row
	Deterministic []sde.Row // of pictures with a Draw, where it is not on; nil: Rows
	Times         []float64 // the schedule's timesteps, one a row
	Guidance      Guidance
	Record        []int // steps that a Track keeps; of a picture with a Draw, those where it is on
	Batch         int   // pictures in a run of the network; 0: as many as make about 4096 tokens
	// Watch, where set, sees every step of every picture: the network's output, and the
	// latents after it.
	Watch func(step, picture int, output, next []float64)
	// Progress, where set, is called with the number of runs of pictures through the network that are done, and of
	// all.
	Progress func(done, all int)
}

// A Track is how one picture came about: its last latents, and the steps that were asked for.
type Track struct {
	Final []float64
	Steps []Step
}

// A Step is one transition. Time is the network's time input.
type Step struct {
	Index               int
	Time                float64
	Before, Mean, After []float64
	Output              []float64 // the network's, after guidance
	LogProb             float64   // 0 where nothing was drawn
}

// Sample makes pictures.
func (p *Pipeline) Sample(ctx context.Context, pictures []Picture, s Sampler) ([]Track, error) {
	if len(s.Rows) == 0 || len(s.Times) < len(s.Rows) {
		return nil, fmt.Errorf("%d rows and %d times: a sampler needs a time for each of its rows", len(s.Rows), len(s.Times))
	}
	if s.Deterministic != nil && len(s.Deterministic) != len(s.Rows) {
		return nil, fmt.Errorf("%d rows that draw and %d that do not: a step has one of each", len(s.Rows), len(s.Deterministic))
	}
	if err := p.CheckGuidance(s.Guidance); err != nil {
		return nil, err
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
	for i, t := range r.twins[len(s.Rows)] {
		r.tracks[i].Final = r.pictures[i].Given.Finish(r.now[t])
	}
	return r.tracks, nil
}

// run is a sampling under way.
type run struct {
	Sampler
	p        *Pipeline
	tape     *autograd.Tape
	pictures []Picture
	twins    [][]int       // by step: the first picture whose latents are the same until then
	now      [][]float64   // latents, by picture; those of a twin are its first's
	history  []sde.History // by picture
	tracks   []Track
	lags     int // how far back rows look
	done     int
	all      int // runs of pictures through the network
}

// begin draws the first latents of pictures, finds equal ones, and how long they stay equal.
func (r *run) begin() error {
	if r.Batch == 0 {
		r.Batch = usualBatch(r.At, r.pictures)
	}
	r.history = make([]sde.History, len(r.pictures))
	type origin struct {
		text, negative *Text
		given          *Given
		start          *float64
		key            rng.Key
	}
	first, twin := map[origin]int{}, []int{}
	for i, pic := range r.pictures {
		o := origin{text: pic.Text, negative: pic.Negative, given: pic.Given, key: pic.StartKey}
		if pic.Start != nil {
			if len(pic.Start) == 0 {
				return fmt.Errorf("picture %d starts at no numbers; one of %d x %d has %d", i, r.At.Width, r.At.Height, r.At.Len())
			}
			o.start, o.key = &pic.Start[0], rng.Key{}
		}
		t, ok := first[o]
		if !ok {
			t, first[o] = i, i
		}
		twin = append(twin, t)
		var start []float64
		switch {
		case t != i:
			start = r.now[t]
		case pic.Start != nil:
			start = rounded(pic.Start)
		default:
			start = Noise(pic.StartKey, r.At)
		}
		if len(start) != r.At.Len() {
			return fmt.Errorf("picture %d starts at %d numbers; one of %d x %d has %d", i, len(start), r.At.Width, r.At.Height, r.At.Len())
		}
		r.now = append(r.now, start)
	}
	for _, row := range slices.Concat(r.Rows, r.Deterministic) {
		r.lags = max(r.lags, row.Lags())
	}
	r.follow(twin)
	return nil
}

// follow says at every step which pictures are still one: those that were, and draw the same.
func (r *run) follow(twin []int) {
	r.twins = [][]int{twin}
	type way struct {
		twin int
		draw Draw
	}
	for step := range r.Rows {
		first, next := map[way]int{}, make([]int, len(twin))
		for i, t := range twin {
			w := way{t, r.drawOf(step, i)}
			if i == t {
				r.all++
			}
			if _, ok := first[w]; !ok {
				first[w] = i
			}
			next[i] = first[w]
		}
		twin = next
		r.twins = append(r.twins, twin)
	}
}

// drawOf is a picture's draw at a step.
func (r *run) drawOf(step, i int) Draw {
	switch pic := r.pictures[i]; {
	case pic.Draw != nil:
		return pic.Draw(step)
	case r.Rows[step].Stochastic():
		return Draw{On: true, Key: pic.StepKey.Step(step), Scale: 1}
	}
	return Draw{}
}

// usualBatch is as many pictures as make, with those that they are made of, about 4096 tokens.
func usualBatch(at Shape, pictures []Picture) int {
	tokens := at.Tokens
	for _, pic := range pictures {
		tokens = max(tokens, at.Tokens+pic.Given.Length())
	}
	return max(1, 4096/max(1, tokens))
}

// batches are pictures that the network sees at once: of those that follow each other, as many
// as a batch holds, made of pictures of the same sizes.
func (r *run) batches(ask []int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for len(ask) > 0 {
			n := 1
			for n < min(len(ask), r.Batch) && SameSizes(r.pictures[ask[0]].Given, r.pictures[ask[n]].Given) {
				n++
			}
			if !yield(ask[:n]) {
				return
			}
			ask = ask[n:]
		}
	}
}

// step takes every picture through one row.
func (r *run) step(ctx context.Context, step int) error {
	var ask []int // pictures that the network sees
	for i, t := range r.twins[step] {
		if i == t {
			ask = append(ask, i)
		}
	}
	outputs := make([][]float64, len(r.pictures))
	for some := range r.batches(ask) {
		if err := ctx.Err(); err != nil {
			return err
		}
		points := make([]Point, len(some))
		for k, i := range some {
			points[k] = Point{Latents: r.now[i], Time: r.Times[step], Text: r.pictures[i].Text, Negative: r.pictures[i].Negative, Given: r.pictures[i].Given}
		}
		forward, err := r.p.Forward(r.tape, r.At, r.Guidance, points)
		if err != nil {
			return err
		}
		for k, i := range some {
			outputs[i] = forward.whole[k]
		}
		r.tape.Reset()
		r.done += len(some)
		if r.Progress != nil {
			r.Progress(r.done, r.all)
		}
	}
	for _, i := range ask {
		r.history[i].Push(r.now[i], outputs[i])
		r.history[i].Keep(r.lags + 1)
	}
	return r.move(step, outputs)
}

// move takes pictures from the network's outputs on: those that are one until after the step
// are moved once, and all side by side.
func (r *run) move(step int, outputs [][]float64) error {
	to, old := make([]moved, len(r.pictures)), r.twins[step]
	for i, twin := range r.twins[step+1] {
		if i == twin && i != old[i] { // it parts, before its twin's history changes
			r.history[i] = r.history[old[i]].Clone()
		}
	}
	var side sync.WaitGroup
	for i, twin := range r.twins[step+1] {
		if draw := r.drawOf(step, i); i == twin {
			side.Go(func() { to[i] = r.moveOne(step, i, draw) })
		}
	}
	side.Wait()
	for i, twin := range r.twins[step+1] {
		t, m := old[i], to[twin]
		if !m.finite {
			return fmt.Errorf("step %d: picture %d: %w", step, twin, errNotFinite)
		}
		if r.Watch != nil {
			r.Watch(step, i, outputs[t], m.next)
		}
		if slices.Contains(r.Record, step) && (r.pictures[i].Draw == nil || r.drawOf(step, i).On) {
			g := r.pictures[i].Given
			r.tracks[i].Steps = append(r.tracks[i].Steps, Step{Index: step, Time: r.Times[step], Before: g.Still(r.now[t]), Output: g.Still(outputs[t]),
				Mean: g.Still(m.mean), After: g.Still(m.next), LogProb: m.logProb})
		}
	}
	for i := range to {
		r.now[i] = to[r.twins[step+1][i]].next
	}
	return nil
}

// moved is where a row takes a picture.
type moved struct {
	mean, next []float64
	logProb    float64
	finite     bool
}

func (r *run) moveOne(step, i int, draw Draw) moved {
	row := r.Rows[step]
	if r.pictures[i].Draw != nil && !draw.On && r.Deterministic != nil {
		row = r.Deterministic[step]
	}
	m := moved{mean: row.Mean(&r.history[i])}
	m.next = m.mean
	if draw.On {
		z := Noise(draw.Key, r.At)
		for k := range z {
			z[k] *= draw.Scale
		}
		m.next = row.Draw(m.mean, z)
	}
	m.next = rounded(m.next)
	g := r.pictures[i].Given
	m.logProb, m.finite = row.LogProb(g.Still(m.mean), g.Still(m.next)), finite(m.next)
	return m
}

var errNotFinite = kernels.NotFiniteError("the latents are infinite or none: the network's outputs are out of range (try f32)")
