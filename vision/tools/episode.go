package tools

import (
	"context"
	"errors"
	"fmt"
)

// A Sampled is one turn as the model drew it.
type Sampled struct {
	IDs          []int32
	LogProb      []float64 // of the distribution that was sampled from
	ModelLogProb []float64 // of the model; nil: not kept
	Text         string    // the ids' text
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

// An Episode has all that Play needs.
type Episode struct {
	Protocol *Protocol
	State    *State
	Limits   Limits
	Sampler  Sampler
	Coder    Coder
	Prompt   Seen
}

// Play is the loop: the model writes, its calls are planned and made, it reads the results, until it answers or a
// limit ends the episode. Errors come from the sampler and the coder, or report an impossible state; whatever the
// model writes is answered.
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

// Limits end an episode; 0 means no limit. Published loops count differently, so that one number has different
// meanings; the fields say which one counts so.
type Limits struct {
	// Tokens is of the whole sequence, with its prompt: the model's own stream (one place a picture) and the
	// trainer's (all of them) are both held to it. PromptRoom is the prompt's count in the latter, where prompts are
	// padded to one width (DeepEyes).
	Tokens     int `toml:"tokens"`
	PromptRoom int `toml:"prompt_room"`
	// Response counts tokens after the prompt, in the trainer's stream (verl, Mini-o3). With Margin, a call is not
	// answered when fewer than that are left (Mini-o3: 2000).
	Response int `toml:"response"`
	Margin   int `toml:"margin"`

	Turns        int `toml:"turns"`        // answers of the model
	Observations int `toml:"observations"` // answers of the environment
	Pictures     int `toml:"pictures"`     // with the prompt's: at this number no tool is called
	Pixels       int `toml:"pixels"`       // of all pictures as shown

	// Known is the highest id that the model's stream takes; others are left out of it, and stay
	// in the trainer's (DeepEyes). 0: all are.
	Known int32 `toml:"-"`
	// ActFirst: the environment acts on a turn, and its reward counts, before limits are looked
	// at (DeepEyes). Else the other way round (verl).
	ActFirst bool `toml:"-"`
}

// full reports whether the streams reach their limits with more tokens.
func (l Limits) full(t *Transcript, engine, more, moreEngine int) bool {
	response := len(t.Tokens) - t.Prompt + more
	whole := max(t.Prompt, l.PromptRoom) + response
	return l.Tokens > 0 && (whole >= l.Tokens || engine+moreEngine >= l.Tokens) ||
		l.Response > 0 && response >= l.Response
}

// room is how long the trainer's stream may be at the end.
func (l Limits) room(t *Transcript) int {
	n := len(t.Tokens)
	if l.Response > 0 {
		n = min(n, t.Prompt+l.Response)
	}
	if l.Tokens > 0 {
		n = min(n, max(t.Prompt, t.Prompt+l.Tokens-max(t.Prompt, l.PromptRoom)))
	}
	return n
}

// ended is why an episode ends after a turn that asked for a tool; "" where it goes on.
func (l Limits) ended(t *Transcript, s *State) End {
	pixels := 0
	for _, p := range s.Album.Pictures {
		pixels += p.ShownWidth * p.ShownHeight
	}
	switch {
	case l.Turns > 0 && len(t.Turns) >= l.Turns:
		return Turns
	case l.Observations > 0 && t.Answers >= l.Observations:
		return Observations
	case l.Pictures > 0 && len(s.Album.Pictures) >= l.Pictures:
		return Pictures
	case l.Pixels > 0 && pixels >= l.Pixels:
		return Pixels
	case l.Margin > 0 && l.Response > 0 && len(t.Tokens)-t.Prompt >= l.Response-l.Margin:
		return Spent
	}
	return ""
}

// recorder keeps a transcript's slices in step, and the model's own stream beside them.
type recorder struct {
	*Transcript
	limits Limits
	state  *State
	engine []int32
}

// known are the ids that the model's stream takes.
func (r *recorder) known(ids []int32) []int32 {
	if r.limits.Known == 0 {
		return ids
	}
	var kept []int32
	for _, id := range ids {
		if id <= r.limits.Known {
			kept = append(kept, id)
		}
	}
	return kept
}

func (r *recorder) read(ids []int32) { r.engine = append(r.engine, ids...) }

// sampled appends a turn of the model.
func (r *recorder) sampled(s Sampled) error {
	n := len(s.IDs)
	if len(s.LogProb) != n || s.ModelLogProb != nil && len(s.ModelLogProb) != n {
		return errors.New("the sampler gave not one log-probability a token")
	}
	from := len(r.Tokens)
	r.Tokens = append(r.Tokens, s.IDs...)
	r.LogProb = append(r.LogProb, s.LogProb...)
	if s.ModelLogProb != nil || r.ModelLogProb != nil {
		r.ModelLogProb = append(r.ModelLogProb, make([]float64, from-len(r.ModelLogProb))...)
		if r.ModelLogProb = append(r.ModelLogProb, s.ModelLogProb...); s.ModelLogProb == nil {
			return errors.New("the sampler gave the model's log-probabilities for some turns alone")
		}
	}
	for range n {
		r.Sampled, r.Reward = append(r.Sampled, true), append(r.Reward, 0)
	}
	r.Turns = append(r.Turns, Turn{From: from, To: from + n, Observed: from + n})
	r.read(r.known(s.IDs))
	return nil
}

// credit enters a turn's calls, and their rewards.
func (r *recorder) credit(reply *Reply) {
	turn := &r.Turns[len(r.Turns)-1]
	r.Defused += reply.Defused
	for _, result := range reply.Results {
		c := CallTaken{Tool: result.Name, Ops: result.Ops}
		if result.Refusal != nil {
			c.Refused, c.Message, c.Ops = result.Refusal.Kind, result.Refusal.Message, nil
		}
		turn.Calls, turn.Rewards = append(turn.Calls, c), append(turn.Rewards, result.Reward)
	}
	if n := len(r.Reward); n > 0 {
		r.Reward[n-1] += reply.Reward
	}
}

// over is why the episode ends after a turn; reply is nil where nothing was read of it.
func (r *recorder) over(s Sampled, reply *Reply) End {
	wants := reply != nil && reply.End == ""
	if r.limits.full(r.Transcript, len(r.engine), 0, 0) {
		r.Over = wants
		if reply != nil {
			r.Answer = reply.Answer
		}
		return Spent
	}
	switch {
	case len(s.IDs) == 0:
		return Empty
	case s.Cut:
		return Cut
	case !wants:
		r.Answer = reply.Answer
		return reply.End
	}
	end := r.limits.ended(r.Transcript, r.state)
	r.Over = end != ""
	return end
}

// observed appends the model's next input.
func (r *recorder) observed(s Seen) {
	for _, id := range s.Tokens {
		r.Tokens, r.Sampled = append(r.Tokens, id), append(r.Sampled, false)
		r.LogProb, r.Reward = append(r.LogProb, 0), append(r.Reward, 0)
	}
	if r.ModelLogProb != nil {
		r.ModelLogProb = append(r.ModelLogProb, make([]float64, len(s.Tokens))...)
	}
	r.read(r.known(s.Engine))
	r.Turns[len(r.Turns)-1].Observed = len(r.Tokens)
	r.Answers++
}

// cut drops tokens beyond the room: the end of a last turn that was too long.
func (r *recorder) cut() {
	n := r.limits.room(r.Transcript)
	r.Tokens, r.Sampled, r.LogProb, r.Reward = r.Tokens[:n], r.Sampled[:n], r.LogProb[:n], r.Reward[:n]
	if r.ModelLogProb != nil {
		r.ModelLogProb = r.ModelLogProb[:n]
	}
	for i := range r.Turns {
		turn := &r.Turns[i]
		turn.From, turn.To, turn.Observed = min(turn.From, n), min(turn.To, n), min(turn.Observed, n)
	}
}
