package conversations

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/augment"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Card: episodes that are played by another process (model.EpisodeCodec). The transcript and the model's texts
// travel. Pictures are made again: those of the question from the prompt, a tool's by its operation. Only pictures
// that a program or a server drew travel themselves.
//
// Invariants (tests): an episode that came back has all that it had, pictures too; strangers' bytes are an episode
// about the given prompt, whose places and pictures fit, or are refused.

// wireEpisode is an episode as text.
type wireEpisode struct {
	Transcript *tools.Transcript `json:"transcript"`
	Texts      []string          `json:"texts"`
	Entropy    float64           `json:"entropy"`
	Noise      *rollout.Noise    `json:"noise,omitempty"`
	Given      int               `json:"given,omitempty"`
	Stem       int               `json:"stem,omitempty"`
	Lost       string            `json:"lost,omitempty"`

	Worth    map[string]float64 `json:"worth,omitempty"` // environments' rewards
	Pictures []wirePicture      `json:"pictures,omitempty"`
}

// wirePicture is one of its pictures.
type wirePicture struct {
	Shown [2]int    `json:"shown"`          // as the model saw it
	From  *tools.Op `json:"from,omitempty"` // nil: it is the prompt's
}

// unmakeable says of a picture that it cannot be made again.
func unmakeable(from *tools.Op) bool { return from != nil && from.Kind == "program" }

// Values implements model.Remote. With the current weights go those of a head of values.
func (m *Model) Values(w trainer.Weights) ([]safetensors.Tensor, error) {
	all, err := m.Learner.Values(w, "")
	head := m.ValueLearner()
	if err != nil || head == nil || w != trainer.Current {
		return all, err
	}
	values, err := head.Values(w, headPrefix)
	return append(all, values...), err
}

// Take implements model.Remote.
func (m *Model) Take(f *safetensors.File) error {
	err := m.Learner.Take(f, "")
	if head := m.ValueLearner(); err == nil && head != nil && head.In(f, headPrefix) {
		err = head.Take(f, headPrefix)
	}
	return err
}

// Recall implements model.Recaller: outputs are the log-probabilities of tokens, which the trainer's forward pass has,
// too (check.go). Episodes with distorted pictures have others.
func (m *Model) Recall(s trainer.Sample) [][]float64 {
	e := rollout.EpisodeOf(s)
	if e == nil || e.Lost != nil || e.Noise != nil || len(s.Decisions.LogProb) == 0 {
		return nil
	}
	return [][]float64{s.Decisions.LogProb}
}

// Remember implements model.Recaller: every forward pass is computed, so nothing has to be known.
func (m *Model) Remember([]trainer.Sample, [][][]float64, func(of trainer.Key)) {}

// Means implements model.Recaller: tokens have none.
func (m *Model) Means(_ model.Rolled, samples []trainer.Sample, _ [][][]float64) ([][][]float64, error) {
	return make([][][]float64, len(samples)), nil
}

// Bounds of an episode's numbers. Ratios are e to a difference of log-probabilities, and sums of their squares are
// formed.
const (
	leastLogProb = -300  // of a token that was drawn, or given
	mostLogProb  = 1e-3  // of fp32, of a token that is certain
	mostEntropy  = 20    // of a token's distribution, in nats
	mostWorth    = 1e100 // as of any reward
)

// Fits is model.Remote's, of samples that Decode gave their episodes.
func (m *Model) Fits(r model.Rolled, samples []trainer.Sample) error {
	for _, s := range samples {
		if err := m.fitsRoll(r, s.Key, rollout.EpisodeOf(s), s.Decisions); err != nil {
			return fmt.Errorf("sample %d of prompt %d: %w", s.Key.Sample, s.Key.Prompt, err)
		}
	}
	return nil
}

