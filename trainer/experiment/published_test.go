package experiment

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/darkroom-rl/darkroom/assets"
)

// TestPublished: every preset and every recipe has the numbers of its source, or says why not.
func TestPublished(t *testing.T) {
	sums := [3]int{}
	hold := func(name string, text []byte, e *Experiment, p Published, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
			return
		}
		for _, wrong := range publishedProblems(t, e, p) {
			t.Errorf("%s: %s", name, wrong)
		}
		unread := slices.ContainsFunc(p.Sources, func(s Source) bool { return s.Unread != "" })
		own := 0
		for _, key := range settingsOf(t, text) {
			switch _, ok := p.number(key); {
			case !ok && unread: // the file says why
				own++
			case !ok:
				t.Errorf("%s sets %s, which has no number of a source", name, key)
			}
		}
		gone, err := e.departures(p, true)
		if err != nil {
			t.Fatal(err)
		}
		differ := 0
		for _, d := range gone {
			if d.Value != "" {
				differ++
			}
		}
		t.Logf("%-32s %3d settings as published, %2d that differ, %2d that no key has, %2d of a source that could not be read", name, len(p.keys())-differ, differ, len(gone)-differ, own)
		for i, n := range []int{len(p.keys()) - differ, differ, len(gone) - differ} {
			sums[i] += n
		}
	}
	for _, p := range Presets() {
		published, err := p.Published()
		hold("preset "+p.Name.Name, []byte(p.Text), withPreset(t, p), published, err)
		if strings.Contains(p.Card, "for tokens") != published.Episode {
			t.Errorf("%s: its card is %q, and episode is %v", p.Name.Name, p.Card, published.Episode)
		}
	}
	for _, name := range assets.Recipes() {
		text, err := assets.Recipe(name)
		if err != nil {
			t.Fatal(err)
		}
		published, err := PublishedRecipe(name)
		hold("recipe "+name, text, parse(t, string(text)), published, err)
	}
	t.Logf("%d settings as published, %d that differ with a reason, %d differences that no key has", sums[0], sums[1], sums[2])
}

// commitOf is a commit as sources have it.
var commitOf = regexp.MustCompile(`^[0-9a-f]{7,8}$`)

// publishedProblems are the mistakes in the numbers of a source.
func publishedProblems(t *testing.T, e *Experiment, p Published) (wrong []string) {
	t.Helper()
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	all, err := e.settings()
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Sources) == 0 {
		say("no source")
	}
	named := map[string]bool{}
	for _, s := range p.Sources {
		switch {
		case s.Repository == "" && s.Paper == "":
			say("a source has neither a repository nor a paper")
		case s.Repository != "" && !commitOf.MatchString(s.Commit) && s.Unread == "":
			say("%s has no commit", s.Repository)
		case s.Repository != "" && s.File == "" && s.Unread == "":
			say("%s names no file", s.Repository)
		}
		for _, n := range s.Numbers {
			if named[n.Key] = true; n.Key == "" || n.Value == nil {
				say("a number of %s lacks its key or its value", s.Where())
			}
			if n.Here == "" && !slices.ContainsFunc(p.Differs, func(d Difference) bool { return d.What == n.Key }) {
				say("%s has no key here, and no difference says why", n.Key)
			}
		}
	}
	for _, key := range p.keys() {
		n, _ := p.number(key)
		got, reason := valueAt(all, key), p.reason(key)
		switch same := sameValue(got, n.wanted()); {
		case !same && reason == "":
			say("%s is %s, and %s of the source is %s (%s)", key, shown(got), n.Key, shown(n.Value), shown(n.wanted()))
		case same && reason != "":
			say("%s is said to differ, and is as published: %s", key, shown(got))
		}
	}
	for _, d := range p.Differs {
		switch _, ok := p.number(d.Here); {
		case d.Reason == "" || (d.Here == "") == (d.What == ""):
			say("a difference needs a reason, and a key here or what it is: %+v", d)
		case d.Here != "" && !ok:
			say("%s is said to differ from a number that is not there", d.Here)
		}
	}
	return wrong
}

// apartFromNumbers are keys that name the user's files and servers.
var apartFromNumbers = []string{"preset", "run.name", "run.memory", "run.device", "model.path", "rollout.prompts", "evaluate.prompts", "rollout.lessons"}

