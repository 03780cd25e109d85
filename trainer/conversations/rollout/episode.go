package rollout

import (
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// An Episode is a conversation as it was. It is a trainer.Episode.
type Episode struct {
	*tools.Transcript
	Album *tools.Album // its pictures, the prompt's first
	Texts []string     // the model's texts, a turn each

	// Entropy is of the distributions that its tokens were drawn from, added up, in nats.
	Entropy float64

	// Noise is of an episode that was played with distorted pictures (NoisyRollout); Album has the
	// clean ones. nil: it was not.
	Noise *Noise

	Given int // tokens that were not drawn: the beginning of a solution (guided.go), or turns of another (trees.go)
	Stem  int // turns of another episode that it begins with

	Videos *chat.Videos // its clips; nil without any

	// Good is of an answer that somebody judged (lessons/preferences.go).
	Good bool

	// Worth has the environments' rewards, by their names.
	Worth map[string]float64

	// Lost is why nothing can be learned from it: a tool outside failed (package toolserver). nil: it can.
	Lost error
}

// Noise is the distortion of an episode's pictures, and the log-probabilities of its tokens without it.
type Noise struct {
	Step    int
	LogProb []float64 // of the decisions, by the weights that rolled, on the clean pictures
}

// EpisodeOf is a sample's; nil where it has none of this package.
func EpisodeOf(s trainer.Sample) *Episode {
	e, _ := s.Item.Episode.(*Episode)
	return e
}

// Begins is where the answer begins in the sequence.
func (e *Episode) Begins() int { return e.Prompt }

// Length is the answer's, with observations.
func (e *Episode) Length() int { return len(e.Response()) }

// Chosen are the places of the tokens that the model chose.
func (e *Episode) Chosen() (places []int) {
	for at, on := range e.Sampled {
		if on {
			places = append(places, at)
		}
	}
	return places
}

// Drawn is the log-probability of a token in the distribution that it was drawn from.
func (e *Episode) Drawn(place int) float64 { return e.LogProb[place] }

// RewardTranscript is a conversation as rewards read it.
func RewardTranscript(e *Episode) *rewards.Transcript {
	t := &rewards.Transcript{Worth: e.Worth, Lost: e.Lost}
	for i, turn := range e.Turns {
		one := rewards.Turn{}
		if i < len(e.Texts) {
			one.Text = e.Texts[i]
		}
		for _, c := range turn.Calls {
			if one.Tool == "" {
				one.Tool = c.Tool
			}
			t.Failed = c.Refused != ""
		}
		if len(turn.Calls) > 0 && one.Tool == "" {
			one.Tool = "unreadable"
		}
		t.Turns = append(t.Turns, one)
	}
	for at, on := range e.Sampled {
		if on {
			t.Tokens = append(t.Tokens, int(e.Tokens[at]))
		}
	}
	if e.Album != nil {
		for _, p := range e.Album.Pictures {
			t.Shown = append(t.Shown, p.Image)
		}
	}
	for _, s := range e.Shots {
		if s.Turn < 0 {
			if t.Width == 0 {
				t.Width, t.Height = s.Width, s.Height
			}
			continue
		}
		t.Pictures++
		if s.Root >= 0 {
			t.Crops = append(t.Crops, rewards.Crop{Picture: s.Root, Box: boxes.Box(s.Box)})
		}
	}
	return t
}

// Demonstrated is how an episode ends that was not drawn.
const Demonstrated tools.End = "told"
