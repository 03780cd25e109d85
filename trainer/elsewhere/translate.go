// Package elsewhere translates files of other programs' settings to an experiment's file: flow_grpo's Python and
// Flow-Factory's YAML (github.com/yifan123/flow_grpo at 9745241, github.com/X-GenGroup/Flow-Factory at a0b2bc5). Start
// with translate.go; programs.go has each program's settings, python.go and yaml.go read the files.
//
//	text, err := elsewhere.Translate("config/grpo.py:pickscore_sd3")
//
// Settings are those of experiment.ElsewhereKeys. One with the same meaning here is written; every other one becomes a
// comment with its reason. Settings that the file lacks are those of a preset.
//
// Invariants (tests): every setting of the file is written or named in a comment; the result is read by package
// experiment.
package elsewhere

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// A setting is one of a file, by its dotted name.
type setting struct {
	name  string
	value any
	at    string // FILE:LINE
}

func (s setting) last() string { return s.name[strings.LastIndexByte(s.name, '.')+1:] }

// A file is another program's.
type file struct {
	program, path, name string
	settings            []setting
	locals              map[string]any // of Python's function
	unread              []string
}

// flat are the settings of a table, to a depth; dicts of rewards stay values.
func flat(t *table, before string) (all []setting) {
	for _, name := range t.names {
		inner, ok := t.of[name].(*table)
		if ok && strings.Count(before, ".") < mostDepth && name != "reward_fn" && name != "rewards" && name != "eval_rewards" {
			all = append(all, flat(inner, before+name+".")...)
			continue
		}
		all = append(all, setting{before + name, t.of[name], t.at[name]})
	}
	return all
}

