package rollout

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
// row of one decoder. An episode asks for its next token and waits. Once all of them wait, those that
// have one token to read take a step together, and those that have more (observations with their pictures) are read
// together behind their rows. An episode that has had its token for some milliseconds is away, with a slow tool: no
// other waits for it, and while a row is spare, the next key's episode takes its place among those under way. A row
// that is free again is the next key's. Row 0 has the reading of the prompt that was begun last, which its episodes
// copy.
//
// Where memory runs out, the tools of episodes under way are stopped. Episodes without a sample begin again, fewer at
// once: their tools are called again.
//
// Invariants (tests): an episode has the same bytes however many are under way, for rows do not
// see each other and a draw is a function of key and place; an error is that of the first key
// that has one, as if they were played one after another; nobody is left waiting.

const (
	// episodesOnCPU is the default number of episodes under way, and episodesOnCard that of a graphics card. A step's
	// weights are read once for all of them, which on a CPU at eight is most of the possible gain (bench decode).
	episodesOnCPU, episodesOnCard = 8, 32
	// spareBytes are those of spare rows' keys and values, unlimited the tokens of an episode without a limit, and
	// mostWaiting the episodes that a tool's server may have to answer at once.
	spareBytes, unlimited, mostWaiting = 256 << 20, 4096, 256
	// patience is how long the others wait for an episode from its last token on: a cheap tool needs less, and a
	// step of a large model more.
	patience = 5 * time.Millisecond
	// DefaultPrefill is the number of tokens of several observations that are read together.
	DefaultPrefill = 8192
)

// batch is a roll under way.
type batch struct {
	p       *Policy
	ctx     context.Context
	most    int // episodes under way at once
	spare   int // rows for further ones
	rows    int // of the decoder, without row 0
	decoder *vlm.Decoder
	keys    []trainer.Key
	samples []trainer.Sample
	over    []bool            // of each key, whether its episode has ended with a sample
	free    []int             // rows
	next    int               // the key that is begun next
	prompt  *EpisodeSampler   // of the prompt that was begun last
	of      int               // the key that it was begun for; -1: none
	live    int               // episodes that have begun and not ended
	out     map[int]time.Time // those of them that do not wait for a token, and when they got their last one
	waiting []event           // those that do
	done    int
	events  chan event
	each    func(first int, samples []trainer.Sample) error
	told    map[int]bool // groups that were reported, by their first keys
	failed  int          // the first key that has an error
	err     error
}

// event is an episode's message: it waits for a token, or has ended.
type event struct {
	sampler *EpisodeSampler
	read    vlm.Stretch // the input before the token
	ended   bool
	late    bool // it ended after its tools were stopped
	sample  trainer.Sample
	err     error
}

// token is a sampled token.
type token struct {
	id             int32
	sampled, model float64 // log-probabilities
	entropy        float64 // of the distribution that it was drawn from
	given          bool    // it was not drawn (guided.go)
	err            error
}

// rollAll plays one episode a key. each is called with whole groups as they end; it may be nil.
func (p *Policy) rollAll(keys []trainer.Key, each func(first int, samples []trainer.Sample) error) ([]trainer.Sample, error) {
	b := &batch{p: p, ctx: p.Context, most: p.AtOnce(), spare: p.Spare, keys: keys, samples: make([]trainer.Sample, len(keys)),
		over: make([]bool, len(keys)), failed: len(keys), each: each, told: map[int]bool{}}
	if b.ctx == nil {
		b.ctx = context.Background()
	}
	for {
		err := p.VLM.Options.Pool.Attempt(b.play)
		if err != nil && b.done == len(keys) {
			err = p.VLM.Options.Pool.Attempt(b.reportAll) // without a decoder
		}
		if err == nil {
			break
		}
		less := ""
		if b.done < len(keys) {
			less = b.fewer()
		}
		if less == "" {
			return nil, err
		}
		p.tellLess(less, err)
	}
	if b.err == nil {
		b.err = p.scoreClean(b.samples)
	}
	return b.samples, b.err
}

// play plays the episodes that have not ended yet.
func (b *batch) play() error {
	b.rows = min(b.most+b.spare, len(b.keys)-b.done)
	if err := b.reportAll(); err != nil {
		return err
	}
	b.decoder = b.p.VLM.Model.NewDecoder(b.p.VLM.Options.Pool, b.p.VLM.Arithmetic(false), 1+b.rows)
	defer b.decoder.Close()
	b.next, b.live, b.of, b.free, b.waiting, b.events, b.out = 0, 0, -1, nil, nil, make(chan event), map[int]time.Time{}
	for r := b.rows; r > 0; r-- {
		b.free = append(b.free, r)
	}
	ctx, stop := context.WithCancel(b.ctx)
	defer b.cancel(stop)
	b.run(ctx)
	return nil
}

