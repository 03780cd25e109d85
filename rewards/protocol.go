package rewards

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: the protocol of rewards outside. A server is sent JSON by POST, a program a line of the
// same JSON on its standard input; both answer with the like.
//
//	{"protocol": 1, "items": [{"prompt": "a red cup", "meta": {"answer": "red"},
//	  "image": "iVBORw0...",                  a PNG file in base64, or
//	  "frames": ["iVBORw0...", ...], "fps": 8, a clip, or
//	  "sources": ["iVBORw0...", ...],          the pictures it was made of, if any
//	  "turns": [{"text": "I zoom in", "tool": "zoom"}, {"text": "It is red"}]}]}
//
//	{"scores": [{"value": 0.7, "parts": {"colour": 1}, "evidence": [{"what": "read", "text": "x"}]},
//	  0.7,                                    the value alone
//	  {"missing": "the picture is empty"}]}   no score, and why
//
// A program's request begins with a number, {"n": 1, "protocol": 1, ...}, and its reply may carry the
// same (numbered.go): {"n": 1, "scores": [...]}.
//
// There are as many scores as items, in order; a value is a finite number, larger is better. Whatever else is
// answered is a failure: of all items where the reply cannot be read or has another length, else of the item whose
// score it is. A failure is missing, with its reason. Invariants (tests, fuzzing): a request is read back as it was
// sent; no reply panics or makes a number up.

// protocolVersion is the one that is spoken.
const protocolVersion = 1

type request struct {
	Protocol int           `json:"protocol"`
	Items    few[wireItem] `json:"items"`
}

