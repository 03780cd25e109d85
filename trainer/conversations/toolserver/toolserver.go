// Package toolserver calls tools of other programs: servers over HTTP, and programs over lines of JSON.
//
// Open opens the tools of an experiment, Begin a Session of one episode, which answers calls.
// environment.go has tools that keep a state and return a reward; pixels.go bounds how many pixels their pictures hold.
package toolserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Card: tools behind a server or a program ([[episode.tool]]). A call is JSON, POSTed or a line that the program reads,
// and the answer is JSON, or a line that it writes:
//
//	{"version": 1, "tool": "search", "arguments": {...}}
//	{"text": "...", "images": ["BASE64 of a PNG or a JPEG", ...]}      or {"error": "..."}, which the model reads
//
//	answers                                   text and pictures for the model
//	refuses ("error", a picture too large)    a refusal for the model, by which it learns
//	is slow, dies, answers 5xx                asked again, up to tries; then the episode is missing
//	lies: no JSON, no text, no picture        the episode is missing; a program is started anew
//
// An episode that is missing has no score of any reward, never 0: it is left out of its group, counted, and too many
// of them end the run as those of a reward do. The same call has the same answer: it is kept by tool and arguments,
// so that a run that goes on reads the same answer as the first one.

// mostText and mostShown are how much of an answer the model may be given.
const (
	maxText     = 1 << 16 // bytes
	maxPictures = 8       // pictures
)

// Tools are an experiment's tools of other programs.
type Tools map[string]*server

// server is one of them.
type server struct {
	experiment.Served
	key      string
	caller   *call.Caller
	programs *call.Programs // nil: a server
	decoders chan struct{}  // of pictures, which all tools of an experiment share
}

// atOnceDecoded is how many replies' pictures are decoded at once: a decoder takes several times the memory of its
// result.
const atOnceDecoded = 2

// Open opens the tools; nothing is asked yet. cache is a folder that runs share; "": nothing is kept.
func Open(e *experiment.Episode, cache string) (Tools, error) {
	all, decoders := Tools{}, make(chan struct{}, atOnceDecoded)
	for _, t := range e.Served {
		s := &server{Served: t, decoders: decoders}
		if t.KeyEnv != "" {
			if s.key = os.Getenv(t.KeyEnv); s.key == "" {
				return nil, fmt.Errorf("tool %s: the environment variable %s, which key_env names, is empty", t.Name, t.KeyEnv)
			}
		}
		var kept *call.Cache
		if cache != "" && t.Cache && !t.State {
			var err error
			if kept, err = call.OpenCache(filepath.Join(filepath.Dir(cache), "tools")); err != nil {
				return nil, err
			}
		}
		atOnce := t.AtOnce
		if t.State && len(t.Command) > 0 {
			atOnce = 1 // one copy has all episodes' states
		}
		s.caller = call.NewCaller(call.Policy{Timeout: time.Duration(t.Timeout * float64(time.Second)), Tries: t.Tries, AtOnce: atOnce}, kept)
		if len(t.Command) > 0 {
			var err error
			if s.programs, err = call.NewPrograms(t.Command, s.caller.Policy().Bytes); err == nil {
				err = s.programs.Pass(t.Env...)
			}
			if err != nil {
				return nil, fmt.Errorf("tool %s: %w", t.Name, err)
			}
		}
		all[t.Name] = s
	}
	return all, nil
}

// Close ends their programs.
func (o Tools) Close() error {
	var errs []error
	for _, s := range o {
		if s.programs != nil {
			errs = append(errs, s.programs.Close())
		}
	}
	return errors.Join(errs...)
}

// Begin is an episode's tools; nil without any.
func (o Tools) Begin(ctx context.Context, of Episode, fits func(w, h int) error, holds *PixelBudget) *Session {
	if len(o) == 0 {
		return nil
	}
	return &Session{ctx: ctx, tools: o, of: of, fits: fits, budget: holds, started: map[string]*int{}}
}

// Session are tools as one episode calls them.
type Session struct {
	ctx     context.Context
	tools   Tools
	of      Episode
	started map[string]*int      // environments that know of the episode, and which copy of a program does
	calls   int                  // of environments
	fits    func(w, h int) error // whether the model can look at such a picture
	budget  *PixelBudget         // of their pictures at full size
	err     error                // the first failure without an answer
	by      string               // whose it is
}