// settingsOf are the keys that a text sets, but for names of files, rewards and monitors.
func settingsOf(t *testing.T, text []byte) (keys []string) {
	t.Helper()
	all := map[string]any{}
	if err := toml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if table, ok := v.(map[string]any); ok {
			for k, inner := range table {
				walk(strings.TrimPrefix(path+"."+k, "."), inner)
			}
			return
		}
		if !slices.Contains(apartFromNumbers, path) && path != "reward" && path != "monitor" {
			keys = append(keys, path)
		}
	}
	walk("", all)
	slices.Sort(keys)
	return keys
}

// TestPublishedProblems: a different number without a reason is found, and so is a departure that is not one.
func TestPublishedProblems(t *testing.T) {
	source := func(numbers ...Setting) []Source {
		return []Source{{Repository: "somebody/something", Commit: "0123abc", File: "config.py", Numbers: numbers}}
	}
	steps, rate := Setting{Key: "num_steps", Value: int64(10), Here: "sampler.steps"}, Setting{Key: "lr", Value: 1e-4, Here: "optim.lr"}
	alone := Setting{Key: "sft", Value: 0.2}
	for _, c := range []struct {
		name string
		p    Published
		want string
	}{
		{"as published", Published{Sources: source(steps)}, ""},
		{"another word", Published{Sources: source(Setting{Key: "steps", Value: "ten", Here: "sampler.steps", Is: int64(10)})}, ""},
		{"a number without a reason", Published{Sources: source(rate)}, "optim.lr is 0.0003"},
		{"with a reason", Published{Sources: source(rate), Differs: []Difference{{Here: "optim.lr", Reason: "why"}}}, ""},
		{"a difference that is none", Published{Sources: source(steps), Differs: []Difference{{Here: "sampler.steps", Reason: "why"}}}, "is as published"},
		{"a difference of nothing", Published{Sources: source(steps), Differs: []Difference{{Here: "optim.lr", Reason: "why"}}}, "not there"},
		{"no reason", Published{Sources: source(rate), Differs: []Difference{{Here: "optim.lr"}}}, "needs a reason"},
		{"no key here", Published{Sources: source(alone)}, "sft has no key here"},
		{"no key here, with a reason", Published{Sources: source(alone), Differs: []Difference{{What: "sft", Reason: "why"}}}, ""},
		{"no source", Published{}, "no source"},
		{"no commit", Published{Sources: []Source{{Repository: "somebody/something", File: "config.py"}}}, "no commit"},
	} {
		said := strings.Join(publishedProblems(t, parse(t, least), c.p), "; ")
		if (c.want == "") != (said == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, want %q", c.name, said, c.want)
		}
	}
}

// TestPasses: where a source trains on each sample once, the passes of training are samples times the steps that it is
// trained at times the outputs of guidance.
func TestPasses(t *testing.T) {
	for name, each := range map[string]struct{ steps, outputs float64 }{
		"flow_grpo":      {9, 2},  // int(10 * 0.99)
		"flow_grpo_fast": {2, 2},  // sde_window_size
		"cps":            {3, 1},  // sde_window_size, without guidance
		"grpo_guard":     {9, 2},  // int(10 * 0.99)
		"gardo":          {9, 2},  // int(10 * 0.99)
		"flow_grpo_wan":  {19, 2}, // int(20 * 0.99)
		"flash_grpo":     {1, 2},  // one step of a prompt
		"flow_dppo":      {3, 1},  // num_sde_steps
		"nft":            {9, 1},  // int(10 * 0.99) of its times
		"awm":            {6, 1},  // train_timesteps
		"ddpo":           {50, 2}, // all
	} {
		e := withPreset(t, presetNamed(t, name))
		p, err := e.Plan()
		if err != nil {
			t.Fatal(err)
		}
		c := p.Stages[0].Counts
		if want := c.Samples * each.steps * each.outputs; c.Train != want || c.Backward != want {
			t.Errorf("%s: %v passes forward and %v backward for %v samples, want %v", name, c.Train, c.Backward, c.Samples, want)
		}
		if name != "awm" && name != "nft" && name != "flash_grpo" && e.Optim.Updates == 1 {
			t.Errorf("%s makes one update, in which its ratio is 1", name)
		}
	}
}

func presetNamed(t *testing.T, name string) Preset {
	t.Helper()
	for _, p := range Presets() {
		if p.Name.Name == name {
			return p
		}
	}
	t.Fatalf("no preset %s", name)
	return Preset{}
}
