package engine

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/vision"
)

// Options say where an engine listens, and how it is asked.
type Options struct {
	Kind    string // vllm or sglang
	URL     string
	Model   string // of vllm: the name of the model itself
	Key     string
	Timeout time.Duration
	Tries   int
	AtOnce  int
}

// A Picture is one of a request's.
type Picture struct {
	Hash   string
	Image  *vision.Image
	Places int // tokens that it takes
}

// A Request is a sequence whose continuation is sampled.
type Request struct {
	IDs         []int32 // with all of a picture's places
	Short       []int32 // with one
	Pictures    []Picture
	Place       int32 // the token of a place
	Most        int   // tokens that may be drawn
	Temperature float64
	End         int32 // of a turn
	Banned      []int // tokens that must not be drawn
	Vocabulary  int
	Adapter     string // "": the model itself
	Score       bool   // the sequence's own log-probabilities are asked for, too
}

// A Completion is the engine's answer.
type Completion struct {
	IDs      []int32
	LogProbs []float64
	Cut      bool // it was stopped by its length

	read     int       // tokens of the question that the engine read; below 0: it does not say
	adapter  string    // that it answered with; "": it does not say
	Version  string    // of the weights, as the engine calls them; "": it does not say
	Scores   []float64 // of the question's tokens; NaN for one without
	ScoreIDs []int32   // which tokens these are of; below 0: it does not say
}

// A Refusal says why an answer is not believed. It does not stand for a failure of the network or of a busy server.
type Refusal struct{ Kind, Why string }

func (r *Refusal) Error() string { return r.Why }

// Kinds of refusals.
const (
	WrongIDs     = "wrong ids"           // tokens that cannot be
	LostPictures = "dropped pictures"    // places that the engine did not read
	Stale        = "stale weights"       // another version than was asked for
	TooMany      = "too many tokens"     // than were asked for
	Unreadable   = "unreadable answer"   // no answer of the protocol
	NoLogProbs   = "log-probabilities"   // missing, above 0 or no numbers
	OtherNumbers = "other probabilities" // than the trainer's network has
)

// Refuse makes a refusal.
func Refuse(kind, format string, args ...any) error {
	return &Refusal{kind, fmt.Sprintf(kind+": "+format, args...)}
}

// Refused is the kind of a refusal; "" for other errors.
func Refused(err error) string {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Kind
	}
	return ""
}

// protocol is the API of one kind of engine.
type protocol interface {
	generate(ctx context.Context, q Request) (Completion, error)
	load(ctx context.Context, name, dir string) error
	unload(ctx context.Context, name string) error
	forget() // pictures
}

// An Engine is one server.
type Engine struct {
	Options
	protocol
	At     string // the URL without a password, for messages
	caller *call.Caller
}

// Open is an engine; nothing is asked yet.
func Open(o Options) (*Engine, error) {
	e := &Engine{Options: o}
	e.URL = strings.TrimSuffix(strings.TrimSuffix(o.URL, "/"), "/v1")
	u, err := url.Parse(e.URL)
	if err != nil {
		return nil, errors.New("the engine's URL is no address of a server: one is http://localhost:8000")
	}
	e.At = u.Redacted()
	e.caller = call.NewCaller(call.Policy{Timeout: o.Timeout, Tries: o.Tries, AtOnce: o.AtOnce, Bytes: 1 << 28}, nil)
	switch o.Kind {
	case "vllm":
		e.protocol = &vllm{e: e, seen: map[string]*feature{}}
	case "sglang":
		e.protocol = &sglang{e}
	default:
		return nil, fmt.Errorf("engine %q is not known: vllm and sglang are", o.Kind)
	}
	return e, nil
}

// Load gives the engine an adapter, by the folder's path.
func (e *Engine) Load(ctx context.Context, name, dir string) error {
	if err := e.load(ctx, name, dir); err != nil {
		return fmt.Errorf("the engine at %s does not load the adapter %s from %s: %w", e.At, name, dir, err)
	}
	return nil
}

// Unload takes an adapter away.
func (e *Engine) Unload(ctx context.Context, name string) error { return e.unload(ctx, name) }

// Forget drops cached pictures.
func (e *Engine) Forget() { e.forget() }

// Generate has a continuation drawn, and checks it.
func (e *Engine) Generate(ctx context.Context, q Request) (Completion, error) {
	a, err := e.generate(ctx, q)
	if err == nil {
		err = q.check(a)
	}
	if err != nil {
		return a, fmt.Errorf("the engine at %s: %w", e.At, err)
	}
	return a, nil
}

