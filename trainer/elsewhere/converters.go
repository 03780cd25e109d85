package elsewhere

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Translations of one setting each, by the name behind the key in a row of elsewhere.toml.

var converters = map[string]func(t *translation, s setting, here string){
	"model":     (*translation).model,
	"precision": (*translation).precision,
	"square":    (*translation).square,
	"targets":   (*translation).targets,
	"kl":        (*translation).kl,
	"text": func(t *translation, s setting, here string) {
		if text, ok := s.value.(string); !ok {
			t.note(s, "here "+here)
		} else if text != "" {
			t.set(here, text)
		}
	},
	"number": func(t *translation, s setting, here string) { t.set(here, t.number(s.name, 0)) },
	"truth": func(t *translation, s setting, here string) {
		if on, ok := t.truth(s, here); ok {
			t.set(here, on)
		}
	},
	"lora": func(t *translation, s setting, here string) {
		if on, ok := t.truth(s, here); ok {
			t.set(here, map[bool]string{true: "lora", false: "full"}[on])
		}
	},
	"spread": func(t *translation, s setting, here string) {
		if on, ok := t.truth(s, here); ok {
			t.set(here, map[bool]string{true: "global", false: "group"}[on])
		}
	},
	"grouped": func(t *translation, s setting, here string) {
		if on, ok := t.truth(s, here); ok && !on {
			t.note(s, "without groups: advantages here compare samples of a prompt")
		}
	},
	"combine": func(t *translation, s setting, here string) {
		t.named(s, here, map[string]string{"sum": "rewards", "gdpo": "gdpo"})
	},
	"solver": func(t *translation, s setting, here string) {
		t.named(s, here, map[string]string{
			"cps": "cps", "sde": "flow-sde", "CPS": "cps", "Flow-SDE": "flow-sde", "Dance-SDE": "dance",
		})
	},
	"ema": func(t *translation, s setting, here string) {
		if on, ok := t.truth(s, here); ok && !on {
			t.set(here, int64(0))
			t.set("evaluate.weights", "current")
		}
	},
	"cfg": func(t *translation, s setting, here string) {
		if on, ok := t.truth(s, here); ok && on == (t.number("sample.guidance_scale", 1) <= 1) {
			t.note(s, "guidance of training is that of sampling: "+here)
		}
	},
	"guided": func(t *translation, s setting, here string) {
		sampled := t.number("sample.guidance_scale", t.number("train.guidance_scale", 0))
		if t.number(s.name, 0) != sampled && filepath.Base(s.at.file) != "base.py" {
			t.note(s, "evaluations have sampler.guidance; "+here+" measures another one beside")
		}
	},
	"beta1": func(t *translation, s setting, here string) {
		t.set(here, []any{t.number(s.name, 0.9), t.number("train.adam_beta2", 0.999)})
	},
	"beta2": func(t *translation, s setting, here string) {
		t.set(here, []any{t.number("train.adam_beta1", 0.9), t.number(s.name, 0.999)})
	},
	"list": func(t *translation, s setting, here string) {
		if numbers(s.value) == nil {
			t.mistake(s, "a list of numbers is needed", "")
			return
		}
		t.set(here, s.value)
	},
	"split": func(t *translation, s setting, here string) {
		n := t.count(s.name, 1)
		t.set(here, int64(n))
		if n > 1 {
			t.set("optim.split", true)
		}
	},
}

// truth is a boolean, or 0 or 1; another value becomes a comment.
func (t *translation) truth(s setting, here string) (on, ok bool) {
	if on, ok = s.value.(bool); ok {
		return on, true
	}
	n, ok := number(s.value)
	if !ok || n != 0 && n != 1 {
		t.note(s, "here "+here+": neither true nor false")
		return false, false
	}
	return n == 1, true
}

// named writes the name here of one there.
func (t *translation) named(s setting, here string, names map[string]string) {
	name, _ := s.value.(string)
	if to, ok := names[name]; ok {
		t.set(here, to)
	} else {
		t.note(s, "here "+here)
	}
}

// published is a model's name on the hub.
var published = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]+$`)

// rooted is whether a path does not depend on a folder.
func rooted(name string) bool {
	return path.IsAbs(filepath.ToSlash(name)) || strings.HasPrefix(name, "~") || len(name) > 2 && name[1] == ':'
}

// model is a folder as it is given, or that of a hub's name.
func (t *translation) model(s setting, here string) {
	name, _ := s.value.(string)
	if name == "" {
		t.mistake(s, "no model", "")
		return
	}
	if strings.Contains(name, "FLUX") {
		t.set("sampler.guidance_kind", "embedded")
	}
	if _, err := os.Stat(name); err != nil && published.MatchString(name) {
		name = "models/" + path.Base(name)
	}
	t.set(here, name)
}

// unread are models of either program whose networks are not read here, by a part of their names.
var unread = []string{"bagel", "ltx", "flux.2-dev", "hunyuan", "sana", "cosmos", "wan2_v2v"}

// reads is whether a model is read here, which is said early.
func (t *translation) reads(names ...string) bool {
	for _, name := range names {
		s, _ := t.get(name)
		text, _ := s.value.(string)
		for _, part := range unread {
			if strings.Contains(strings.ToLower(text), part) {
				t.mistake(s, "no model that is read here", "'darkroom list families' has those that are")
				return false
			}
		}
	}
	return true
}

// precision is that of the weights.
func (t *translation) precision(s setting, here string) {
	switch s.value {
	case "bf16":
		t.set(here, "bf16")
	case "no":
		t.set(here, "f32")
	default:
		t.note(s, "weights are bf16: kernels compute in bf16 or fp32")
	}
}

// square is a side of one, or [height, width].
func (t *translation) square(s setting, here string) {
	table := strings.TrimSuffix(here, ".width")
	switch v := s.value.(type) {
	case int64, float64:
		t.set(here, v)
		t.set(table+".height", v)
	case []any:
		if pair := numbers(v); len(pair) == 2 {
			t.set(here, pair[1])
			t.set(table+".height", pair[0])
			return
		}
		t.mistake(s, "[height, width] is needed", "")
	default:
		t.mistake(s, "a side, or [height, width], is needed", "")
	}
}

// targets are a network's layers.
func (t *translation) targets(s setting, here string) {
	if list, ok := s.value.([]any); ok {
		for _, x := range list {
			if _, ok := x.(string); !ok {
				t.mistake(s, "a list of layers' names is needed", "")
				return
			}
		}
		t.set(here, list)
	} else if s.value != "default" {
		t.note(s, "layers are named one by one: "+here)
	}
}

// kl is where the distance to the reference is measured.
func (t *translation) kl(s setting, here string) {
	if t.number("train.kl_beta", 0) != 0 {
		t.named(s, here, map[string]string{"v-based": "velocity", "x-based": "mean"})
	}
}
