package conversations

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/sampling"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: continuous batching. Several episodes are under way at once, each in a goroutine and in a
// row of one decoder. An episode asks for its next token and waits. Once all of them wait, or some
// milliseconds after the last of those that do, those that have one token to read take a step
// together, and those that have more (observations with their pictures) are read together behind
// their rows: a tool that is slow holds its own episode up, and no other. A row that is free again
// is the next key's. Row 0 has the reading of the prompt that was begun last, which its episodes
// copy.
//
// Invariants (tests): an episode has the same bytes however many are under way, for rows do not
// see each other and a draw is a function of key and place; an error is that of the first key
// that has one, as if they were played one after another; nobody is left waiting.

const (
	// atOnce is how many episodes are under way where nothing else is said, and atOnceOnCard the same
	// of a graphics card. A step's weights are read once for all of them, which on a CPU at eight is
	// most of what there is to gain (bench decode).
	atOnce, atOnceOnCard = 8, 32
	// patience is how long those who wait do so for the others: a cheap tool needs less, and a step
	// of a large model more.
	patience = 5 * time.Millisecond
	// readAtOnce is how many tokens of several observations are read together.
	readAtOnce = 8192
)

// batch is a roll under way.
type batch struct {
	p       *Policy
	ctx     context.Context
	decoder *vlm.Decoder
	keys    []trainer.Key
	samples []trainer.Sample
	free    []int           // rows
	next    int             // the key that is begun next
	asked   *episodeSampler // of the prompt that was begun last
	live    int             // episodes under way
	done    int
	events  chan event
	each    func(first int, samples []trainer.Sample) error
	ended   map[int]int // episodes of a group that have ended, by its first key
	failed  int         // the first key that has an error
	err     error
}

// event is what an episode says: it waits for a token, or has ended.
type event struct {
	voice  *episodeSampler
	read   vlm.Stretch // what comes before the token
	ended  bool
	sample trainer.Sample
	err    error
}

// token is what an episode hears.
type token struct {
	id              int32
	sampled, spoken float64 // log-probabilities
	entropy         float64 // of the distribution that it was drawn from
	given           bool    // it was not drawn (guided.go)
	err             error
}

// rollAll plays one episode a key. each is told of whole groups as they end; nil: nobody is.
func (p *Policy) rollAll(keys []trainer.Key, each func(first int, samples []trainer.Sample) error) ([]trainer.Sample, error) {
	rows := min(p.AtOnce(), len(keys))
	b := &batch{p: p, ctx: p.Context, keys: keys, samples: make([]trainer.Sample, len(keys)), failed: len(keys), events: make(chan event), each: each, ended: map[int]int{}}
	if b.ctx == nil {
		b.ctx = context.Background()
	}
	b.decoder = p.Speaker.Model.NewDecoder(p.Speaker.Options.Pool, p.Speaker.arithmetic(false), 1+rows)
	defer b.decoder.Close()
	for r := rows; r > 0; r-- {
		b.free = append(b.free, r)
	}
	b.run()
	if b.err == nil {
		b.err = p.judgeClean(b.samples)
	}
	return b.samples, b.err
}

// AtOnce is how many episodes are under way at once.
func (p *Policy) AtOnce() int {
	switch {
	case p.Parallel > 0:
		return p.Parallel
	case strings.HasPrefix(p.Speaker.Options.Pool.Backend().Name(), "cuda"):
		return atOnceOnCard
	}
	return atOnce
}

// run goes on until all have ended. Only this goroutine touches the decoder.
func (b *batch) run() {
	var waiting []event
	for b.begin(); b.live > 0; {
		e, said := b.hear(len(waiting) > 0)
		switch {
		case said && e.ended:
			b.end(e)
			b.begin()
		case said:
			waiting = append(waiting, e)
		}
		if len(waiting) == b.live || !said {
			b.serve(waiting)
			waiting = waiting[:0]
		}
	}
}

// hear is what an episode says next; with others waiting it may say nothing for a while.
func (b *batch) hear(others bool) (e event, said bool) {
	if !others {
		return <-b.events, true
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case e = <-b.events:
		return e, true
	case <-late.C:
		return e, false
	}
}

// begin begins episodes while there are rows for them.
func (b *batch) begin() {
	for len(b.free) > 0 && b.next < len(b.keys) && b.err == nil {
		i := b.next
		k := b.keys[i]
		b.next++
		if err := b.ctx.Err(); err != nil {
			b.fail(i, err)
			return
		}
		if i == 0 || b.keys[i-1].Prompt != k.Prompt || b.p.noise(b.keys[i-1]) != b.p.noise(k) || b.p.control(b.keys[i-1]) != b.p.control(k) {
			var err error
			if b.asked, err = b.p.asked(b.decoder, k); err != nil {
				b.fail(i, fmt.Errorf("prompt %d: %w", k.Prompt, err))
				return
			}
		}
		v := b.asked.begun(k)
		v.number, v.row, v.events, v.heard = i, b.free[len(b.free)-1], b.events, make(chan token)
		b.free = b.free[:len(b.free)-1]
		b.decoder.Copy(v.row, 0)
		b.live++
		go func() {
			s, err := b.p.play(b.ctx, k, v)
			b.events <- event{voice: v, ended: true, sample: s, err: err}
		}()
	}
}

