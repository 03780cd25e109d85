package judges

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/rewards/judge"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Reward judge: a model behind an OpenAI-compatible server (url), or in a folder (path).

func openJudge(r experiment.Reward, b Bench) (Opened, error) {
	if r.Path != "" {
		return openLocalJudge(r, b)
	}
	key, err := secret(r)
	if err != nil {
		return Opened{}, err
	}
	chat, o := chat(r, key, b.Cache)
	switch {
	case r.URL == "":
		return Opened{}, fmt.Errorf("url or path is missing: an OpenAI-compatible server, or a Qwen-VL model's folder")
	case o.Form == "vqascore":
		return Opened{}, fmt.Errorf("form vqascore needs path: a server does not tell how likely its answers are")
	}
	if o.Form == "edit_r1" {
		return Opened{judge: rewards.Each(judge.EditChance{Model: chat}, chat.Caller.Policy().AtOnce)}, nil
	}
	return judged(o, chat, chat.Caller.Policy().AtOnce)
}

// openLocalJudge is a folder of Qwen-VL's.
func openLocalJudge(r experiment.Reward, b Bench) (Opened, error) {
	dir, err := folder(r.Path)
	if err != nil {
		return Opened{}, err
	}
	d, err := b.Device()
	if err != nil {
		return Opened{}, err
	}
	chat, o := chat(r, "", nil)
	a, err := vlm.OpenAnswerer(dir, d, o.Template)
	if err != nil {
		return Opened{}, err
	}
	a.Side = chat.Send.Side
	if o.MaxTokens > 0 {
		a.Most = o.MaxTokens
	}
	if o.Form == "edit_r1" {
		return Opened{judge: rewards.Each(judge.EditChance{Model: a}, 1), close: a.Close}, nil
	}
	if o.Form == "vqascore" {
		if o.Side == nil {
			a.Side = 0
		}
		return Opened{judge: rewards.Each(judge.VQAScore{Model: a}, 1), close: a.Close}, nil
	}
	opened, err := judged(o, a, 1)
	if err != nil {
		return Opened{}, errors.Join(err, a.Close())
	}
	opened.close = a.Close
	return opened, nil
}

// judged is the judge of a form that asks m.
func judged(o experiment.JudgeOptions, m judge.Asker, atOnce int) (Opened, error) {
	if o.Compares() {
		return Opened{judge: judge.Pairwise{Model: m, Form: o.Form, Flex: o.Flex, BothOrders: o.BothOrders, AtOnce: atOnce, Rounds: o.Rounds}}, nil
	}
	r, err := asking(o, m)
	return Opened{judge: rewards.Each(r, atOnce)}, err
}

// asking is the reward of a form that judges items one by one.
func asking(o experiment.JudgeOptions, m judge.Asker) (rewards.Reward, error) {
	kind, deepEyes := strings.CutPrefix(o.Form, "deepeyes_")
	switch {
	case deepEyes:
		return judge.DeepEyes{Model: m, Kind: kind}, nil
	case o.Form == "vrag":
		return judge.VRAG(m)
	case o.Form == "editscore":
		return judge.EditScore{Model: m}, nil
	case o.Form == "question":
		q := judge.Question{Model: m, Text: o.Question, Read: o.Read, Looks: o.Looks}
		if rule, ok := answers.Find(o.First, false); ok && o.First != "" {
			q.First = rule.New()
		}
		return q, nil
	}
	return judge.NewPointwise(o.Form, m)
}

// chat is the model that a judge asks.
func chat(r experiment.Reward, key string, cache *call.Cache) (judge.Chat, experiment.JudgeOptions) {
	o := experiment.Filled(r.Judge)
	p := policy(r)
	own := judge.FlowGRPO
	if o.Compares() || o.Form == "unified" || strings.HasPrefix(o.Form, "edit") {
		own = judge.PrefGRPO
		pref := judge.PrefPolicy()
		pref.Timeout = p.Timeout
		p = pref
	}
	if o.Tries > 0 {
		p.Tries = o.Tries
	}
	if o.AtOnce > 0 {
		p.AtOnce = o.AtOnce
	}
	if r.Timeout <= 0 {
		p.Timeout = time.Minute
	}
	c := own(r.URL, call.NewCaller(p, cache))
	c.Key = key
	if o.Model != "" {
		c.Model = o.Model
	}
	if o.Temperature != nil {
		delete(c.Extra, "do_sample")
		c.Extra["temperature"] = *o.Temperature
	}
	if o.MaxTokens > 0 {
		c.Extra["max_tokens"] = o.MaxTokens
	}
	if o.Side != nil {
		c.Send.Side = *o.Side
	}
	switch o.Pictures {
	case "png":
		c.Send.PNG, c.Send.Kind = true, "image/png"
	case "jpeg":
		c.Send.PNG, c.Send.Kind = false, "image/jpeg"
	}
	return c, o
}
