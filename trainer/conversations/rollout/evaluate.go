package rollout

import (
	"errors"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer"
)

// DefaultKeep is how many tokens' values are kept for Back where nothing else is said.
const DefaultKeep = 16384

// leastKeep is the number of tokens below which none are kept.
const leastKeep = 64

// Eval answers with the log-probability of every token that the model chose, in their order, and,
// where a point asks for it, with the entropies of the distributions behind them.
func (p *Policy) Eval(w trainer.Weights, at []trainer.Point) (trainer.Forward, error) {
	var out trainer.Forward
	if w == trainer.Teacher {
		return p.teacherAnswers(at)
	}
	if w == trainer.Current {
		p.forget()
	}
	episodes := make([]*Episode, len(at))
	for i, point := range at {
		var ok bool
		if episodes[i], ok = point.Episode.(*Episode); !ok {
			return out, errNotRolled
		}
	}
	room := p.Keep
	if room == 0 {
		room = DefaultKeep
	}
	kept := make([]*pass, len(at))
	if w == trainer.Current {
		p.kept = 0
	}
	err := p.Learner.With(w, func() error {
		for i, point := range at {
			keep := w == trainer.Current && len(episodes[i].Tokens) <= room
			h, err := p.forward(point, keep)
			if err != nil {
				return err
			}
			out.Outputs = append(out.Outputs, h.outputs())
			if !keep {
				h.tape.Reset()
				continue
			}
			room -= len(episodes[i].Tokens)
			p.kept += len(episodes[i].Tokens)
			kept[i], p.pending = h, append(p.pending, h.tape)
		}
		return nil
	})
	if err == nil && w == trainer.Current {
		out.Back = func(grads [][]float64) error { return p.back(at, kept, grads) }
	}
	return out, err
}

// Attempt implements trainer.Thrifty: where memory runs out, values of fewer tokens are kept for Back, and at last of
// none. No bit depends on it.
func (p *Policy) Attempt(f func() error) error {
	for {
		p.forget()
		err := p.VLM.Options.Pool.Attempt(f)
		var out interface{ MemoryIsOut() bool }
		if !errors.As(err, &out) || !out.MemoryIsOut() || p.Keep < 0 {
			return err
		}
		p.pending = nil // whose tensors were freed
		less := "values of no episode are kept for backward"
		if p.Keep = p.kept / 2; p.Keep < leastKeep {
			p.Keep = -1
		} else {
			less = fmt.Sprintf("values of %d tokens are kept for backward", p.Keep)
		}
		p.tellLess(less+" from now on", err)
	}
}

// tellLess reports less memory.
func (p *Policy) tellLess(less string, err error) {
	if p.Logf != nil {
		p.Logf("memory ran out in a pass: %s (no bit depends on it): %v", less, err)
	}
}

// forget gives answers' tapes back that nobody took.
func (p *Policy) forget() {
	for _, tp := range p.pending {
		tp.Reset()
	}
	p.pending = nil
}

// Replay implements model.Replayer: the values of one episode are kept at a time.
func (p *Policy) Replay(at []trainer.Point, grads [][]float64) (outputs [][]float64, err error) {
	p.forget()
	if len(grads) != len(at) {
		return nil, errors.New("not one gradient an answer")
	}
	for i, point := range at {
		h, err := p.forward(point, true)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, h.outputs())
		h.back(grads[i])
		h.tape.Reset()
	}
	return outputs, nil
}

func (p *Policy) back(at []trainer.Point, kept []*pass, grads [][]float64) error {
	defer p.forget()
	if len(grads) != len(at) {
		return errors.New("not one gradient an answer")
	}
	for i, point := range at {
		h := kept[i]
		if h == nil {
			var err error
			if h, err = p.forward(point, true); err != nil {
				return err
			}
		}
		h.back(grads[i])
		h.tape.Reset()
	}
	return nil
}

// pass is an episode that went through the network.
type pass struct {
	tape        *autograd.Tape
	chosen      int             // tokens that the model chose
	logProbs    *autograd.Value // of these; nil without any
	logits      *autograd.Value // of these; nil where no entropy is asked for
	values      *autograd.Value // before these; nil where none are asked for
	headOnly    bool            // the network's weights stay: only the head of values learns
	temperature float64
}

