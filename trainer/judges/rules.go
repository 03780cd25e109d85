package judges

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Rewards of replies: rules, tools that were used, repetition, length.

// openRule is a rule about replies.
func openRule(r experiment.Reward, _ Bench) (Opened, error) {
	rule, err := ruled(r, r.Name == "format")
	if err != nil {
		return Opened{}, err
	}
	return Opened{judge: rewards.Each(rule, atOnce)}, nil
}

func openTools(r experiment.Reward, _ Bench) (Opened, error) {
	rule, err := ruled(r, false)
	if err != nil {
		return Opened{}, err
	}
	return Opened{judge: answers.DefaultCuriosity().Judge(rule, atOnce)}, nil
}

func openRepetition(r experiment.Reward, _ Bench) (Opened, error) {
	return Opened{judge: rewards.Each(experiment.Filled(r.Repetition), atOnce)}, nil
}

func openMiniO3(r experiment.Reward, _ Bench) (Opened, error) {
	return Opened{judge: rewards.Each(experiment.Filled(r.MiniO3), atOnce)}, nil
}

func openLength(r experiment.Reward, _ Bench) (Opened, error) {
	rule, err := ruled(r, false)
	if err != nil {
		return Opened{}, err
	}
	return Opened{judge: rewards.Each(experiment.Filled(r.Length).Reward(rule), atOnce)}, nil
}

// ruled is the rule that the reward names.
func ruled(r experiment.Reward, form bool) (rewards.Reward, error) {
	if len(r.Rules) > 0 {
		return byDomain(r)
	}
	rule, ok := answers.Find(r.Rule, form)
	if !ok {
		return nil, fmt.Errorf("no rule is called %q", r.Rule)
	}
	return rule.New(), nil
}

// byDomain is the rules that the reward names for domains, and the one for all others.
func byDomain(r experiment.Reward) (rewards.Reward, error) {
	d := answers.Domains{Rules: map[string]rewards.Reward{}}
	for domain, name := range r.Rules {
		rule, ok := answers.Find(name, false)
		if !ok {
			return nil, fmt.Errorf("no rule is called %q", name)
		}
		d.Rules[domain] = rule.New()
	}
	if rule, ok := answers.Find(r.Rule, false); ok && r.Rule != "" {
		d.Other = rule.New()
	}
	return d, nil
}

// embedded is the CLIP of rewards that may go without a folder of their own.
const embedded = assets.Prefix + "tiny-clip"
