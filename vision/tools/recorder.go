package tools

import "errors"

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

// credit enters a turn's calls, and what they are worth.
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

// observed appends what the model reads next.
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

// cut leaves out what is beyond the room: the end of a last turn that was too long.
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
