package conversations

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Card: episodes that are played by another process (model.Speaking). What travels is the transcript and what the model
// said. Pictures are made again: those of the question from the prompt, a tool's by its operation. Only what a program
// or a server drew travels itself.
//
// Invariants (tests): an episode that came back has all that it had, pictures too; what strangers send is an episode
// about the prompt that was asked, whose places and pictures fit, or it is refused.

// carried is an episode as text.
type carried struct {
	Transcript *tools.Transcript `json:"transcript"`
	Texts      []string          `json:"texts"`
	Entropy    float64           `json:"entropy"`
	Noise      *Noise            `json:"noise,omitempty"`
	Given      int               `json:"given,omitempty"`
	Stem       int               `json:"stem,omitempty"`
	Lost       string            `json:"lost,omitempty"`

	Worth    map[string]float64 `json:"worth,omitempty"` // what environments said
	Pictures []carriedPicture   `json:"pictures,omitempty"`
}

// carriedPicture is one of its pictures.
type carriedPicture struct {
	Shown [2]int    `json:"shown"`          // as the model saw it
	From  *tools.Op `json:"from,omitempty"` // nil: it is the prompt's
}

// brought says of a picture that it cannot be made again.
func brought(from *tools.Op) bool { return from != nil && from.Kind == "program" }

// Values and Take are model.Travelling's.

func (m *Model) Values(w trainer.Weights) ([]safetensors.Tensor, error) {
	return m.learner.Values(w, "")
}
func (m *Model) Take(f *safetensors.File) error { return m.learner.Take(f, "") }

// Say is model.Speaking's.
func (m *Model) Say(s trainer.Sample) (model.Said, error) {
	e := EpisodeOf(s)
	if e == nil {
		return model.Said{}, errors.New("it is no episode")
	}
	c := carried{Transcript: e.Transcript, Texts: e.Texts, Entropy: e.Entropy, Noise: e.Noise, Given: e.Given, Stem: e.Stem, Worth: e.Worth}
	if e.Lost != nil {
		c.Lost = e.Lost.Error()
	}
	var said model.Said
	for _, p := range e.Album.Pictures {
		c.Pictures = append(c.Pictures, carriedPicture{[2]int{p.ShownWidth, p.ShownHeight}, p.From})
		if brought(p.From) {
			said.Pictures = append(said.Pictures, p.Image)
		}
	}
	var err error
	if said.Text, err = json.Marshal(c); err != nil {
		return said, err
	}
	var back carried
	if err := json.Unmarshal(said.Text, &back); err != nil {
		return said, err
	}
	if !reflect.DeepEqual(c, back) {
		return said, errors.New("what was said in it is no text")
	}
	return said, nil
}

// Hear is model.Speaking's.
func (m *Model) Hear(samples []trainer.Sample, said []model.Said) (err error) {
	var q Question
	var clips *films
	for i := range samples {
		k := samples[i].Key
		if i == 0 || samples[i-1].Key.Prompt != k.Prompt || m.control(samples[i-1].Key) != m.control(k) {
			if q, err = m.Ask(k.Prompt); err != nil {
				return fmt.Errorf("prompt %d: %w", k.Prompt, err)
			}
			if clips, err = m.Speaker.shot(q.Clips, m.Films, m.frames(k)); err != nil {
				return fmt.Errorf("prompt %d: %w", k.Prompt, err)
			}
		}
		e, err := m.heard(q, clips, said[i])
		if err == nil {
			err = fits(e, samples[i].Decisions)
		}
		if err != nil {
			return fmt.Errorf("sample %d of prompt %d: %w", k.Sample, k.Prompt, err)
		}
		samples[i].Item.Episode, samples[i].Control = e, clips != nil && m.control(k)
	}
	return nil
}

// fits sees whether decisions are those of an episode.
func fits(e *Episode, d trainer.Decisions) error {
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

// heard is an episode about a question.
func (m *Model) heard(q Question, clips *films, said model.Said) (*Episode, error) {
	var c carried
	if err := json.Unmarshal(said.Text, &c); err != nil {
		return nil, err
	}
	if c.Transcript == nil || len(c.Pictures) != len(c.Transcript.Shots) {
		return nil, errors.New("an episode without a transcript, or with another number of pictures")
	}
	e := &Episode{Transcript: c.Transcript, Texts: c.Texts, Entropy: c.Entropy, Noise: c.Noise, Given: c.Given, Stem: c.Stem, Worth: c.Worth, films: clips}
	if c.Lost != "" {
		e.Lost = errors.New(c.Lost)
	}
	var err error
	if e.Album, err = madeAgain(q, clips, c.Pictures, said.Pictures); err != nil {
		return nil, err
	}
	var places []int
	for i, p := range e.Album.Pictures {
		if c.Noise == nil && p.Hash() != c.Transcript.Shots[i].Hash {
			return nil, fmt.Errorf("picture %d has other pixels here than in the transcript", i+1)
		}
		g, err := m.Speaker.Processor.Grid(p.Width, p.Height)
		if err != nil {
			return nil, fmt.Errorf("picture %d: %w", i+1, err)
		}
		places = append(places, g.Tokens(m.Speaker.Processor.Merge))
	}
	vocabulary := int32(m.Speaker.Model.Text.Vocabulary)
	for _, id := range e.Tokens {
		if id < 0 || id >= vocabulary {
			return nil, fmt.Errorf("token %d, of a vocabulary of %d", id, vocabulary)
		}
	}
	return e, e.Check(m.Speaker.Marks.Picture, places)
}

// madeAgain is the album of a question, and of what tools made.
func madeAgain(q Question, clips *films, pictures []carriedPicture, brings []*vision.Image) (*tools.Album, error) {
	a := tools.NewAlbum(q.Pictures...)
	a.Clip = clips.chosen()
	for i, p := range pictures {
		switch {
		case (p.From == nil) != (i < len(q.Pictures)):
			return nil, fmt.Errorf("picture %d: the question has %d, and a tool's have an operation", i+1, len(q.Pictures))
		case p.From == nil:
		case brought(p.From):
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
