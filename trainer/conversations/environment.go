package conversations

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: environments, tools that have a state ([[episode.tool]] state = true). An episode has a name of its own, under
// which its state is kept; an environment is told where it begins, and at its end says what it was worth:
//
//	{"version": 1, "tool": "game", "episode": "3.17.2-41", "reset": {"prompt": "...", "seed": 8231, "meta": {...}}}  {}
//	{"version": 1, "tool": "game", "episode": "3.17.2-41", "call": 1, "arguments": {...}}            as of every tool
//	{"version": 1, "tool": "game", "episode": "3.17.2-41", "end": true, "reply": "..."}              {"reward": 0.5}
//
// meta is the prompt's, where the list gives it any, and reply is the model's last turn. The seed follows from the
// run's and the sample's: an environment that draws does so again in a run that goes on. A request that is sent again
// has the number of its call: an environment that has answered it answers the same, and does not act twice. A program
// has one copy, which keeps the states of all episodes: where it is stopped, all that had begun are missing, since a
// new copy knows none of them. What else fails makes the episode missing.

// An occasion is one episode, as environments know it.
type occasion struct {
	name, prompt string
	seed         int
	meta         any // of the prompt, as pytext.OrderedJSON reads it; nil: the list gives it none
}

// occasion names an episode. Its number is of this process: evaluations play the same keys again.
func (p *Policy) occasion(k trainer.Key, v *episodeSampler) (occasion, error) {
	if len(p.Served) == 0 {
		return occasion{}, nil
	}
	var meta any
	if v.meta != "" {
		var err error
		if meta, err = pytext.OrderedJSON(v.meta); err != nil {
			return occasion{}, fmt.Errorf("meta of prompt %d: %w", k.Prompt, err)
		}
	}
	seed := int(p.Draws.Of("environment", k).Draw().Uint32() >> 1)
	number := int64(0)
	if p.played != nil {
		number = p.played.Add(1)
	}
	return occasion{fmt.Sprintf("%d.%d.%d-%d", k.Iteration, k.Prompt, k.Sample, number), v.text, seed, meta}, nil
}

// said is what the user says in a question.
func (q Question) said() (text string) {
	for _, m := range q.Messages {
		if m.Role == "user" {
			for _, part := range m.Content {
				text += part.Text
			}
		}
	}
	return text
}

// begin tells an environment that the episode begins, once.
func (c *consulted) begin(name string) error {
	if c.begun[name] != nil {
		return nil
	}
	c.begun[name] = new(int)
	reset := pytext.Ordered{Keys: []string{"prompt", "seed"}, Values: pytext.Object{"prompt": c.of.prompt, "seed": pytext.NewInt(c.of.seed)}}
	if c.of.meta != nil {
		reset.Keys = append(reset.Keys, "meta")
		reset.Values["meta"] = c.of.meta
	}
	var r struct {
		Error string `json:"error"`
	}
	if err := c.tell(name, []string{"reset"}, pytext.Object{"reset": reset}, &r); err != nil {
		return err
	}
	if r.Error != "" {
		return fmt.Errorf("the episode cannot begin: %s", shortened(r.Error))
	}
	return nil
}

// end asks every environment what the episode was worth, of which the model said reply last. Where one fails, or
// another tool has, the episode is lost: the other environments that have begun it hear of its end, and what they say
// then does not count.
func (c *consulted) end(reply string) (worth map[string]float64) {
	if c == nil {
		return nil
	}
	ends, over := []string{"end", "reply"}, pytext.Object{"end": true, "reply": reply}
	for _, name := range slices.Sorted(maps.Keys(c.tools)) {
		if !c.tools[name].State {
			continue
		}
		if c.err != nil {
			if c.begun[name] != nil && name != c.by {
				_ = c.tell(name, ends, over, &struct{}{}) // the episode is lost already
			}
			continue
		}
		var r struct {
			Reward *float64 `json:"reward"`
			Error  string   `json:"error"`
		}
		err := c.begin(name)
		if err == nil {
			err = c.tell(name, ends, over, &r)
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

// tell sends an environment what is no call, keys in their order, and decodes its answer.
func (c *consulted) tell(name string, keys []string, values pytext.Object, into any) error {
	s := c.tools[name]
	all := pytext.Ordered{Keys: append([]string{"version", "tool", "episode"}, keys...),
		Values: pytext.Object{"version": pytext.NewInt(1), "tool": s.Name, "episode": c.of.name}}
	maps.Copy(all.Values, values)
	body := []byte(pytext.Dumps(all))
	read := func(reply []byte) error {
		if err := json.Unmarshal(reply, into); err != nil {
			return fmt.Errorf("the reply is no JSON object: %s", call.Shown(reply))
		}
		return nil
	}
	return s.send(c.ctx, body, c.begun[name], read)
}

// header is what a server is told beside a request.
func (s *served) header() http.Header {
	h := http.Header{}
	if s.key != "" {
		h.Set("Authorization", "Bearer "+s.key)
	}
	return h
}
