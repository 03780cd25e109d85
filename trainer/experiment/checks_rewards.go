package experiment

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Rewards.

// checkRewards: something to train on, each label once.
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
		e.checkLabel(w, key, seen, r)
		trained = trained || w.Train
		w.check(key, r)
		e.checkKind(w, key, r)
		switch {
		case w.Train && w.Weight == 0 && w.Name != "" && !e.isGate(w.Called()):
			r(key+"weight", "a reward of weight 0 changes nothing", "write train = false to measure it only")
		case w.Name == "http" && w.URL == "":
			r(key+"name", "an http reward needs a url", `for example url = "http://localhost:8080"`)
		case w.Name == "judge" && w.URL == "" && w.Path == "":
			r(key+"name", "a judge needs a url, of an OpenAI-compatible server, or a path, of a Qwen-VL model's folder", `for example url = "http://localhost:8000/v1"`)
		case w.Name == "exec":
			w.checkProgram(key, r)
		case w.KeyEnv != "" && strings.ContainsAny(w.KeyEnv, " =-"):
			r(key+"key_env", "this is not the name of an environment variable", "write the variable's name here, and never the key itself")
		}
	}
	if !trained && !e.AllTaught() {
		r("reward", "all are gold (train = false): there is nothing to train on", "leave train out of one of them")
	}
}

// labels are what a reward may be called: files, monitors and other programs' pages name it so.
var labels = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// checkLabel: each once, and none that means something else.
func (e *Experiment) checkLabel(w Reward, key string, seen map[string]bool, r report) {
	at := key + "label"
	if w.Label == "" {
		at = key + "name"
	}
	switch label := w.Called(); {
	case label == "":
	case w.Label != "" && !labels.MatchString(w.Label):
		r(at, fmt.Sprintf("%q is no label", w.Label), "1 to 64 letters, digits, and - _ . behind the first")
	case label == "total":
		r(at, `"total" is what all rewards make together`, "another label")
	case seen[label]:
		r(at, fmt.Sprintf("%q is there twice", label), `write label = "ANOTHER NAME" into one of them`)
	}
	seen[w.Called()] = true
}

// checkProgram: one program, with words that can be told apart.
func (w *Reward) checkProgram(key string, r report) {
	argv, err := w.Argv()
	switch {
	case w.Path != "" && len(w.Command) > 0:
		r(key+"command", "the program is there twice: path and command", "leave path out")
	case err != nil:
		r(key+"command", fmt.Sprintf("this cannot be split into words: %v", err), `a list says it plainly: command = ["python3", "reward.py"]`)
	case len(argv) == 0 || argv[0] == "":
		r(key+"name", "an exec reward needs a program", `for example command = "python3 reward.py", or path = "./reward"`)
	}
}

// checkKind: what a reward judges is made, and by a network that knows it.
func (e *Experiment) checkKind(w Reward, key string, r report) {
	k, ok := RewardNamed(w.Name)
	subjects, made := w.Judges(), ""
	for _, m := range e.Makes() {
		if !slices.Contains(subjects, m) {
			made = m
		}
	}
	switch {
	case !ok:
	case made != "":
		names := rewardsThat(func(k RewardKind) bool { return slices.Contains(Judges(k.Name.Name), made) })
		r(key+"name", fmt.Sprintf("reward %q judges %s, and this run makes %s", w.Name, strings.Join(subjects, " and "), made), "those that judge "+made+": "+strings.Join(names, ", "))
	case w.unseen() && slices.Contains(e.Makes(), "replies"):
		r(key+"judge.question", "it has neither {answer} nor {conversation}, so that the judge would not see the reply", "put {answer} where the reply is to stand")
	case w.Frames != "" && !slices.Contains(e.Makes(), "clips"):
		r(key+"frames", "only a clip has frames, and this run makes "+strings.Join(e.Makes(), " and "), "leave frames out")
	case w.Toy() != "" && w.Path == "" && !e.embedded():
		r(key+"name", fmt.Sprintf("without path, reward %q is %s", w.Name, w.Toy()), k.remedy)
	}
}

// unseen is a judge whose own question shows no reply.
func (r Reward) unseen() bool {
	o := Filled(r.Judge)
	return r.Name == "judge" && o.Form == "question" && o.Question != "" && !strings.Contains(o.Question, "{answer}") && !strings.Contains(o.Question, "{conversation}")
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
	if e.Advantage.EachReward() && e.Together.Combine != "sum" {
		r("rewards.combine|advantage.combine", fmt.Sprintf("advantages of each reward are added up, and %q is of the scores of a sample", e.Together.Combine), `combine = "rewards" in [advantage], or combine = "sum" in [rewards]`)
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