func (f *file) get(name string) (setting, bool) {
	i := slices.IndexFunc(f.settings, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return f.settings[i], true
}

func (f *file) number(name string, otherwise float64) float64 {
	s, _ := f.get(name)
	if n, ok := number(s.value); ok {
		return n
	}
	return otherwise
}

func (f *file) text(name string) string {
	s, _ := f.get(name)
	text, _ := s.value.(string)
	return text
}

// Translate is the experiment's file of FILE, or of FILE:NAME, a function of it.
func Translate(from string) ([]byte, error) {
	at, name := from, ""
	if _, err := os.Stat(at); err != nil {
		if i := strings.LastIndexByte(from, ':'); i > 0 {
			at, name = from[:i], from[i+1:]
		}
	}
	f, err := read(at, name)
	if err != nil {
		return nil, err
	}
	t := &translation{file: f, done: map[string]bool{}}
	if f.program == "flow_grpo" {
		err = t.flowGRPO()
	} else {
		err = t.flowFactory()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	t.rows()
	return t.write(), nil
}

func read(at, name string) (*file, error) {
	switch filepath.Ext(at) {
	case ".py":
		return readPython(at, name)
	case ".yaml", ".yml":
		text, err := regular.Read(at, mostFile)
		if err != nil {
			return nil, err
		}
		return readYAML(at, string(text))
	}
	return nil, fmt.Errorf("%s: settings of flow_grpo are a .py file, and those of Flow-Factory a .yaml file", at)
}

// A translation is a file on its way.
type translation struct {
	*file
	preset  string
	keys    []string
	values  map[string]any
	rewards []string        // their tables
	notes   []string        // comments
	done    map[string]bool // settings that are written or in a comment
}

// set writes a key.
func (t *translation) set(key string, v any) {
	if t.values == nil {
		t.values = map[string]any{}
	}
	if _, ok := t.values[key]; !ok {
		t.keys = append(t.keys, key)
	}
	t.values[key] = v
}

func (t *translation) note(s setting, why string) {
	t.done[s.name] = true
	t.notes = append(t.notes, fmt.Sprintf("%s = %s: %s", s.name, shown(s.value), why))
}

// by hands a setting to its own translation, if the file has it.
func (t *translation) by(name string, write func(s setting)) {
	if s, ok := t.get(name); ok {
		t.done[name] = true
		write(s)
	}
}

// rows writes settings that elsewhere.toml has without a difference, and notes the rest.
func (t *translation) rows() {
	all := experiment.ElsewhereKeys()
	for _, s := range t.settings {
		if t.done[s.name] {
			continue
		}
		i := slices.IndexFunc(all, func(k experiment.Elsewhere) bool { return k.Program == t.program && k.Name == s.name })
		if i < 0 {
			i = slices.IndexFunc(all, func(k experiment.Elsewhere) bool { return k.Program == t.program && k.Name == s.last() })
		}
		switch _, isNumber := number(s.value); {
		case s.value == nil:
		case s.value == unknown{}:
			t.note(s, "its value is not read")
		case i < 0:
			t.note(s, "no counterpart")
		case all[i].Here == "":
			t.note(s, all[i].Differs)
		case all[i].Differs != "":
			t.note(s, "here "+all[i].Here+": "+all[i].Differs)
		case isNumber && strings.Contains(all[i].Here, "."):
			t.set(all[i].Here, s.value)
		default:
			t.note(s, "here "+all[i].Here)
		}
	}
}

func shown(v any) string { return shownIn(v, 0) }

// shownIn is a value at a depth of lists and tables.
func shownIn(v any, depth int) string {
	if depth > 4 {
		return "?"
	}
	switch v := v.(type) {
	case nil:
		return "none"
	case string:
		return strconv.Quote(line(v))
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text
	case unknown:
		return "?"
	case []any:
		var all []string
		for _, x := range v {
			all = append(all, shownIn(x, depth+1))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case *table:
		var all []string
		for _, name := range v.names {
			all = append(all, name+" = "+shownIn(v.of[name], depth+1))
		}
		return "{ " + strings.Join(all, ", ") + " }"
	}
	return fmt.Sprint(v)
}

// line is a text without control characters, which would end a comment.
func line(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// tables are those of a file, in order.
var tables = []string{"run", "model", "sampler", "rollout", "advantage", "loss", "optim", "evaluate", "checkpoint"}

func (t *translation) write() []byte {
	var b bytes.Buffer
	from := t.path
	if t.name != "" {
		from += ", " + t.name
	}
	fmt.Fprintf(&b, "# Translated from %s: %s\n# Settings that it does not name are those of the preset.\npreset = %q\n", t.program, line(filepath.ToSlash(from)), t.preset)
	for _, name := range tables {
		var lines []string
		for _, key := range t.keys {
			if rest, ok := strings.CutPrefix(key, name+"."); ok {
				lines = append(lines, rest+" = "+shown(t.values[key]))
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n[%s]\n%s\n", name, strings.Join(lines, "\n"))
		}
		if name == "rollout" {
			for _, r := range t.rewards {
				fmt.Fprintf(&b, "\n[[reward]]\n%s", r)
			}
		}
	}
	if len(t.notes)+len(t.unread) > 0 {
		b.WriteString("\n# Not written:\n")
	}
	for _, n := range t.notes {
		fmt.Fprintf(&b, "#   %s\n", line(n))
	}
	for _, n := range t.unread {
		fmt.Fprintf(&b, "#   not read: %s\n", line(n))
	}
	return b.Bytes()
}

// model is the folder of a hub's name.
func (t *translation) model(s setting) {
	name, _ := s.value.(string)
	t.set("model.path", "models/"+path.Base(name))
	if strings.Contains(name, "FLUX") {
		t.set("sampler.guidance_kind", "embedded")
	}
}

// precision is that of the weights.
func (t *translation) precision(s setting) {
	switch s.value {
	case "bf16":
		t.set("model.precision", "bf16")
	case "no":
		t.set("model.precision", "f32")
	default:
		t.note(s, "weights are bf16: kernels compute in bf16 or fp32")
	}
}

// side is a square's, or [height, width].
func (t *translation) side(table string, s setting) {
	switch v := s.value.(type) {
	case int64:
		t.set(table+".width", v)
		t.set(table+".height", v)
	case []any:
		if len(v) == 2 {
			t.set(table+".width", v[1])
			t.set(table+".height", v[0])
		}
	}
}

// spread is whose deviation advantages are divided by.
func (t *translation) spread(s setting) {
	t.set("advantage.estimator", map[bool]string{true: "global", false: "group"}[s.value == true])
}

// kinds are rewards of either program, with the lines of the table here; differs is in a comment.
var kinds = map[string]struct{ lines, differs string }{
	"pickscore":              {"name = \"pickscore\"\npath = \"models/PickScore_v1\"\n", ""},
	"ocr":                    {"name = \"ocr\"\npath = \"tesseract\"\n", "Tesseract reads the words; there PaddleOCR"},
	"video_ocr":              {"name = \"ocr\"\npath = \"tesseract\"\n", "Tesseract reads the words; there PaddleOCR"},
	"geneval":                {"name = \"geneval\"\nurl = \"http://localhost:8080/detect\"\n", "a detector of yours answers at url"},
	"aesthetic":              {"name = \"aesthetic\"\npath = \"models/aesthetic\"\n", ""},
	"imagereward":            {"name = \"imagereward\"\npath = \"models/ImageReward\"\n", ""},
	"clipscore":              {"name = \"clip\"\npath = \"models/clip-vit-large-patch14\"\n", "reward.scaling says whose scale its cosine has"},
	"clip":                   {"name = \"clip\"\npath = \"models/clip-vit-large-patch14\"\n", "reward.scaling says whose scale its cosine has"},
	"jpeg_compressibility":   {"name = \"jpeg\"\nform = \"flow_grpo\"\n", ""},
	"jpeg_incompressibility": {"name = \"jpeg\"\nform = \"incompressibility\"\n", ""},
	"image_similarity":       {"name = \"likeness\"\npath = \"models/dinov2-base\"\n", "DINOv2's likeness to the source; there CLIP's"},
}

// reward adds one; place is the setting that names it.
func (t *translation) reward(place setting, name string, weight float64) {
	k, ok := kinds[strings.NewReplacer("pick_score", "pickscore").Replace(strings.ToLower(name))]
	if !ok {
		t.note(place, "reward "+name+" has no counterpart: 'darkroom list rewards', or a program of yours (name = \"exec\")")
		return
	}
	lines := k.lines
	if weight != 1 {
		lines += "weight = " + shown(weight) + "\n"
	}
	if t.rewards = append(t.rewards, lines); k.differs != "" {
		t.note(place, "reward "+name+": "+k.differs)
	}
}

// rewarded is an error where no reward is translated.
func (t *translation) rewarded() error {
	if len(t.rewards) == 0 {
		return fmt.Errorf("none of its rewards has a counterpart: %s\nhint: write the rest by docs/elsewhere.md, with a reward of yours (docs/own-reward.md)", strings.Join(t.notes, "; "))
	}
	return nil
}