type wireItem struct {
	Prompt  string      `json:"prompt"`
	Meta    Meta        `json:"meta"` // {} without any: item["meta"] is there for all programs
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
		if w.Meta == nil {
			w.Meta = Meta{}
		}
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
	err = call.Alone(reply, &r)
	if err != nil { // Python writes NaN and Infinity, which JSON has not: they spoil one score alone
		err = call.Alone(notANumber.ReplaceAllFunc(reply, func(text []byte) []byte {
			if text[0] == '"' {
				return text
			}
			return slices.Concat([]byte(`"`), text, []byte(`"`))
		}), &r)
	}
	if err != nil {
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

// notANumber is a score that Python writes outside of JSON, or a string, which stays as it is.
var notANumber = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b`)

// Declined is a reward's own word that it has no score. It is an answer: a repeated request has the same result.
type Declined struct{ Why string }

func (d Declined) Error() string { return "it says: " + d.Why }

func decodeScore(raw json.RawMessage) (Score, error) {
	var value float64
	if err := json.Unmarshal(raw, &value); err == nil && string(raw) != "null" {
		return Score{Value: value}, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err == nil && string(raw) != "null" {
		return Score{}, fmt.Errorf("a score is a number, and this is %s", call.Shown(raw))
	}
	var s struct {
		Value    json.RawMessage    `json:"value"`
		Missing  *string            `json:"missing"`
		Parts    map[string]float64 `json:"parts"`
		Evidence []evidence.Reason  `json:"evidence"`
	}
	switch err := json.Unmarshal(raw, &s); {
	case err != nil:
		return Score{}, fmt.Errorf("a score is a number or an object with a value (%w): %s", err, call.Shown(raw))
	case s.Missing != nil:
		return Score{}, Declined{call.Shown([]byte(*s.Missing))}
	case s.Value == nil || string(s.Value) == "null":
		return Score{}, fmt.Errorf("a score has neither a value nor why it is missing: %s", call.Shown(raw))
	}
	if err := json.Unmarshal(s.Value, &value); err != nil {
		return Score{}, fmt.Errorf("a score is a number, and this is %s", call.Shown(s.Value))
	}
	return Score{Value: value, Parts: s.Parts, Evidence: s.Evidence}, nil
}

// How a server reads a request: a sender must not make it hold more than its limits. A PNG of one colour takes a
// thousandth of the bytes that its pixels take, so pixels are limited beside bytes, over the whole request; a list of
// nothings takes more memory than bytes, so lists have a length.

// mostElements is how many items, frames or turns a list of a request holds.
const mostElements = 4096

// few is a list of at most mostElements.
type few[T any] []T

// UnmarshalJSON reads the elements one by one, and stops where there are too many.
func (f *few[T]) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return fmt.Errorf("a list is expected, not %.20s", data)
	}
	list := few[T]{}
	for d.More() {
		if len(list) == mostElements {
			return fmt.Errorf("a list of more than %d: send them in several requests", mostElements)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		list = append(list, one)
	}
	*f = list
	return nil
}

// decodeItems reads a request whose pictures have at most this many pixels together, as long as ctx lasts.
func decodeItems(ctx context.Context, data []byte, pixels int64) ([]Item, error) {
	var r request
	if err := call.Alone(data, &r); err != nil {
		return nil, fmt.Errorf("the request is not of the protocol: %w", err)
	}
	if r.Protocol != protocolVersion {
		return nil, fmt.Errorf("protocol %d is not spoken here, %d is", r.Protocol, protocolVersion)
	}
	items := make([]Item, len(r.Items))
	left := budget{ctx: ctx, all: pixels, left: pixels}
	for i, w := range r.Items {
		var err error
		if items[i], err = w.item(&left); err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
	}
	return items, nil
}

// A budget is the number of pixels that a request's pictures may still have.
type budget struct {
	ctx       context.Context
	all, left int64
}

// picture decodes one within the budget.
func (b *budget) picture(file []byte) (*vision.Image, error) {
	if err := b.ctx.Err(); err != nil {
		return nil, err
	}
	if b.left <= 0 {
		return nil, fmt.Errorf("the request's pictures have more than %d pixels together: send them in several requests", b.all)
	}
	m, err := vision.Decode(file, vision.Limits{Pixels: min(b.left, 1<<25)})
	if err != nil {
		if b.left < 1<<25 {
			err = fmt.Errorf("%w (%d of the request's %d pixels are left)", err, b.left, b.all)
		}
		return nil, err
	}
	b.left -= int64(m.Width) * int64(m.Height)
	return m, nil
}

// frameRate writes frames a second as a fraction.
const frameRate = 1000

func (w wireItem) item(left *budget) (Item, error) {
	item := Item{Prompt: w.Prompt}
	if len(w.Meta) > 0 {
		item.Meta = w.Meta
	}
	var err error
	for _, file := range w.Sources {
		m, err := left.picture(file)
		if err != nil {
			return item, fmt.Errorf("a source: %w", err)
		}
		item.Sources = append(item.Sources, m)
	}
	if w.Image != nil {
		if item.Image, err = left.picture(w.Image); err != nil {
			return item, err
		}
	}
	if w.Frames != nil {
		if item.Clip, err = w.clip(left); err != nil {
			return item, err
		}
	}
	if w.Turns != nil {
		item.Transcript = &Transcript{Turns: w.Turns}
	}
	return item, nil
}

func (w wireItem) clip(left *budget) (*video.Clip, error) {
	clip := &video.Clip{}
	if w.FPS > 0 && w.FPS < 1e5 {
		clip.Rate = video.Rate{Num: int(float64(w.FPS*frameRate) + 0.5), Den: frameRate}
	}
	for i, file := range w.Frames {
		m, err := left.picture(file)
		if err != nil {
			return nil, fmt.Errorf("frame %d: %w", i+1, err)
		}
		if i == 0 {
			clip.Width, clip.Height = m.Width, m.Height
		}
		if m.Width != clip.Width || m.Height != clip.Height {
			return nil, fmt.Errorf("frame %d is %d x %d, the first %d x %d", i+1, m.Width, m.Height, clip.Width, clip.Height)
		}
		clip.Frames = append(clip.Frames, m.Pix)
	}
	return clip, nil
}
