package experiment

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer/config"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/tools/program"
)

// What becomes of [episode].

// checkEpisode looks at its tables where its values are right.
func (e *Experiment) checkEpisode(doc *config.Document) {
	p := e.Episode
	if p == nil || !doc.Clean("episode") {
		return
	}
	e.checkServed(doc.Report)
	e.checkEngine(doc.Report)
	if p.Overlong != nil {
		p.Overlong.Check(under("episode.overlong", doc.Report))
	}
	p.Clips.check(doc.Report)
	p.Sampling.Check(under("episode.sampling", doc.Report))
	if n := p.Noisy; n != nil && doc.Clean("rollout") {
		if seen := n.Of(e.Rollout.Group); seen < 1 || seen >= e.Rollout.Group {
			doc.Report("episode.noisy.share", fmt.Sprintf("of a group of %d, %d see distorted pictures: some must, and some must not", e.Rollout.Group, seen), "0.5 of a group of 12 is published")
		}
	}
	if doc.Clean("rollout") {
		e.checkShuffled(doc.Report)
		e.checkGuided(doc.Report)
		e.checkStems(doc.Report)
	}
	protocol, err := tools.Named(p.Protocol)
	if err != nil {
		doc.Report("episode.protocol", err.Error(), "")
		return
	}
	switch r := under("episode.exec", doc.Report); {
	case p.Exec != nil && !protocol.Code:
		doc.Report("episode.exec", fmt.Sprintf("no tool of %s is a program", p.Protocol), `leave it out, or write protocol = "pyvision"`)
	case p.Exec != nil:
		p.Exec.Check(r)
	case protocol.Code:
		doc.Report("episode.protocol", "a tool of "+p.Protocol+" runs the model's code, and nothing says how: nothing is run that [episode.exec] does not name", "under [episode.exec], "+program.Example)
	}
	if _, err := p.Play(); err != nil {
		doc.Report("episode.tools", err.Error(), "leave it out: all tools of the protocol may be called then")
	}
	if protocol.In == nil && p.Frame != "shown" {
		doc.Report("episode.frame", fmt.Sprintf("%s's boxes have a frame of their own", p.Protocol), `leave it out, or write protocol = "darkroom"`)
	}
}

// Of is the episode of a prompt: one whose meta.protocol names another protocol than the file has that one's tools, all
// of them, in that one's frame.
func (e *Episode) Of(p prompts.Prompt) (*Episode, error) {
	raw, ok := p.Meta.Get("protocol")
	if !ok {
		return e, nil
	}
	own := *e
	if err := json.Unmarshal(raw, &own.Protocol); err != nil {
		return nil, fmt.Errorf("meta.protocol is %s: the name of a protocol was expected", raw)
	}
	if own.Protocol == e.Protocol {
		return e, nil
	}
	protocol, err := tools.Named(own.Protocol)
	if err != nil {
		return &own, err
	}
	if own.Tools = nil; protocol.In == nil {
		own.Frame = "shown"
	}
	if protocol.Code && own.Exec == nil {
		return nil, fmt.Errorf("meta.protocol is %q, a tool of which runs the model's code, and nothing says how\nhint: under [episode.exec], %s", own.Protocol, program.Example)
	}
	_, err = own.Play()
	return &own, err
}

// Play is the protocol with the tools that may be called.
func (e *Episode) Play() (*tools.Protocol, error) {
	p, err := tools.Named(e.Protocol)
	if err != nil {
		return nil, err
	}
	if p.In != nil {
		p = p.In(tools.Frame(e.Frame))
	}
	p.Strict = e.Exec != nil && e.Exec.Errors == "end"
	for _, s := range e.Served {
		if p.Open { // others have tools of their own, which ask those outside
			p = p.With(s.tool())
		}
	}
	if len(e.Tools) == 0 {
		return p, nil
	}
	var kept []tools.Tool
	for _, name := range e.Tools {
		n := len(kept)
		for _, t := range p.Tools {
			if t.Name == name {
				kept = append(kept, t)
			}
		}
		for _, t := range p.Tools {
			if n == len(kept) && strings.Contains(t.Name, name) {
				kept = append(kept, t)
			}
		}
		if n == len(kept) {
			var all []string
			for _, t := range p.Tools {
				all = append(all, t.Name)
			}
			return nil, fmt.Errorf("%s has no tool %q; it has %s", e.Protocol, name, strings.Join(all, ", "))
		}
	}
	p.Tools = kept
	return p, nil
}

// Instructions are those that a model of such a path reads: episode.system where that is written, else what the
// protocol says of its tools. Embedded models were made without instructions, and get none.
func (e *Episode) Instructions(model string) (tools.Instructions, error) {
	p, err := e.Play()
	switch {
	case err != nil:
		return tools.Instructions{}, err
	case e.System != nil:
		return tools.Instructions{System: *e.System}, nil
	case strings.HasPrefix(model, "embed:"):
		return tools.Instructions{}, nil
	}
	return p.Instructions(), nil
}

// Limits end an episode. Whether tools act before limits are looked at is the protocol's.
func (e *Episode) Limits() tools.Limits {
	l := tools.Limits{Tokens: e.Tokens, Turns: e.Turns, Pictures: e.Pictures}
	if p, err := tools.Named(e.Protocol); err == nil {
		l.ActFirst = p.Limits.ActFirst
	}
	return l
}