// end takes an episode that has ended.
func (b *batch) end(e event) {
	b.live--
	b.free = append(b.free, e.voice.row)
	if e.err != nil {
		k := b.keys[e.voice.number]
		b.fail(e.voice.number, fmt.Errorf("sample %d of prompt %d: %w", k.Sample, k.Prompt, e.err))
		return
	}
	b.samples[e.voice.number] = e.sample
	b.tell(e.voice.number)
	if b.done++; b.p.Progress != nil {
		b.p.Progress(b.done, len(b.keys))
	}
}

// tell tells of a group whose last episode has ended.
func (b *batch) tell(number int) {
	if b.each == nil {
		return
	}
	first, to := number, number+1
	for first > 0 && b.keys[first-1].Prompt == b.keys[number].Prompt {
		first--
	}
	for to < len(b.keys) && b.keys[to].Prompt == b.keys[number].Prompt {
		to++
	}
	if b.ended[first]++; b.ended[first] < to-first {
		return
	}
	if err := b.each(first, b.samples[first:to]); err != nil {
		b.fail(number, err)
	}
}

// fail keeps the error of the first key that has one: those before it go on, for they may have
// one too, and those behind it hear that they are not needed.
func (b *batch) fail(number int, err error) {
	if number < b.failed {
		b.failed, b.err = number, err
	}
}

// serve gives all who wait their tokens.
func (b *batch) serve(waiting []event) {
	slices.SortFunc(waiting, func(x, y event) int { return cmp.Compare(x.voice.row, y.voice.row) })
	var steps, stretches []event
	for _, e := range waiting {
		switch {
		case b.ctx.Err() != nil:
			e.voice.heard <- token{err: b.ctx.Err()}
		case e.voice.number > b.failed:
			e.voice.heard <- token{err: context.Canceled}
		case len(e.read.IDs) == 1 && len(e.read.Pictures.Grids) == 0:
			steps = append(steps, e)
		default:
			stretches = append(stretches, e)
		}
	}
	b.read(steps, b.step)
	most := b.p.PrefillTokens
	if most == 0 {
		most = readAtOnce
	}
	for len(stretches) > 0 {
		n, tokens := 1, len(stretches[0].read.IDs)
		for n < len(stretches) && tokens+len(stretches[n].read.IDs) <= most {
			tokens += len(stretches[n].read.IDs)
			n++
		}
		b.read(stretches[:n], b.extend)
		stretches = stretches[n:]
	}
}

func (b *batch) step(of []event) error {
	ids := make([]int32, len(of))
	for i, e := range of {
		ids[i] = e.read.IDs[0]
	}
	return b.decoder.Next(rowsOf(of), ids)
}

func (b *batch) extend(of []event) error {
	stretches := make([]vlm.Stretch, len(of))
	for i, e := range of {
		stretches[i] = e.read
	}
	return b.decoder.Read(rowsOf(of), stretches)
}

func rowsOf(of []event) []int {
	rows := make([]int, len(of))
	for i, e := range of {
		rows[i] = e.voice.row
	}
	return rows
}

// read reads what some wait for, and tells them what was drawn. What the decoder refuses is read
// one by one, so that only who is to blame hears of it.
func (b *batch) read(of []event, read func([]event) error) {
	if len(of) == 0 {
		return
	}
	err := read(of)
	if err != nil && len(of) > 1 {
		for i := range of {
			b.read(of[i:i+1], read)
		}
		return
	}
	said := make([]token, len(of))
	if err == nil {
		err = b.draw(of, said)
	}
	for i, e := range of {
		if err != nil {
			said[i].err = err
		}
		e.voice.heard <- said[i]
	}
}

// draw draws the tokens behind the rows that were read last.
func (b *batch) draw(of []event, said []token) error {
	if b.p.Sampling.Arithmetic == sampling.Float64 {
		return b.drawOnHost(of, said)
	}
	o := b.p.Sampling
	s := vlm.Sampling{Temperature: o.Temperature, TopK: o.TopK, TopP: o.TopP, MinP: o.MinP, Repetition: o.Repetition, Banned: b.p.Speaker.Banned,
		Uniform: make([]float64, len(of)), Given: make([]int32, len(of))}
	for i, e := range of {
		if s.Given[i] = -1; len(e.voice.owed) > 0 {
			s.Given[i] = e.voice.owed[0]
		} else {
			s.Uniform[i] = e.voice.uniform()
		}
	}
	drawn, err := b.decoder.Draw(s)
	if err != nil {
		return err
	}
	for i, d := range drawn {
		switch said[i] = (token{id: d.ID, spoken: float64(d.Bare), err: d.Err}); {
		case d.Err != nil:
		case s.Given[i] >= 0:
			said[i].sampled, said[i].given = said[i].spoken, true
		default:
			said[i].sampled, said[i].entropy = float64(d.LogProb), float64(d.Entropy)
		}
	}
	return nil
}

// drawOnHost is draw in float64, a goroutine a row.
func (b *batch) drawOnHost(of []event, said []token) error {
	var all sync.WaitGroup
	logits := b.decoder.Logits()
	for i, e := range of {
		all.Go(func() { said[i] = e.voice.drawOnHost(logits[i], b.decoder.IDs(e.voice.row)) })
	}
	all.Wait()
	ids := make([]int32, len(of))
	for i := range said {
		ids[i] = said[i].id
	}
	spoken, err := b.decoder.LogProbs(ids, float32(b.p.Sampling.Temperature))
	if err != nil {
		return err
	}
	for i := range said {
		if said[i].spoken = float64(spoken[i]); said[i].given {
			said[i].sampled = said[i].spoken
		}
	}
	return nil
}
