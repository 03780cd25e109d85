package episodes

import (
	"context"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// voice speaks one episode, in row 1 of a decoder: it is the sampler and the coder of
// tools.Episode.
type voice struct {
	p       *Policy
	key     rng.Key
	prompt  tools.Seen
	album   *tools.Album
	decoder *vlm.Decoder
	said    int         // tokens so far
	last    int32       // the last of them
	unread  vlm.Stretch // what the decoder has not read yet
	grids   []vlm.Grid  // of all pictures so far
	texts   []string
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
		room = min(room, l.Tokens-v.said)
	}
	for s.Cut = true; len(s.IDs) < room; {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		id, sampled, spoken, err := v.token()
		if err != nil {
			return s, err
		}
		v.unread.IDs = append(v.unread.IDs, id)
		v.said, v.last = v.said+1, id
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
	var before []int // the row's tokens are the decoder's until it reads on
	raw, err := v.read()
	if err != nil {
		return 0, 0, 0, err
	}
	logits := make([]float64, len(raw))
	for i, x := range raw {
		logits[i] = float64(x)
	}
	if v.p.Sampling.Repetition != 1 {
		for _, t := range v.decoder.IDs(1) {
			before = append(before, int(t))
		}
	}
	probabilities, err := v.p.Sampling.Probabilities(logits, before, k.Banned)
	if err != nil {
		return 0, 0, 0, err
	}
	at := pick(probabilities, v.key.Step(v.said).Draw().Float64())
	lp, err := v.decoder.LogProbs([]int32{int32(at)}, float32(v.p.Sampling.Temperature))
	if err != nil {
		return 0, 0, 0, err
	}
	return int32(at), math.Log(probabilities[at]), float64(lp[0]), nil
}

// read lets the decoder read on, and gives the logits of what follows.
func (v *voice) read() ([]float32, error) {
	s := v.unread
	v.unread = vlm.Stretch{}
	if len(s.IDs) != 1 || len(s.Pictures.Grids) > 0 {
		return v.decoder.Extend(1, s)
	}
	rows, err := v.decoder.Step([]int{1}, s.IDs)
	if err != nil {
		return nil, err
	}
	return rows[0], nil
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
	if v.said > 0 && v.last == k.End {
		text = strings.TrimPrefix(text, "<|im_end|>")
	}
	var pictures []*vision.Image
	for i, p := range shown {
		pictures = append(pictures, p.Image)
		w, h, err := k.Processor.Size(p.Width, p.Height)
		if err != nil {
			return tools.Seen{}, err
		}
		shown[i].ShownWidth, shown[i].ShownHeight = w, h
	}
	s, engine, err := k.Read(text, pictures...)
	if err != nil {
		return tools.Seen{}, err
	}
	v.unread, v.grids = Joined(v.unread, s), append(v.grids, s.Pictures.Grids...)
	if v.said += len(s.IDs); len(s.IDs) > 0 {
		v.last = s.IDs[len(s.IDs)-1]
	}
	return tools.Seen{Tokens: s.IDs, Engine: engine}, nil
}
