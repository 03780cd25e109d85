package toolserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: environments, tools that have a state ([[episode.tool]] state = true). An episode has a name of its own, under
// which its state is kept; an environment gets a request where it begins, and returns a reward at its end:
//
//	{"version": 1, "tool": "game", "episode": "3.17.2-41", "reset": {"prompt": "...", "seed": 8231, "meta": {...}}}  {}
//	{"version": 1, "tool": "game", "episode": "3.17.2-41", "call": 1, "arguments": {...}}            as of every tool
//	{"version": 1, "tool": "game", "episode": "3.17.2-41", "end": true, "reply": "..."}              {"reward": 0.5}
//
// meta is the prompt's, where the list gives it any, and reply is the model's last turn. The seed follows from the
// run's and the sample's: an environment that draws does so again in a run that goes on. A request that is sent again
// has the number of its call: an environment that has answered it answers the same, and does not act twice. A program
// has one copy, which keeps the states of all episodes: where it is stopped, all that had begun are missing, since a
// new copy knows none of them. Any other failure makes the episode missing.

// An Episode is one episode, as environments know it.
type Episode struct {
	Name, Prompt string
	Seed         int
	Meta         any // of the prompt, as pytext.OrderedJSON reads it; nil: the list gives it none
}

// reset tells an environment that the episode begins, once.
func (c *Session) reset(name string) error {
	if c.started[name] != nil {
		return nil
	}
	c.started[name] = new(int)
	reset := pytext.Ordered{Keys: []string{"prompt", "seed"}, Values: pytext.Object{"prompt": c.of.Prompt, "seed": pytext.NewInt(c.of.Seed)}}
	if c.of.Meta != nil {
		reset.Keys = append(reset.Keys, "meta")
		reset.Values["meta"] = c.of.Meta
	}
	var r struct {
		Error string `json:"error"`
	}
	if err := c.notify(name, []string{"reset"}, pytext.Object{"reset": reset}, &r); err != nil {
		return err
	}
	if r.Error != "" {
		return fmt.Errorf("the episode cannot begin: %s", shortened(r.Error))
	}
	return nil
}

// End asks every environment for the episode's reward, after the model's last turn reply. Where one fails, or another
// tool has, the episode is lost: the other environments that have begun it get its end, and their results then do not
// count.
func (c *Session) End(reply string) (worth map[string]float64) {
	if c == nil {
		return nil
	}
	ends, over := []string{"end", "reply"}, pytext.Object{"end": true, "reply": reply}
	for _, name := range slices.Sorted(maps.Keys(c.tools)) {
		if !c.tools[name].State {
			continue
		}
		if c.err != nil {
			if c.started[name] != nil && name != c.by {
				_ = c.notify(name, ends, over, &struct{}{}) // the episode is lost already
			}
			continue
		}
		var r struct {
			Reward *float64 `json:"reward"`
			Error  string   `json:"error"`
		}
		err := c.reset(name)
		if err == nil {
			err = c.notify(name, ends, over, &r)
		}
		switch {
		case err != nil:
		case r.Error != "":
			err = fmt.Errorf("the episode cannot end: %s", shortened(r.Error))
		case r.Reward != nil && (math.IsNaN(*r.Reward) || math.IsInf(*r.Reward, 0)):
			err = fmt.Errorf("the reward is %v", *r.Reward)
		case r.Reward != nil:
			if worth == nil {
				worth = map[string]float64{}
			}
			worth[name] = *r.Reward
		}
		if err != nil {
			c.err, c.by = fmt.Errorf("tool %s: %w", name, err), name
			worth = nil
		}
	}
	return worth
}

// notify sends an environment a message other than a call, keys in their order, and decodes its answer.
func (c *Session) notify(name string, keys []string, values pytext.Object, into any) error {
	s := c.tools[name]
	all := pytext.Ordered{Keys: append([]string{"version", "tool", "episode"}, keys...),
		Values: pytext.Object{"version": pytext.NewInt(1), "tool": s.Name, "episode": c.of.Name}}
	maps.Copy(all.Values, values)
	body := []byte(pytext.Dumps(all))
	read := func(reply []byte) error {
		if err := json.Unmarshal(reply, into); err != nil {
			return fmt.Errorf("the reply is no JSON object: %s", call.Shown(reply))
		}
		return nil
	}
	return s.send(c.ctx, body, c.started[name], read)
}

// header has the key of a server.
func (s *server) header() http.Header {
	h := http.Header{}
	if s.key != "" {
		h.Set("Authorization", "Bearer "+s.key)
	}
	return h
}
