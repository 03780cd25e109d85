package rewards

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: the protocol of rewards outside. A server is sent JSON by POST, a program a line of the
// same JSON on its standard input; both answer with the like.
//
//	{"protocol": 1, "items": [{"prompt": "a red cup", "meta": {"answer": "red"},
//	  "image": "iVBORw0...",                  a PNG file in base64, or
//	  "frames": ["iVBORw0...", ...], "fps": 8, a clip, or
//	  "sources": ["iVBORw0...", ...],          what it was made of, where it was made of pictures
//	  "turns": [{"text": "I zoom in", "tool": "zoom"}, {"text": "It is red"}]}]}
//
//	{"scores": [{"value": 0.7, "parts": {"colour": 1}, "evidence": [{"what": "read", "text": "x"}]},
//	  0.7,                                    the value alone
//	  {"missing": "the picture is empty"}]}   no score, and why
//
// A program's request begins with a number, {"n": 1, "protocol": 1, ...}, and its reply may carry the
// same (numbered.go): {"n": 1, "scores": [...]}.
//
// There are as many scores as items, in order; a value is a finite number, larger is better.
// Whatever else is answered is a failure: of all items where the reply cannot be read or has
// another length, else of the item whose score it is. A failure is missing, with its reason.
// Invariants (tests, fuzzing): what is sent is read back; no reply panics or makes a number up.

// protocolVersion is the one that is spoken.
const protocolVersion = 1

type request struct {
	Protocol int           `json:"protocol"`
	Items    few[wireItem] `json:"items"`
}

type wireItem struct {
	Prompt  string      `json:"prompt"`
	Meta    Meta        `json:"meta,omitempty"`
	Sources few[[]byte] `json:"sources,omitempty"`
	Image   []byte      `json:"image,omitempty"`
	Frames  few[[]byte] `json:"frames,omitempty"`
	FPS     float64     `json:"fps,omitempty"`
	Turns   few[Turn]   `json:"turns,omitempty"`
}

// encodeItems writes a request.
func encodeItems(items []Item) ([]byte, error) {
	r := request{Protocol: protocolVersion, Items: make([]wireItem, len(items))}
	for i, item := range items {
		w := wireItem{Prompt: item.Prompt, Meta: item.Meta}
		var err error
		if w.Sources, err = pngsOf(item.Sources); err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		switch {
		case item.Image != nil:
			w.Image, err = pngOf(item.Image)
		case item.Clip != nil:
			w.FPS = item.Clip.Rate.FPS()
			var frames []*vision.Image
			if frames, err = framesOf(item.Clip, 1); err == nil {
				w.Frames, err = pngsOf(frames)
			}
		case item.Transcript != nil:
			w.Turns = item.Transcript.Turns
		}
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		r.Items[i] = w
	}
	return json.Marshal(r)
}

func pngOf(m *vision.Image) ([]byte, error) {
	var b bytes.Buffer
	err := vision.EncodePNG(&b, m)
	return b.Bytes(), err
}

func pngsOf(frames []*vision.Image) (files [][]byte, err error) {
	for _, m := range frames {
		file, err := pngOf(m)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// encodeResults writes a reply.
func encodeResults(results []Result) ([]byte, error) {
	scores := make([]any, len(results))
	for i, r := range results {
		scores[i] = r.Score
		if r.Missing != nil {
			scores[i] = map[string]string{"missing": r.Missing.Error()}
		}
	}
	return json.Marshal(map[string]any{"scores": scores})
}

// decodeResults reads a reply to n items. whole says that no score is missing.
func decodeResults(reply []byte, n int) (results []Result, whole bool, err error) {
	var r struct {
		Scores []json.RawMessage `json:"scores"`
		Error  json.RawMessage   `json:"error"`
	}
	if err := call.Alone(reply, &r); err != nil {
		return nil, false, fmt.Errorf("the reply is no JSON of the protocol (%w): %s", err, call.Shown(reply))
	}
	if r.Scores == nil {
		return nil, false, fmt.Errorf("the reply holds no scores: %s", call.Shown(reply))
	}
	if len(r.Scores) != n {
		return nil, false, fmt.Errorf("the reply holds %d scores for %d items", len(r.Scores), n)
	}
	results, whole = make([]Result, n), true
	for i, raw := range r.Scores {
		results[i] = checked(decodeScore(raw))
		whole = whole && results[i].Missing == nil
	}
	return results, whole, nil
}

// Declined is a reward's own word that it has no score. It is an answer: whoever asks again hears it again.
type Declined struct{ Why string }

func (d Declined) Error() string { return "it says: " + d.Why }

func decodeScore(raw json.RawMessage) (Score, error) {
	var value float64
	if err := json.Unmarshal(raw, &value); err == nil && string(raw) != "null" {
		return Score{Value: value}, nil
	}
	var s struct {
		Value    *float64           `json:"value"`
		Missing  *string            `json:"missing"`
		Parts    map[string]float64 `json:"parts"`
		Evidence []Evidence         `json:"evidence"`
	}
	switch err := json.Unmarshal(raw, &s); {
	case err != nil:
		return Score{}, fmt.Errorf("a score is a number or an object with a value (%w): %s", err, call.Shown(raw))
	case s.Missing != nil:
		return Score{}, Declined{call.Shown([]byte(*s.Missing))}
	case s.Value == nil:
		return Score{}, fmt.Errorf("a score has neither a value nor why it is missing: %s", call.Shown(raw))
	}
	return Score{Value: *s.Value, Parts: s.Parts, Evidence: s.Evidence}, nil
}
