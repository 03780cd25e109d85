package tools

import (
	"context"
	"fmt"
)

// A Sampled is one turn as the model drew it.
type Sampled struct {
	IDs          []int32
	LogProb      []float64 // of the distribution that was sampled from
	ModelLogProb []float64 // of the model; nil: not kept
	Text         string    // what the ids say
	Cut          bool      // stopped by its length, not by an end
}

// A Sampler draws a model's next turn after a sequence with one place a picture. It must not
// draw a picture's place.
type Sampler interface {
	Sample(ctx context.Context, tokens []int32, pictures []Picture) (Sampled, error)
}

// A Seen is an observation in tokens.
type Seen struct {
	Tokens []int32 // with all of a picture's places: the trainer's
	Engine []int32 // with one: the model's
}

// A Coder turns an observation into tokens, once: its text, and the pictures that it shows, whose
// ShownWidth and ShownHeight it may set.
type Coder interface {
	Code(text string, shown []Picture) (Seen, error)
}

// An Episode is what is needed to play one.
type Episode struct {
	Protocol *Protocol
	State    *State
	Limits   Limits
	Sampler  Sampler
	Coder    Coder
	Prompt   Seen
}

// Play is the loop: the model writes, its calls are planned and made, it reads what came of them,
// until it answers or a limit says so. Errors are of the sampler and the coder, and of what is
// impossible; whatever the model writes is answered.
func (e Episode) Play(ctx context.Context) (*Transcript, error) {
	t := &Transcript{Protocol: e.Protocol.Name, Tokens: append([]int32(nil), e.Prompt.Tokens...), Prompt: len(e.Prompt.Tokens)}
	n := len(t.Tokens)
	t.Sampled, t.LogProb, t.Reward = make([]bool, n), make([]float64, n), make([]float64, n)
	r := &recorder{Transcript: t, limits: e.Limits, state: e.State}
	r.read(e.Prompt.Engine)
	t.Shots = e.State.Album.shots(0, -1)
	e.State.Most = e.Limits.Pictures
	for t.End == "" {
		if err := e.turn(ctx, r); err != nil {
			return nil, fmt.Errorf("turn %d of an episode: %w", len(t.Turns), err)
		}
		e.State.Turn++
	}
	r.cut()
	return t, nil
}

// turn is one round.
func (e Episode) turn(ctx context.Context, r *recorder) error {
	drawn, err := e.Sampler.Sample(ctx, r.engine, e.State.Album.Pictures)
	if err != nil {
		return err
	}
	if err := r.sampled(drawn); err != nil {
		return err
	}
	silent := drawn.Cut || len(drawn.IDs) == 0
	var reply *Reply
	if !silent {
		reply = e.Protocol.Step(e.State, drawn.Text)
		if e.Limits.ActFirst {
			r.credit(reply)
		}
	}
	if r.End = r.over(drawn, reply); r.End != "" {
		return nil
	}
	if !e.Limits.ActFirst {
		r.credit(reply)
	}
	r.Calls++
	if !reply.Sound() {
		r.End = Unsound
		return nil
	}
	return e.observe(r, reply)
}

// observe makes the pictures and gives the observation to the model, or to nobody where there is
// no room for it.
func (e Episode) observe(r *recorder, reply *Reply) error {
	album := e.State.Album
	before := len(album.Pictures)
	if _, err := reply.Make(album); err != nil {
		return err
	}
	seen, err := e.Coder.Code(reply.Observation(), album.Pictures[before:])
	if err != nil {
		return err
	}
	if e.Limits.full(r.Transcript, len(r.engine), len(seen.Tokens), len(seen.Engine)) {
		album.Pictures = album.Pictures[:before]
		r.End, r.Over = Dropped, true
		return nil
	}
	r.observed(seen)
	for _, result := range reply.Results {
		if result.Figures > 0 {
			e.State.Figures = result.Figures
		}
	}
	r.Shots = append(r.Shots, album.shots(before, len(r.Turns)-1)...)
	return nil
}