func (m *Model) fitsRoll(r model.Rolled, k trainer.Key, e *rollout.Episode, d trainer.Decisions) error {
	if e == nil {
		return errors.New("it is no episode")
	}
	if n := m.Limits.Tokens; n > 0 && len(e.Tokens) > n+len(e.Tokens[:e.Prompt]) {
		return fmt.Errorf("it has %d tokens, and %d are the most", len(e.Tokens), n)
	}
	if p := r.Settings.Episode; p.Guided == nil && p.Tree == nil && (e.Given > 0 || e.Stem > 0) {
		return errors.New("it begins with tokens that nobody gave")
	}
	if noise := noiseOf(r, k); (e.Noise != nil) != (noise >= 0) || e.Noise != nil && e.Noise.Step != noise {
		return fmt.Errorf("it was not played with the noise of step %d", noise)
	}
	for at, on := range e.Sampled {
		switch {
		case !on && e.ModelLogProb[at] != 0:
			return fmt.Errorf("token %d was not drawn, and has a log-probability", at)
		case on && (!likely(e.LogProb[at]) || !likely(e.ModelLogProb[at])):
			return fmt.Errorf("token %d has log-probabilities of %v and %v, and they lie between %v and 0", at, e.LogProb[at], e.ModelLogProb[at], leastLogProb)
		}
	}
	for i, at := range d.Step {
		lp := e.ModelLogProb[at]
		if e.Noise != nil {
			if !likely(e.Noise.LogProb[i]) {
				return fmt.Errorf("token %d has a log-probability of %v on clean pictures", at, e.Noise.LogProb[i])
			}
			if r.Settings.Episode.Noisy.Old == "clean" {
				lp = e.Noise.LogProb[i]
			}
		}
		if d.LogProb[i] != lp || d.Trained[i] == (m.Silence && e.Over) {
			return fmt.Errorf("token %d is not judged as it was drawn", at)
		}
	}
	return checkNumbers(e, len(d.Step))
}

// likely reports whether a number can be the log-probability of a token.
func likely(lp float64) bool { return lp >= leastLogProb && lp <= mostLogProb }

// checkNumbers refuses numbers that no episode of this many drawn tokens has.
func checkNumbers(e *rollout.Episode, drawn int) error {
	if !(e.Entropy >= -mostLogProb && e.Entropy <= float64(mostEntropy*float64(drawn))+mostLogProb) {
		return fmt.Errorf("an entropy of %v in %d tokens", e.Entropy, drawn)
	}
	all := slices.Clone(e.Reward)
	for _, t := range e.Turns {
		all = append(all, t.Rewards...)
	}
	for _, v := range e.Worth {
		all = append(all, v)
	}
	for _, v := range all {
		if !(math.Abs(v) <= mostWorth) {
			return fmt.Errorf("a reward of %v, and rewards lie between -%v and %v", v, mostWorth, mostWorth)
		}
	}
	return nil
}

// noiseOf is the noise that a key's pictures are shown with; below 0: none.
func noiseOf(r model.Rolled, k trainer.Key) int {
	n := r.Settings.Episode.Noisy
	if n == nil || r.Fixed || k.Sample < r.Settings.Rollout.Group-n.Of(r.Settings.Rollout.Group) {
		return -1
	}
	return augment.NoiseStep(*n, r.Settings.Iteration+1, r.Settings.Run.Iterations)
}

// Most is model.Remote's: tokens with their numbers, calls and their answers, and pictures that cannot be made again.
func (m *Model) Most(r model.Rolled, keys []trainer.Key) int64 {
	const usual, each, calls, picture, all = 1 << 17, 256, 4 << 20, 32 << 20, 64 << 10 // tokens; and bytes
	tokens := m.Limits.Tokens
	if tokens <= 0 {
		tokens = usual
	}
	one := int64(tokens)*2*each + calls
	if p := r.Settings.Episode; p.Exec != nil || len(p.Served) > 0 {
		one += 8 * picture
	}
	return all + int64(len(keys))*one
}

// Encode implements model.EpisodeCodec.
func (m *Model) Encode(s trainer.Sample) (model.EncodedEpisode, error) {
	e := rollout.EpisodeOf(s)
	if e == nil {
		return model.EncodedEpisode{}, errors.New("it is no episode")
	}
	c := wireEpisode{Transcript: e.Transcript, Texts: e.Texts, Entropy: e.Entropy, Noise: e.Noise, Given: e.Given, Stem: e.Stem, Worth: e.Worth}
	if e.Lost != nil {
		c.Lost = e.Lost.Error()
	}
	var said model.EncodedEpisode
	for _, p := range e.Album.Pictures {
		c.Pictures = append(c.Pictures, wirePicture{[2]int{p.ShownWidth, p.ShownHeight}, p.From})
		if unmakeable(p.From) {
			said.Pictures = append(said.Pictures, p.Image)
		}
	}
	var err error
	if said.Text, err = json.Marshal(c); err != nil {
		return said, err
	}
	var back wireEpisode
	if err := json.Unmarshal(said.Text, &back); err != nil {
		return said, err
	}
	if !reflect.DeepEqual(c, back) {
		return said, errors.New("the episode changes when it is written as JSON")
	}
	return said, nil
}

