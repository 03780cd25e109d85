package tools

import (
	"errors"
	"fmt"
)

// An End says why an episode ended.
type End string

const (
	Answered     End = "answered"     // with an answer
	NoCall       End = "no_call"      // with neither an answer nor a call
	Cut          End = "cut"          // the model was stopped in the middle of a turn
	Refused      End = "refused"      // a call was refused, by a protocol that ends there
	Empty        End = "empty"        // the model wrote nothing
	Spent        End = "tokens"       // no room for more tokens
	Dropped      End = "dropped"      // an observation found no room, and was left out whole
	Turns        End = "turns"        // no turns left
	Observations End = "observations" // no observations left
	Pictures     End = "pictures"     // no pictures left
	Pixels       End = "pixels"       // no pixels left
	Unsound      End = "unsound"      // an observation has not as many pictures as places for them
)

// A Transcript is an episode as it was: tokens as they were sampled, never tokenised again,
// since text encodes to other tokens than those that were drawn. The slices over tokens have one
// length; the prompt comes first.
type Transcript struct {
	Protocol string  `json:"protocol"`
	Tokens   []int32 `json:"tokens"`
	Prompt   int     `json:"prompt"`  // how many tokens are the prompt's
	Sampled  []bool  `json:"sampled"` // drawn by the model: only these are ever trained on
	// LogProb is of the distribution that was sampled from (temperature, top-p and all);
	// ModelLogProb of the model itself. 0 where nothing was sampled.
	LogProb      []float64 `json:"log_prob"`
	ModelLogProb []float64 `json:"model_log_prob,omitempty"`
	Reward       []float64 `json:"reward"` // the environment's, on the last token of a turn
	Turns        []Turn    `json:"turns"`
	Shots        []Shot    `json:"pictures"`
	End          End       `json:"end"`
	Over         bool      `json:"over"` // the model still asked for a tool when a limit ended it
	Answer       string    `json:"answer,omitempty"`
	Calls        int       `json:"calls"`   // turns that asked for a tool and were let go on
	Answers      int       `json:"answers"` // observations that the model read
	// Defused is the number of special tokens in a model's or a program's text that goes back to it, where they
	// became plain text (defuse.go).
	Defused int `json:"defused,omitempty"`
}

// A Turn is one answer of the model, and its observation. Ranges are of Tokens.
type Turn struct {
	From     int         `json:"from"`
	To       int         `json:"to"`       // sampled: From to To
	Observed int         `json:"observed"` // the observation: To to Observed
	Calls    []CallTaken `json:"calls,omitempty"`
	Rewards  []float64   `json:"rewards,omitempty"` // of each call
}

// A CallTaken is a call in the books.
type CallTaken struct {
	Tool    string `json:"tool"`
	Ops     []Op   `json:"ops,omitempty"`
	Refused Kind   `json:"refused,omitempty"`
	Message string `json:"message,omitempty"`
}

// A Shot is a picture in the books.
type Shot struct {
	Hash        string `json:"hash"`
	Width       int    `json:"width"`
	Height      int    `json:"height"`
	ShownWidth  int    `json:"shown_width"`
	ShownHeight int    `json:"shown_height"`
	Turn        int    `json:"turn"`           // the turn whose observation shows it; -1: the prompt
	From        *Op    `json:"from,omitempty"` // how it was made
	// Root and Box: which picture of the prompt it lies in, and where, in pixels of that picture
	// at full size. Root is -1 where there is no such rectangle.
	Root int `json:"root"`
	Box  Box `json:"box"`
}

// shots are the books of an album's pictures from one on.
func (a *Album) shots(first, turn int) []Shot {
	var all []Shot
	for i := first; i < len(a.Pictures); i++ {
		p := a.Pictures[i]
		s := Shot{Hash: p.Hash(), Width: p.Width, Height: p.Height, ShownWidth: p.ShownWidth, ShownHeight: p.ShownHeight, Turn: turn, From: p.From, Root: -1}
		if root, b, ok := a.ToRoot(i, Box{0, 0, float64(p.Width), float64(p.Height)}); ok {
			s.Root, s.Box = root, b
		}
		all = append(all, s)
	}
	return all
}

// Response is the tokens after the prompt.
func (t *Transcript) Response() []int32 { return t.Tokens[t.Prompt:] }

// ToolCalls is how many calls were made, and how many of them were refused.
func (t *Transcript) ToolCalls() (made, refused int) {
	for _, turn := range t.Turns {
		for _, c := range turn.Calls {
			made++
			if c.Refused != "" {
				refused++
			}
		}
	}
	return made, refused
}

// Check checks the invariants of a transcript: a transcript that was read from a file, or whose pictures and places
// differ, must not be trained on. pad is the id of a picture's place and pads how many of them each picture has; nil:
// that is not checked.
func (t *Transcript) Check(pad int32, pads []int) error {
	n := len(t.Tokens)
	if len(t.Sampled) != n || len(t.LogProb) != n || len(t.Reward) != n || t.ModelLogProb != nil && len(t.ModelLogProb) != n {
		return errors.New("transcript: its slices over tokens have several lengths")
	}
	if t.Prompt < 0 || t.Prompt > n {
		return fmt.Errorf("transcript: a prompt of %d in %d tokens", t.Prompt, n)
	}
	at := t.Prompt
	for i, turn := range t.Turns {
		if turn.From != at || turn.To < turn.From || turn.Observed < turn.To || turn.Observed > n {
			return fmt.Errorf("transcript: turn %d does not follow the one before", i)
		}
		for k := turn.From; k < turn.Observed; k++ {
			if t.Sampled[k] != (k < turn.To) {
				return fmt.Errorf("transcript: token %d of turn %d is marked wrongly", k, i)
			}
		}
		at = turn.Observed
	}
	for k, on := range t.Sampled {
		switch {
		case on && (k < t.Prompt || k >= at):
			return fmt.Errorf("transcript: token %d is marked as sampled, and is of no turn", k)
		case on && pads != nil && t.Tokens[k] == pad:
			return fmt.Errorf("transcript: token %d is a picture's place, and was sampled", k)
		case !on && t.LogProb[k] != 0:
			return fmt.Errorf("transcript: token %d was not sampled, and has a log-probability", k)
		}
	}
	if at != n {
		return fmt.Errorf("transcript: turns end at token %d of %d", at, n)
	}
	if pads == nil {
		return nil
	}
	return t.checkPads(pad, pads)
}

func (t *Transcript) checkPads(pad int32, pads []int) error {
	places, want := 0, 0
	for _, id := range t.Tokens {
		if id == pad {
			places++
		}
	}
	for _, n := range pads {
		want += n
	}
	if len(pads) != len(t.Shots) || places != want {
		return fmt.Errorf("transcript: %d places for %d pictures, which take %d", places, len(t.Shots), want)
	}
	return nil
}
