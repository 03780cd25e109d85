package experiment

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/judge"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Reward judge: a model behind an OpenAI-compatible server (url), or in a folder (path).

// checkJudge finds what a judge cannot be.
func (r *Reward) checkJudge(key string, report report) {
	o := filled(r.Judge)
	switch {
	case r.Path != "" && r.URL != "":
		report(key+"path", "the judge is a server (url) and a folder (path)", "leave out one of them")
	case o.Form == "vqascore" && r.URL != "":
		report(key+"judge.form", "a server does not tell how likely its answers are", `write path = "FOLDER" in place of url`)
	case r.Path != "" && o.Temperature != nil && *o.Temperature > 0:
		report(key+"judge.temperature", "a folder answers with what is likeliest, so that a picture's score stays the same", "leave it out")
	}
}

func openJudge(r Reward, b Bench) (Opened, error) {
	if r.Path != "" {
		return openLocalJudge(r, b)
	}
	key, err := r.key()
	if err != nil {
		return Opened{}, err
	}
	chat, o := r.chat(key, b.Cache)
	switch {
	case r.URL == "":
		return Opened{}, fmt.Errorf("url or path is missing: an OpenAI-compatible server, or a Qwen-VL model's folder")
	case o.Form == "vqascore":
		return Opened{}, fmt.Errorf("form vqascore needs path: a server does not tell how likely its answers are")
	}
	return judged(o, chat, chat.Caller.Policy().AtOnce)
}

// openLocalJudge is a folder of Qwen-VL's.
func openLocalJudge(r Reward, b Bench) (Opened, error) {
	dir, err := assets.Resolve(r.Path)
	if err != nil {
		return Opened{}, err
	}
	d, err := b.Device()
	if err != nil {
		return Opened{}, err
	}
	chat, o := r.chat("", nil)
	a, err := vlm.OpenAnswerer(dir, d, o.Template)
	if err != nil {
		return Opened{}, err
	}
	a.Side = chat.Send.Side
	if o.MaxTokens > 0 {
		a.Most = o.MaxTokens
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
func judged(o JudgeOptions, m judge.Asker, atOnce int) (Opened, error) {
	if o.compares() {
		return Opened{judge: judge.Pairwise{Model: m, Form: o.Form, Flex: o.Flex, BothOrders: o.BothOrders, AtOnce: atOnce}}, nil
	}
	p, err := judge.NewPointwise(o.Form, m)
	return Opened{judge: rewards.Each(p, atOnce)}, err
}