// cancel ends episodes that are under way after a failure of the device. Those that had ended before stay.
func (b *batch) cancel(stop func()) {
	stop()
	for _, e := range b.waiting {
		e.sampler.tokens <- token{err: context.Canceled}
	}
	for ; b.live > 0; b.live-- {
		e := <-b.events
		for ; !e.ended; e = <-b.events {
			e.sampler.tokens <- token{err: context.Canceled}
		}
		if e.err == nil && !e.late {
			b.take(e)
			b.progress()
		}
	}
}

// fewer lets fewer episodes be under way at once than the rows of the last decoder, and names the change; "": no fewer
// are possible. Where few episodes were left, and had fewer rows than the policy's, the change is of this roll alone.
func (b *batch) fewer() string {
	if b.rows <= 1 {
		return ""
	}
	lasts := b.rows == min(b.p.AtOnce()+b.p.Spare, len(b.keys))
	b.most, b.spare = max(1, min(b.most, b.rows/2)), 0
	less := fmt.Sprintf("%d episodes at once", b.most)
	if b.most == 1 {
		less = "one episode at once"
	}
	if !lasts {
		return less + " in this roll"
	}
	b.p.Parallel, b.p.Spare = b.most, 0
	return less + " from now on"
}

// RowsToSpare is how many further episodes may be under way while others wait for slow tools: as many as have keys
// and values of spareBytes, at least as many again, and no more than mostWaiting with them.
func (p *Policy) RowsToSpare() int {
	tokens := p.Limits.Tokens
	if tokens == 0 {
		tokens = unlimited
	}
	row := p.VLM.Model.Text.RowBytes(tokens, p.VLM.Arithmetic(false).DType)
	return max(min(spareBytes/max(1, row), mostWaiting-p.AtOnce()), p.AtOnce())
}

// AtOnce is how many episodes are under way at once.
func (p *Policy) AtOnce() int {
	switch {
	case p.Parallel > 0:
		return p.Parallel
	case strings.HasPrefix(p.VLM.Options.Pool.Backend().Name(), "cuda"):
		return episodesOnCard
	}
	return episodesOnCPU
}

// run goes on until all have ended. Only this goroutine touches the decoder.
func (b *batch) run(ctx context.Context) {
	for b.begin(ctx); b.live > 0; b.begin(ctx) {
		e, said := b.wait(len(b.waiting) > 0)
		if said {
			delete(b.out, e.sampler.number)
		}
		switch {
		case said && e.ended:
			b.end(e)
		case said:
			b.waiting = append(b.waiting, e)
		}
		if len(b.waiting) == b.live || !said {
			b.serve(slices.Clone(b.waiting))
		}
	}
}

// wait is an episode's next message; it returns without one when all that have none are away, and there is something
// to do: others wait, or a key may begin then.
func (b *batch) wait(others bool) (e event, said bool) {
	select {
	case e = <-b.events:
		return e, true
	default:
	}
	left := b.near()
	switch {
	case left <= 0 && (others || b.room()):
		return e, false
	case !others && (left <= 0 || !b.more()):
		return <-b.events, true
	}
	late := time.NewTimer(left)
	defer late.Stop()
	select {
	case e = <-b.events:
		return e, true
	case <-late.C:
		return e, false
	}
}

// near is how long it takes until all episodes that have a token are away; not above 0: they are.
func (b *batch) near() time.Duration {
	var last time.Time
	for _, got := range b.out {
		if got.After(last) {
			last = got
		}
	}
	return time.Until(last.Add(patience))
}

// away is how many are.
func (b *batch) away() (n int) {
	for _, got := range b.out {
		if time.Since(got) >= patience {
			n++
		}
	}
	return n
}

// more says whether there are a key and a row for it: none behind the first key with an error.
func (b *batch) more() bool { return len(b.free) > 0 && b.next < b.failed }

// room says whether a key may begin now: episodes that are away do not count among those under way.
func (b *batch) room() bool { return b.more() && b.live-b.away() < b.most }

// begin begins episodes while there is room for them.
func (b *batch) begin(ctx context.Context) {
	for b.room() {
		i := b.next
		k := b.keys[i]
		b.next++
		if b.over[i] {
			continue
		}
		if err := b.ctx.Err(); err != nil {
			b.fail(i, err)
			return
		}
		if b.of < 0 || b.keys[b.of].Prompt != k.Prompt || b.p.noise(b.keys[b.of]) != b.p.noise(k) || b.p.IsControl(b.keys[b.of]) != b.p.IsControl(k) {
			var err error
			if b.prompt, err = b.p.prefill(b.decoder, k); err != nil {
				b.fail(i, fmt.Errorf("prompt %d: %w", k.Prompt, err))
				return
			}
		}
		b.of = i
		v := b.prompt.fork(k)
		v.number, v.row, v.events, v.tokens = i, b.free[len(b.free)-1], b.events, make(chan token)
		b.free = b.free[:len(b.free)-1]
		b.decoder.Copy(v.row, 0)
		b.live++
		b.out[i] = time.Now()
		go func() {
			s, err := b.p.play(ctx, k, v)
			b.events <- event{sampler: v, ended: true, late: ctx.Err() != nil, sample: s, err: err}
		}()
	}
}

