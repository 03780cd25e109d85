package conversations

import (
	"context"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// episodeSampler speaks one episode: it is the sampler and the coder of tools.Episode. What it has not
// read yet it asks a batch to read, and hears the token that was drawn behind it.
type episodeSampler struct {
	p      *Policy
	key    rng.Key
	prompt tools.Seen
	album  *tools.Album
	said   int         // tokens so far
	last   int32       // the last of them
	unread vlm.Stretch // what the decoder has not read yet
	grids  []vlm.Grid  // of all pictures so far
	texts  []string
	spread float64             // entropies of what its tokens were drawn from, added up
	noise  int                 // the step of that which its pictures have; below 0: none
	clean  []*vision.Image     // the prompt's pictures, without it
	films  *films              // the prompt's clips; nil: there are none
	text   string              // what the user said
	meta   string              // what the question's list says beside it
	by     *experiment.Episode // how its tools are called; nil: as the policy does
	lost   error               // an engine failed it
	shelf  *shelf              // of what tools draw

	solution []int32   // the prompt's; nil: there is none, or nobody is given it
	begins   [][]int32 // what its next turns begin with
	owed     []int32   // what the turn under way still begins with
	given    int       // tokens that were not drawn

	number, row int // of its key, and of the decoder
	events      chan<- event
	heard       chan token
}

// begun is a voice for a key where this one, the prompt's, stands.
func (v episodeSampler) begun(k trainer.Key) *episodeSampler {
	v.album, v.grids = &tools.Album{Pictures: slices.Clone(v.album.Pictures), Clip: v.album.Clip}, slices.Clone(v.grids)
	v.shelf = newShelf(v.p.share(), v.p.Speaker.Processor.Size)
	v.album.Keep = v.shelf.hold
	v.key, v.begins = v.p.Draws.Of("tokens", k), v.p.begins(k, v.solution)
	return &v
}

// mostOfTurn is how many tokens a turn has at most where nothing else is said.
const mostOfTurn = 512

// Sample draws a turn, token by token, until its end.
func (v *episodeSampler) Sample(ctx context.Context, short []int32, _ []tools.Picture) (tools.Sampled, error) {
	if v.events == nil {
		return v.sampleFar(ctx, short)
	}
	if v.owed = nil; len(v.begins) > 0 {
		v.owed, v.begins = v.begins[0], v.begins[1:]
	}
	var s tools.Sampled
	k, room := v.p.Speaker, v.room()
	for s.Cut = true; len(s.IDs) < room; {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		v.events <- event{voice: v, read: v.unread}
		next := <-v.heard
		if next.err != nil {
			return s, next.err
		}
		v.unread = vlm.Stretch{IDs: []int32{next.id}}
		v.said, v.last, v.spread = v.said+1, next.id, v.spread+next.entropy
		s.IDs, s.LogProb, s.ModelLogProb = append(s.IDs, next.id), append(s.LogProb, next.sampled), append(s.ModelLogProb, next.spoken)
		if len(v.owed) > 0 {
			v.owed, v.given = v.owed[1:], v.given+1
		}
		if next.id == k.End {
			s.Cut = false
			break
		}
	}
	s.Text = k.Tokens.DecodePlain(s.IDs)
	v.texts = append(v.texts, s.Text)
	return s, nil
}

// room is how many tokens a turn may have.
func (v *episodeSampler) room() int {
	room := v.p.Turn
	if room == 0 {
		room = mostOfTurn
	}
	if l := v.p.Limits; l.Tokens > 0 {
		room = min(room, l.Tokens-v.said)
	}
	return room
}

// drawOnHost draws what follows the tokens of its row in float64, and says how likely that was in the distribution that
// was sampled from: runs of earlier versions go on with it.
func (v *episodeSampler) drawOnHost(raw []float32, row []int32) token {
	logits := make([]float64, len(raw))
	for i, x := range raw {
		logits[i] = float64(x)
	}
	var before []int
	if v.p.Sampling.Repetition != 1 {
		for _, t := range row {
			before = append(before, int(t))
		}
	}
	probabilities, err := v.p.Sampling.Probabilities(logits, before, v.p.Speaker.Banned)
	if err != nil {
		return token{err: err}
	}
	if len(v.owed) > 0 {
		return token{id: v.owed[0], given: true}
	}
	at := pick(probabilities, v.uniform())
	return token{id: int32(at), sampled: portable.Log(probabilities[at]), entropy: entropyOf(probabilities)}
}

// uniform is the number that its next token is drawn with.
func (v *episodeSampler) uniform() float64 { return v.key.Step(v.said).Draw().Float64() }

// entropyOf is -Σ p log p, in nats.
func entropyOf(probabilities []float64) (h float64) {
	for _, p := range probabilities {
		if p > 0 {
			h -= float64(p * portable.Log(p))
		}
	}
	return h
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
func (v *episodeSampler) Code(text string, shown []tools.Picture) (tools.Seen, error) {
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
	var clips *films
	if v.said == 0 { // they stand in the prompt
		clips = v.films
	}
	s, engine, err := k.read(text, clips, pictures...)
	if err != nil {
		return tools.Seen{}, err
	}
	v.unread, v.grids = Joined(v.unread, s), append(v.grids, s.Pictures.Grids...)
	if v.said += len(s.IDs); len(s.IDs) > 0 {
		v.last = s.IDs[len(s.IDs)-1]
	}
	return tools.Seen{Tokens: s.IDs, Engine: engine}, nil
}