// Answer implements tools.Answerer.
func (c *Session) Answer(name string, arguments pytext.Ordered) (tools.Answer, error) {
	if c.err != nil {
		return tools.Answer{}, c.err
	}
	a, err := c.call(c.tools[name], arguments)
	if err != nil {
		c.err, c.by = fmt.Errorf("tool %s: %w", name, err), name
		return a, c.err
	}
	for _, m := range a.Pictures {
		if err := c.fits(m.Width, m.Height); err != nil {
			return tools.Answer{Refused: fmt.Sprintf("the picture cannot be shown: %v", err)}, nil
		}
	}
	return a, nil
}

// Lost is why nothing can be learned from the episode; nil: it can.
func (c *Session) Lost() error {
	if c == nil {
		return nil
	}
	return c.err
}

func (c *Session) call(s *server, arguments pytext.Ordered) (a tools.Answer, err error) {
	asked := pytext.Ordered{Keys: []string{"version", "tool"}, Values: pytext.Object{"version": pytext.NewInt(1), "tool": s.Name, "arguments": arguments}}
	if s.State {
		if err := c.reset(s.Name); err != nil {
			return a, err
		}
		c.calls++
		asked.Keys = append(asked.Keys, "episode", "call")
		asked.Values["episode"], asked.Values["call"] = c.of.Name, pytext.NewInt(c.calls)
	}
	asked.Keys = append(asked.Keys, "arguments")
	err = s.send(c.ctx, []byte(pytext.Dumps(asked)), c.started[s.Name], func(reply []byte) (err error) {
		a, err = readAnswer(reply, s.decoders, c.budget)
		return err
	})
	return a, err
}

// send sends a request, as often as it takes, and reads its answer.
// copy is that of a program which has a state; nil: any.
func (s *server) send(ctx context.Context, body []byte, copy *int, read func(reply []byte) error) error {
	if copy == nil {
		copy = new(int)
	}
	where := s.URL
	if s.programs != nil {
		where = strings.Join(s.Command, "\x00")
	}
	return s.caller.Do(ctx, append([]byte("tool "+where+"\n"), body...), func(ctx context.Context) ([]byte, error) {
		if s.programs == nil {
			return s.caller.Post(ctx, s.URL, s.header(), body)
		}
		if !s.State {
			return s.programs.Call(ctx, body, read)
		}
		return s.programs.CallCopy(ctx, body, read, copy)
	}, func(reply []byte) (whole bool, err error) {
		err = read(reply)
		return err == nil, err
	})
}

// readAnswer reads a server's answer, as many at once as decoders has room for.
func readAnswer(reply []byte, decoders chan struct{}, holds *PixelBudget) (a tools.Answer, err error) {
	var r struct {
		Text   *string  `json:"text"`
		Images []string `json:"images"`
		Error  *string  `json:"error"`
	}
	if err := json.Unmarshal(reply, &r); err != nil || !utf8.Valid(reply) {
		return a, fmt.Errorf("the reply is no JSON object: %s", call.Shown(reply))
	}
	switch {
	case r.Error != nil && *r.Error != "":
		return tools.Answer{Refused: shortened(*r.Error)}, nil
	case r.Text == nil && len(r.Images) == 0:
		return a, fmt.Errorf("the reply has neither a text nor images: %s", call.Shown(reply))
	case len(r.Images) > maxPictures:
		return a, fmt.Errorf("the reply has %d images, and %d are possible", len(r.Images), maxPictures)
	}
	if r.Text != nil {
		a.Text = shortened(*r.Text)
	}
	files, pixels := make([][]byte, len(r.Images)), 0
	for i, text := range r.Images {
		if _, after, ok := strings.Cut(text, ";base64,"); ok && strings.HasPrefix(text, "data:") {
			text = after
		}
		if files[i], err = base64.StdEncoding.DecodeString(text); err != nil {
			return a, fmt.Errorf("image %d of the reply is no base64: %w", i+1, err)
		}
		w, h, err := vision.SizeOf(files[i])
		if err != nil {
			return a, fmt.Errorf("image %d of the reply: %w", i+1, err)
		}
		if pixels += w * h; pixels > maxReplyPixels {
			return a, fmt.Errorf("the images of the reply have more than %d pixels together, which is the most that a tool may send", maxReplyPixels)
		}
	}
	if len(files) > 0 {
		decoders <- struct{}{}
		defer func() { <-decoders }()
	}
	for i, data := range files {
		m, err := vision.Decode(data, vision.Limits{})
		if err == nil {
			m, err = holds.Hold(m)
		}
		if err != nil {
			return a, fmt.Errorf("image %d of the reply: %w", i+1, err)
		}
		a.Pictures = append(a.Pictures, m)
	}
	return a, nil
}

// shortened is a text that is not too long for a conversation.
func shortened(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + " ..."
}