func (p *Policy) forward(point trainer.Point, train bool) (*pass, error) {
	e, ok := point.Episode.(*Episode)
	if !ok {
		return nil, errNotRolled
	}
	k := p.VLM
	s, err := p.input(e)
	if err != nil {
		return nil, err
	}
	h := &pass{tape: k.Tape(train), temperature: p.Sampling.Temperature, headOnly: p.ValueHeadOnly}
	if p.Supervised || e.End == Demonstrated {
		h.temperature = 1
	}
	hidden, err := k.Model.Hidden(h.tape, s)
	if err != nil {
		h.tape.Reset()
		return nil, err
	}
	var before, tokens []int32
	for at, on := range e.Sampled {
		if on {
			h.chosen++
			before, tokens = append(before, int32(at-1)), append(tokens, e.Tokens[at])
		}
	}
	if h.chosen == 0 {
		return h, nil
	}
	h.logProbs = k.Model.LogProbs(h.tape, hidden, before, tokens, float32(h.temperature))
	if point.Entropy {
		h.logits = k.Model.Logits(h.tape, h.tape.Gather(hidden, before))
	}
	if point.Value {
		if p.valueHead == nil {
			h.tape.Reset()
			return nil, errNoValueHead
		}
		h.values = p.valueHead.head.Apart(h.tape, hidden, before)
	}
	return h, nil
}

// LogProbs are those of a sample's tokens by the weights as they are.
func (p *Policy) LogProbs(s trainer.Sample) ([]float64, error) {
	h, err := p.forward(trainer.Point{Key: s.Key, Episode: s.Item.Episode}, false)
	if err != nil {
		return nil, err
	}
	defer h.tape.Reset()
	return h.outputs(), nil
}

// outputs are the log-probabilities, the entropies, and the values.
func (h *pass) outputs() []float64 {
	if h.chosen == 0 {
		return nil
	}
	var out []float64
	for _, x := range h.logProbs.F32() {
		out = append(out, float64(x))
	}
	if h.logits != nil {
		logits, width := h.logits.F32(), h.logits.Dim(-1)
		for i := range h.chosen {
			_, e := h.distribution(logits[i*width : (i+1)*width])
			out = append(out, e)
		}
	}
	if h.values != nil {
		for _, x := range h.values.F32() {
			out = append(out, float64(x))
		}
	}
	return out
}

// distribution is log p of every token, and the entropy.
func (h *pass) distribution(logits []float32) (logs []float64, entropy float64) {
	top, sum := math.Inf(-1), 0.0
	for _, x := range logits {
		top = max(top, float64(x)/h.temperature)
	}
	logs = make([]float64, len(logits))
	for j, x := range logits {
		logs[j] = float64(x)/h.temperature - top
		sum += nn.Exp(logs[j])
	}
	all := portable.Log(sum)
	for j := range logs {
		logs[j] -= all
		entropy -= float64(nn.Exp(logs[j]) * logs[j])
	}
	return logs, entropy
}

// back takes gradients at the outputs to the weights. An entropy's at a logit is -p (log p + H).
func (h *pass) back(grads []float64) {
	n := h.chosen
	if n == 0 {
		return
	}
	var seeds []autograd.Seed
	if h.values != nil {
		seeds = append(seeds, autograd.Seed{Of: h.values, Grad: toFloat32(grads[len(grads)-n:])})
	}
	if !h.headOnly {
		seeds = append(seeds, autograd.Seed{Of: h.logProbs, Grad: toFloat32(grads[:n])})
	}
	if h.logits != nil && !h.headOnly {
		logits, width := h.logits.F32(), h.logits.Dim(-1)
		slope := make([]float32, len(logits))
		for i := range h.chosen {
			logs, entropy := h.distribution(logits[i*width : (i+1)*width])
			for j, l := range logs {
				slope[i*width+j] = float32(-grads[n+i] * nn.Exp(l) * (l + entropy) / h.temperature)
			}
		}
		seeds = append(seeds, autograd.Seed{Of: h.logits, Grad: slope})
	}
	if len(seeds) > 0 {
		h.tape.Backward(seeds...)
	}
}

func toFloat32(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// teacherAnswers is the teacher's outputs at points.
func (p *Policy) teacherAnswers(at []trainer.Point) (trainer.Forward, error) {
	if p.Teacher == nil {
		return trainer.Forward{}, errors.New("a teacher was asked, and model.teacher names none")
	}
	other := &Policy{VLM: p.Teacher, Sampling: p.Sampling, Supervised: p.Supervised, Keep: -1}
	forward, err := other.Eval(trainer.Current, at)
	other.forget()
	forward.Back = nil
	return forward, err
}