// check refuses answers that cannot be.
func (q Request) check(a Completion) error {
	if a.adapter != "" && q.Adapter != "" && a.adapter != q.Adapter {
		return Refuse(Stale, "it answers by %q, and was asked for %q", a.adapter, q.Adapter)
	}
	if a.read >= 0 && a.read != len(q.IDs) {
		if missing := len(q.IDs) - a.read; len(q.Pictures) > 0 && missing > 0 {
			return Refuse(LostPictures, "it read %d tokens of %d, and %d pictures have %d places: what it did not read are pictures", a.read, len(q.IDs), len(q.Pictures), q.places())
		}
		return Refuse(WrongIDs, "it read %d tokens, and was given %d", a.read, len(q.IDs))
	}
	switch {
	case len(a.IDs) != len(a.LogProbs):
		return Refuse(NoLogProbs, "%d tokens have %d log-probabilities", len(a.IDs), len(a.LogProbs))
	case len(a.IDs) > q.Most:
		return Refuse(TooMany, "%d, where at most %d were asked for", len(a.IDs), q.Most)
	case len(a.IDs) == 0:
		return Refuse(Unreadable, "no token was drawn")
	}
	for i, id := range a.IDs {
		if id < 0 || int(id) >= q.Vocabulary {
			return Refuse(WrongIDs, "token %d was drawn, of a vocabulary of %d", id, q.Vocabulary)
		}
		for _, banned := range q.Banned {
			if int(id) == banned {
				return Refuse(WrongIDs, "token %d was drawn, which is banned: it has no text, or stands for a picture or a turn", id)
			}
		}
		if id == q.End && i+1 < len(a.IDs) {
			return Refuse(TooMany, "the turn ends at token %d of %d, and the answer goes on", i+1, len(a.IDs))
		}
		if lp := a.LogProbs[i]; math.IsNaN(lp) || math.IsInf(lp, 0) || lp > 1e-3 {
			return Refuse(NoLogProbs, "that of token %d is %v", i+1, lp)
		}
	}
	if last := a.IDs[len(a.IDs)-1]; !a.Cut && last != q.End {
		return Refuse(Unreadable, "it stopped behind token %d, which ends no turn, before its limit", last)
	}
	if q.Score {
		return q.checkScores(a)
	}
	return nil
}

// checkScores holds the tokens that scores are of against the request's.
func (q Request) checkScores(a Completion) error {
	if len(a.Scores) != len(q.IDs) {
		return Refuse(WrongIDs, "it scores %d tokens of a question of %d", len(a.Scores), len(q.IDs))
	}
	for i, id := range a.ScoreIDs {
		if id >= 0 && q.IDs[i] != q.Place && id != q.IDs[i] {
			return Refuse(WrongIDs, "token %d of the question is %d there and %d here: its tokenizer is another, or it reads the text anew", i+1, id, q.IDs[i])
		}
	}
	return nil
}

// Scored are the places of words that have a score, behind the first picture, or, without one, behind the first
// token.
func (q Request) Scored(a Completion) (at []int) {
	seen := len(q.Pictures) == 0
	for i, id := range q.IDs {
		if id == q.Place {
			seen = true
		} else if seen && i > 0 && q.IDs[i-1] != q.Place && !math.IsNaN(a.Scores[i]) {
			at = append(at, i)
		}
	}
	return at
}

// places are all pictures' together.
func (q Request) places() (n int) {
	for _, p := range q.Pictures {
		n += p.Places
	}
	return n
}

// post sends JSON and decodes the answer.
func (e *Engine) post(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return e.caller.Do(ctx, text, func(ctx context.Context) ([]byte, error) {
		h := http.Header{}
		if e.Key != "" {
			h.Set("Authorization", "Bearer "+e.Key)
		}
		return e.caller.Post(ctx, e.URL+path, h, text)
	}, func(reply []byte) (whole bool, err error) {
		if into == nil {
			return true, nil
		}
		if err := json.Unmarshal(reply, into); err != nil {
			return false, Refuse(Unreadable, "%s answers %s", path, call.Shown(reply))
		}
		return true, nil
	})
}

// address is a picture as a data URL.
func (p Picture) address() (string, error) {
	var file bytes.Buffer
	if err := vision.EncodePNG(&file, p.Image); err != nil {
		return "", err
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(file.Bytes()), nil
}

// bias keeps banned tokens from being drawn, as both protocols write it.
func (q Request) bias() map[string]float64 {
	out := map[string]float64{}
	for _, id := range q.Banned {
		out[fmt.Sprint(id)] = -100
	}
	return out
}
