package episodes

import (
	"context"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// voice speaks one episode: it is the sampler and the coder of tools.Episode. Its speech is what
// was said and read, and every token is computed over the whole of it: the definition that a
// cache of keys and values must equal.
type voice struct {
	p      *Policy
	key    rng.Key
	prompt tools.Seen
	album  *tools.Album
	speech Speech
	states []float32 // the tower's, of all pictures so far
	texts  []string
}

// mostOfTurn is how many tokens a turn has at most where nothing else is said.
const mostOfTurn = 512

// Sample draws a turn, token by token, until its end.
func (v *voice) Sample(ctx context.Context, _ []int32, _ []tools.Picture) (tools.Sampled, error) {
	var s tools.Sampled
	k := v.p.Speaker
	room := v.p.Turn
	if room == 0 {
		room = mostOfTurn
	}
	if l := v.p.Limits; l.Tokens > 0 {
		room = min(room, l.Tokens-len(v.speech.Tokens))
	}
	for s.Cut = true; len(s.IDs) < room; {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		id, sampled, spoken, err := v.token()
		if err != nil {
			return s, err
		}
		v.speech.Say(id)
		s.IDs, s.LogProb, s.ModelLogProb = append(s.IDs, id), append(s.LogProb, sampled), append(s.ModelLogProb, spoken)
		if id == k.End {
			s.Cut = false
			break
		}
	}
	s.Text = k.Tokens.DecodePlain(s.IDs)
	v.texts = append(v.texts, s.Text)
	return s, nil
}

// token draws what comes next, and says how likely that was in the distribution that was sampled
// from, and in the model's.
func (v *voice) token() (id int32, sampled, spoken float64, err error) {
	k := v.p.Speaker
	tp := k.Tape(false)
	defer tp.Reset()
	all, err := k.Logits(tp, v.speech, k.given(tp, v.states))
	if err != nil {
		return 0, 0, 0, err
	}
	last := tp.Gather(all, []int32{int32(len(v.speech.Tokens) - 1)})
	logits := make([]float64, last.Dim(-1))
	for i, x := range last.F32() {
		logits[i] = float64(x)
	}
	var before []int
	if v.p.Sampling.Repetition != 1 {
		for _, t := range v.speech.Tokens {
			before = append(before, int(t))
		}
	}
	probabilities, err := v.p.Sampling.Probabilities(logits, before, k.Banned)
	if err != nil {
		return 0, 0, 0, err
	}
	at := pick(probabilities, v.key.Step(len(v.speech.Tokens)).Draw().Float64())
	lp := tp.LogProbs(last, []int32{int32(at)}, float32(v.p.Sampling.Temperature)).F32()[0]
	return int32(at), math.Log(probabilities[at]), float64(lp), nil
}

// pick is where a number from 0 to 1 falls.
func pick(probabilities []float64, u float64) int {
	last, sum := 0, 0.0
	for i, p := range probabilities {
		if p == 0 {
			continue
		}
		if last, sum = i, sum+p; u < sum {
			break
		}
	}
	return last
}

// Code reads a text with its pictures, and looks at them. A protocol that ends the model's turn
// itself does so only where the model has not.
func (v *voice) Code(text string, shown []tools.Picture) (tools.Seen, error) {
	k := v.p.Speaker
	if n := len(v.speech.Tokens); n > 0 && v.speech.Tokens[n-1] == k.End {
		text = strings.TrimPrefix(text, "<|im_end|>")
	}
	var new Speech
	var pictures []*vision.Image
	for i, p := range shown {
		pictures = append(pictures, p.Image)
		w, h, err := k.Processor.Size(p.Width, p.Height)
		if err != nil {
			return tools.Seen{}, err
		}
		shown[i].ShownWidth, shown[i].ShownHeight = w, h
	}
	engine, tokens, err := new.Read(k, text, pictures...)
	if err != nil {
		return tools.Seen{}, err
	}
	tp := k.Tape(false)
	defer tp.Reset()
	seen, err := k.See(tp, new)
	if err != nil {
		return tools.Seen{}, err
	}
	if seen != nil {
		v.states = append(v.states, seen.F32()...)
	}
	v.speech.Tokens, v.speech.Kinds = append(v.speech.Tokens, new.Tokens...), append(v.speech.Kinds, new.Kinds...)
	v.speech.Grids, v.speech.Values = append(v.speech.Grids, new.Grids...), append(v.speech.Values, new.Values...)
	return tools.Seen{Tokens: tokens, Engine: engine}, nil
}

// given are states of the tower as they were kept.
func (s *Speaker) given(tp *autograd.Tape, states []float32) *autograd.Value {
	if len(states) == 0 {
		return nil
	}
	width := s.Model.Text.Width
	return tp.Upload("states of pictures", states, 1, len(states)/width, width)
}