// end takes an episode that has ended.
func (b *batch) end(e event) {
	b.live--
	b.free = append(b.free, e.sampler.row)
	if e.err != nil {
		k := b.keys[e.sampler.number]
		b.fail(e.sampler.number, fmt.Errorf("sample %d of prompt %d: %w", k.Sample, k.Prompt, e.err))
		return
	}
	b.take(e)
	b.report(e.sampler.number)
	b.progress()
}

// take keeps an episode's sample.
func (b *batch) take(e event) {
	b.samples[e.sampler.number], b.over[e.sampler.number] = e.sample, true
	b.done++
}

func (b *batch) progress() {
	if b.p.Progress != nil {
		b.p.Progress(b.done, len(b.keys))
	}
}

// report tells of a key's group, once, where all its episodes have ended, and returns the key behind it.
func (b *batch) report(number int) (to int) {
	first, to := number, number+1
	for first > 0 && b.keys[first-1].Prompt == b.keys[number].Prompt {
		first--
	}
	for to < len(b.keys) && b.keys[to].Prompt == b.keys[number].Prompt {
		to++
	}
	if b.each == nil || b.told[first] || slices.Contains(b.over[first:to], false) {
		return to
	}
	err := b.each(first, b.samples[first:to])
	if b.told[first] = true; err != nil {
		b.fail(number, err)
	}
	return to
}

// reportAll tells of whole groups that a failure of the device left without a report.
func (b *batch) reportAll() error {
	for i := 0; i < len(b.keys); {
		i = b.report(i)
	}
	return nil
}

// fail keeps the error of the first key that has one: those before it go on, for they may have
// one too, and those behind it are cancelled.
func (b *batch) fail(number int, err error) {
	if number < b.failed {
		b.failed, b.err = number, err
	}
}

// serve gives all who wait their tokens.
func (b *batch) serve(waiting []event) {
	slices.SortFunc(waiting, func(x, y event) int { return cmp.Compare(x.sampler.row, y.sampler.row) })
	var steps, stretches []event
	for _, e := range waiting {
		switch {
		case b.ctx.Err() != nil:
			b.give(e, token{err: b.ctx.Err()})
		case e.sampler.number > b.failed:
			b.give(e, token{err: context.Canceled})
		case len(e.read.IDs) == 1 && len(e.read.Pictures.Grids) == 0:
			steps = append(steps, e)
		default:
			stretches = append(stretches, e)
		}
	}
	b.read(steps, b.step)
	most := b.p.PrefillTokens
	if most == 0 {
		most = DefaultPrefill
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

// give sends an episode its token.
func (b *batch) give(e event, t token) {
	b.out[e.sampler.number] = time.Now()
	b.waiting = slices.DeleteFunc(b.waiting, func(w event) bool { return w.sampler == e.sampler })
	e.sampler.tokens <- t
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
		rows[i] = e.sampler.row
	}
	return rows
}

// read reads the stretches that some wait with, and sends them the sampled tokens. Stretches that the decoder refuses
// are read one by one, so that the error goes to its cause alone.
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
		b.give(e, said[i])
	}
}

// draw draws the tokens behind the rows that were read last.
func (b *batch) draw(of []event, said []token) error {
	if b.p.Sampling.Arithmetic == sampling.Float64 {
		return b.drawOnHost(of, said)
	}
	o := b.p.Sampling
	s := vlm.Sampling{Temperature: o.Temperature, TopK: o.TopK, TopP: o.TopP, MinP: o.MinP, Repetition: o.Repetition, Banned: b.p.VLM.Banned,
		Uniform: make([]float64, len(of)), Given: make([]int32, len(of))}
	for i, e := range of {
		if s.Given[i] = -1; len(e.sampler.forced) > 0 {
			s.Given[i] = e.sampler.forced[0]
		} else {
			s.Uniform[i] = e.sampler.uniform()
		}
	}
	drawn, err := b.decoder.Draw(s)
	if err != nil {
		return err
	}
	for i, d := range drawn {
		switch said[i] = (token{id: d.ID, model: float64(d.Bare), err: d.Err}); {
		case d.Err != nil:
		case s.Given[i] >= 0:
			said[i].sampled, said[i].given = said[i].model, true
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
		all.Go(func() { said[i] = e.sampler.drawOnHost(logits[i], b.decoder.IDs(e.sampler.row)) })
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
		if said[i].model = float64(spoken[i]); said[i].given {
			said[i].sampled = said[i].model
		}
	}
	return nil
}
