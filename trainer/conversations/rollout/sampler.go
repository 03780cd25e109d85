package rollout

import (
	"context"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/conversations/toolserver"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// EpisodeSampler samples one episode: it is the sampler and the coder of tools.Episode. It sends a batch its unread
// stretch, and receives the token that was sampled behind it.
type EpisodeSampler struct {
	Policy  *Policy
	key     rng.Key
	Prompt  tools.Seen
	Album   *tools.Album
	Length  int         // tokens so far
	last    int32       // the last of them
	Unread  vlm.Stretch // not yet read by the decoder
	grids   []vlm.Grid  // of all pictures so far
	texts   []string
	entropy float64                 // entropies of its tokens' distributions, added up
	noise   int                     // the step of that which its pictures have; below 0: none
	clean   []*vision.Image         // the prompt's pictures, without it
	Videos  *chat.Videos            // the prompt's clips; nil without any
	asked   string                  // the user's text
	meta    string                  // the metadata of the question's list
	episode *experiment.Episode     // how its tools are called; nil: as the policy does
	Lost    error                   // an engine failed it
	budget  *toolserver.PixelBudget // of tools' pictures

	solution    []int32   // the prompt's; nil without one, or if nobody is given it
	forcedTurns [][]int32 // the beginnings of its next turns
	forced      []int32   // the rest of the beginning of the turn under way
	given       int       // tokens that were not drawn

	number, row int // of its key, and of the decoder
	events      chan<- event
	tokens      chan token
}

// fork is a sampler for a key in the state of this one, the prompt's.
func (v EpisodeSampler) fork(k trainer.Key) *EpisodeSampler {
	v.Album, v.grids = &tools.Album{Pictures: slices.Clone(v.Album.Pictures), Clip: v.Album.Clip}, slices.Clone(v.grids)
	v.budget = toolserver.NewPixelBudget(v.Policy.pixels(), v.Policy.VLM.Processor.Size)
	v.Album.Keep = v.budget.Hold
	v.key, v.forcedTurns = v.Policy.Draws.Of("tokens", k), v.Policy.forcedTurns(k, v.solution)
	return &v
}

// DefaultTurnTokens is how many tokens a turn has at most where nothing else is said.
const DefaultTurnTokens = 512

// Sample draws a turn, token by token, until its end.
func (v *EpisodeSampler) Sample(ctx context.Context, short []int32, _ []tools.Picture) (tools.Sampled, error) {
	if v.events == nil {
		return v.sampleByEngine(ctx, short)
	}
	if v.forced = nil; len(v.forcedTurns) > 0 {
		v.forced, v.forcedTurns = v.forcedTurns[0], v.forcedTurns[1:]
	}
	var s tools.Sampled
	k, room := v.Policy.VLM, v.room()
	for s.Cut = true; len(s.IDs) < room; {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		v.events <- event{sampler: v, read: v.Unread}
		next := <-v.tokens
		if next.err != nil {
			return s, next.err
		}
		v.Unread = vlm.Stretch{IDs: []int32{next.id}}
		v.Length, v.last, v.entropy = v.Length+1, next.id, v.entropy+next.entropy
		s.IDs, s.LogProb, s.ModelLogProb = append(s.IDs, next.id), append(s.LogProb, next.sampled), append(s.ModelLogProb, next.model)
		if len(v.forced) > 0 {
			v.forced, v.given = v.forced[1:], v.given+1
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
func (v *EpisodeSampler) room() int {
	room := v.Policy.TurnTokens
	if room == 0 {
		room = DefaultTurnTokens
	}
	if l := v.Policy.Limits; l.Tokens > 0 {
		room = min(room, l.Tokens-v.Length)
	}
	return room
}

// drawOnHost samples the token after the tokens of its row in float64, and returns its probability in the sampling
// distribution: runs of earlier versions go on with it.
func (v *EpisodeSampler) drawOnHost(raw []float32, row []int32) token {
	logits := make([]float64, len(raw))
	for i, x := range raw {
		logits[i] = float64(x)
	}
	var before []int
	if v.Policy.Sampling.Repetition != 1 {
		for _, t := range row {
			before = append(before, int(t))
		}
	}
	probabilities, err := v.Policy.Sampling.Probabilities(logits, before, v.Policy.VLM.Banned)
	if err != nil {
		return token{err: err}
	}
	if len(v.forced) > 0 {
		return token{id: v.forced[0], given: true}
	}
	at := pick(probabilities, v.uniform())
	return token{id: int32(at), sampled: portable.Log(probabilities[at]), entropy: entropyOf(probabilities)}
}

// uniform is the number that its next token is drawn with.
func (v *EpisodeSampler) uniform() float64 { return v.key.Step(v.Length).Draw().Float64() }

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
func (v *EpisodeSampler) Code(text string, shown []tools.Picture) (tools.Seen, error) {
	k := v.Policy.VLM
	if v.Length > 0 && v.last == k.End {
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
	var clips *chat.Videos
	if v.Length == 0 { // they stand in the prompt
		clips = v.Videos
	}
	s, engine, err := k.ReadPrompt(text, clips, pictures...)
	if err != nil {
		return tools.Seen{}, err
	}
	v.Unread, v.grids = chat.Joined(v.Unread, s), append(v.grids, s.Pictures.Grids...)
	if v.Length += len(s.IDs); len(s.IDs) > 0 {
		v.last = s.IDs[len(s.IDs)-1]
	}
	return tools.Seen{Tokens: s.IDs, Engine: engine}, nil
}