// Decode implements model.EpisodeCodec.
func (m *Model) Decode(samples []trainer.Sample, said []model.EncodedEpisode) (err error) {
	var q chat.Prompt
	var clips *chat.Videos
	for i := range samples {
		k := samples[i].Key
		if i == 0 || samples[i-1].Key.Prompt != k.Prompt || m.IsControl(samples[i-1].Key) != m.IsControl(k) {
			if q, err = m.Prompts(k.Prompt); err != nil {
				return fmt.Errorf("prompt %d: %w", k.Prompt, err)
			}
			if clips, err = m.VLM.LoadVideos(q.Clips, m.VideoOptions, m.FrameOrder(k)); err != nil {
				return fmt.Errorf("prompt %d: %w", k.Prompt, err)
			}
		}
		e, err := m.decode(q, clips, said[i])
		if err == nil {
			err = checkDecisions(e, samples[i].Decisions)
		}
		if err != nil {
			return fmt.Errorf("sample %d of prompt %d: %w", k.Sample, k.Prompt, err)
		}
		samples[i].Item.Episode, samples[i].Control = e, clips != nil && m.IsControl(k)
	}
	return nil
}

// checkDecisions sees whether decisions are those of an episode.
func checkDecisions(e *rollout.Episode, d trainer.Decisions) error {
	var drawn []int
	for at, on := range e.Sampled {
		if on {
			drawn = append(drawn, at)
		}
	}
	switch {
	case !slices.Equal(drawn, d.Step) || len(d.LogProb) != len(drawn) || len(d.Trained) != len(drawn):
		return errors.New("its decisions are not the tokens that were drawn")
	case e.Noise != nil && len(e.Noise.LogProb) != len(drawn):
		return errors.New("it has another number of tokens on clean pictures")
	case e.Given < 0 || e.Given > len(drawn) || e.Stem < 0 || e.Stem > len(e.Turns):
		return fmt.Errorf("%d tokens and %d turns of it were not drawn, and it has %d and %d", e.Given, e.Stem, len(drawn), len(e.Turns))
	case len(e.ModelLogProb) != len(e.Tokens):
		return errors.New("it does not say how likely its tokens were")
	}
	return nil
}

// decode is an episode about a question.
func (m *Model) decode(q chat.Prompt, clips *chat.Videos, said model.EncodedEpisode) (*rollout.Episode, error) {
	var c wireEpisode
	if err := json.Unmarshal(said.Text, &c); err != nil {
		return nil, err
	}
	if c.Transcript == nil || len(c.Pictures) != len(c.Transcript.Shots) {
		return nil, errors.New("an episode without a transcript, or with another number of pictures")
	}
	e := &rollout.Episode{Transcript: c.Transcript, Texts: c.Texts, Entropy: c.Entropy, Noise: c.Noise, Given: c.Given, Stem: c.Stem, Worth: c.Worth, Videos: clips}
	if c.Lost != "" {
		e.Lost = errors.New(c.Lost)
	}
	var err error
	if e.Album, err = remakeAlbum(q, clips, c.Pictures, said.Pictures); err != nil {
		return nil, err
	}
	var places []int
	for i, p := range e.Album.Pictures {
		if c.Noise == nil && p.Hash() != c.Transcript.Shots[i].Hash {
			return nil, fmt.Errorf("picture %d has other pixels here than in the transcript", i+1)
		}
		g, err := m.VLM.Processor.Grid(p.Width, p.Height)
		if err != nil {
			return nil, fmt.Errorf("picture %d: %w", i+1, err)
		}
		places = append(places, g.Tokens(m.VLM.Processor.Merge))
	}
	vocabulary := int32(m.VLM.Model.Text.Vocabulary)
	for _, id := range e.Tokens {
		if id < 0 || id >= vocabulary {
			return nil, fmt.Errorf("token %d, of a vocabulary of %d", id, vocabulary)
		}
	}
	return e, e.Check(m.VLM.Marks.Picture, places)
}

// remakeAlbum is the album of a question, with the pictures of tools.
func remakeAlbum(q chat.Prompt, clips *chat.Videos, pictures []wirePicture, brings []*vision.Image) (*tools.Album, error) {
	a := tools.NewAlbum(q.Pictures...)
	a.Clip = clips.ToolFrames()
	for i, p := range pictures {
		switch {
		case (p.From == nil) != (i < len(q.Pictures)):
			return nil, fmt.Errorf("picture %d: the question has %d, and a tool's have an operation", i+1, len(q.Pictures))
		case p.From == nil:
		case unmakeable(p.From):
			if len(brings) == 0 {
				return nil, fmt.Errorf("picture %d was not sent", i+1)
			}
			a.Add(brings[0], p.From)
			brings = brings[1:]
		default:
			image, err := p.From.Make(a)
			if err != nil {
				return nil, fmt.Errorf("picture %d, made again: %w", i+1, err)
			}
			a.Add(image, p.From)
		}
		a.Show(i, p.Shown[0], p.Shown[1])
	}
	if len(pictures) < len(q.Pictures) || len(brings) > 0 {
		return nil, errors.New("pictures are missing, or nobody shows them")
	}
	return a, nil
}
