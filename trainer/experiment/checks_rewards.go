package experiment

import (
	"fmt"
	"slices"
	"strings"
)

// Rewards.

// checkRewards: something to train on, each name once.
func (e *Experiment) checkRewards(r report) {
	if len(e.Rewards) == 0 {
		if !e.written("reward") {
			r("reward", "there is none: nothing says which picture is better", "write [[reward]] with a name, such as \"aesthetic\"")
		}
		return
	}
	seen := map[string]bool{}
	trained := false
	for i, w := range e.Rewards {
		key := fmt.Sprintf("reward[%d].", i)
		if seen[w.Name] && w.Name != "" {
			r(key+"name", fmt.Sprintf("%q is there twice", w.Name), "one [[reward]] with the sum of both weights")
		}
		seen[w.Name] = true
		trained = trained || w.Train
		w.check(key, r)
		e.checkKind(w, key, r)
		switch {
		case w.Train && w.Weight == 0 && w.Name != "" && !e.isGate(w.Name):
			r(key+"weight", "a reward of weight 0 changes nothing", "write train = false to measure it only")
		case w.Name == "http" && w.URL == "":
			r(key+"name", "an http reward needs a url", `for example url = "http://localhost:8080"`)
		case w.Name == "judge" && w.URL == "" && w.Path == "":
			r(key+"name", "a judge needs a url, of an OpenAI-compatible server, or a path, of a Qwen-VL model's folder", `for example url = "http://localhost:8000/v1"`)
		case w.Name == "exec" && w.Path == "":
			r(key+"name", "an exec reward needs the path of a program", "")
		case w.KeyEnv != "" && strings.ContainsAny(w.KeyEnv, " =-"):
			r(key+"key_env", "this is not the name of an environment variable", "write the variable's name here, and never the key itself")
		}
	}
	if !trained {
		r("reward", "all are gold (train = false): there is nothing to train on", "leave train out of one of them")
	}
}

// checkKind: what a reward judges is made, and by a network that knows it.
func (e *Experiment) checkKind(w Reward, key string, r report) {
	k, ok := RewardNamed(w.Name)
	made := "pictures"
	if e.Episode != nil {
		made = "replies"
	}
	switch subjects := w.Judges(); {
	case !ok:
	case !slices.Contains(subjects, made):
		names := rewardsThat(func(k RewardKind) bool { return e.Episode == nil && k.Pictures || e.Episode != nil && k.Replies })
		r(key+"name", fmt.Sprintf("reward %q judges %s, and this run makes %s", w.Name, strings.Join(subjects, " and "), made), "those that judge "+made+": "+strings.Join(names, ", "))
	case w.Toy() != "" && w.Path == "" && !e.embedded():
		r(key+"name", fmt.Sprintf("without path, reward %q is %s", w.Name, w.Toy()), k.remedy)
	}
}

// embedded reports whether the model is one of the program's own, or none is named.
func (e *Experiment) embedded() bool {
	return strings.HasPrefix(e.Model.Path, embedPrefix) || strings.TrimSpace(e.Model.Path) == ""
}

// isGate says whether another reward waits for this one.
func (e *Experiment) isGate(name string) bool {
	return slices.ContainsFunc(e.Rewards, func(w Reward) bool { return w.Train && w.Gate.By == name })
}

// checkCombination: scales, gates and shares of the rewards that are trained.
func (e *Experiment) checkCombination(r report) {
	var place []int // of each part
	for i, w := range e.Rewards {
		if w.Train {
			place = append(place, i)
		}
	}
	e.Combination().Check(func(key, problem, hint string) {
		if key == "shares" {
			r("advantage.shares", problem, hint)
			return
		}
		for part, i := range place {
			if before := fmt.Sprintf("parts[%d].", part); strings.HasPrefix(key, before) {
				if strings.HasSuffix(key, "gate.by") && hint == "" {
					hint = "one that is trained on, with weight = 0 if it is a gate alone"
				}
				r(strings.ReplaceAll(key, before, fmt.Sprintf("reward[%d].", i)), problem, hint)
			}
		}
	})
}
