// Package elsewhere translates files of other programs' settings to an experiment's file: flow_grpo's Python and
// Flow-Factory's YAML (github.com/yifan123/flow_grpo at 9745241, github.com/X-GenGroup/Flow-Factory at a0b2bc5). Start
// with translate.go; converters.go translates one setting by its row of elsewhere.toml, programs.go several together;
// python.go, lines.go and yaml.go read the files.
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
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// A setting is one of a file, by its dotted name.
type setting struct {
	name  string
	value any
	at    place
}

func (s setting) last() string { return s.name[strings.LastIndexByte(s.name, '.')+1:] }

// A file is another program's.
type file struct {
	program, path, name string
	at                  place // where it begins
	settings            []setting
	cards               any // gpu_number of Python's function
	unread              []string
}

const mostSettings = 10000

// flat adds the settings of a table, which lies inside of others; dicts of rewards stay values.
func flat(all []setting, t *table, before string, outer ...*table) ([]setting, error) {
	outer = append(outer, t)
	for _, name := range t.names {
		inner, ok := t.of[name].(*table)
		switch at := t.at[name]; {
		case slices.Contains(outer, inner):
			return nil, at.mistake(before+name+" is a table inside of itself", "")
		case len(outer) > mostDepth:
			return nil, at.mistake(fmt.Sprintf("tables of more than %d levels", mostDepth), "")
		case len(all) == mostSettings:
			return nil, at.mistake(fmt.Sprintf("more than %d settings", mostSettings), "")
		case ok && !slices.Contains([]string{"reward_fn", "rewards", "eval_rewards"}, name):
			var err error
			if all, err = flat(all, inner, before+name+".", outer...); err != nil {
				return nil, err
			}
		default:
			all = append(all, setting{before + name, t.of[name], at})
		}
	}
	return all, nil
}

func (f *file) get(name string) (setting, bool) {
	i := slices.IndexFunc(f.settings, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return f.settings[i], true
}

func (f *file) text(name string) string {
	s, _ := f.get(name)
	text, _ := s.value.(string)
	return text
}

// identifier matches NAME of FILE:NAME.
var identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// Translate is the experiment's file of FILE, or of FILE:NAME, a function of it.
func Translate(from string) ([]byte, error) {
	at, name := from, ""
	if _, err := os.Stat(at); err != nil {
		i := strings.LastIndexByte(from, ':')
		if i > 0 && identifier.MatchString(from[i+1:]) && filepath.Ext(from[:i]) != "" {
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
		return nil, err
	}
	t.rows()
	t.rewarded()
	if t.wrong != nil {
		return nil, t.wrong
	}
	text := t.write()
	return text, t.readable(text)
}

// readable is nil, or mistakes of written settings. Missing keys are in comments.
func (t *translation) readable(text []byte) error {
	_, err := experiment.Parse("translation", text, nil)
	var all config.Mistakes
	if !errors.As(err, &all) {
		return err
	}
	lines := strings.Split(string(text), "\n")
	for _, m := range all {
		if m.Line > 0 && m.Line <= len(lines) && !strings.HasPrefix(lines[m.Line-1], "[") {
			var here config.Mistakes
			errors.As(t.at.mistake("translated: "+lines[m.Line-1]+": "+m.Problem, m.Hint), &here)
			t.wrong = append(t.wrong, here...)
		}
	}
	if t.wrong != nil {
		return t.wrong
	}
	return nil
}

func read(at, name string) (*file, error) {
	switch filepath.Ext(at) {
	case ".py":
		return readPython(at, name)
	case ".yaml", ".yml":
		if name != "" {
			return nil, fmt.Errorf("%s:%s: a file of Flow-Factory has no functions\nhint: %s alone", at, name, at)
		}
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
	wrong   config.Mistakes
}

// mistake is a setting's.
func (t *translation) mistake(s setting, problem, hint string) {
	var m config.Mistakes
	errors.As(s.at.mistake(s.name+" = "+shown(s.value)+": "+problem, hint), &m)
	if !slices.Contains(t.wrong, m[0]) {
		t.wrong = append(t.wrong, m...)
	}
}

// number is that of a setting, or the one that is there without it.
func (t *translation) number(name string, otherwise float64) float64 {
	s, _ := t.get(name)
	if s.value == nil || s.value == any(unknown{}) {
		return otherwise
	}
	n, ok := number(s.value)
	if !ok {
		t.mistake(s, "no number", "")
		return otherwise
	}
	return n
}

// count is a number of things.
func (t *translation) count(name string, otherwise float64) float64 {
	n := t.number(name, otherwise)
	if n >= 1 && n <= 1e6 && n == math.Trunc(n) {
		return n
	}
	s, _ := t.get(name)
	t.mistake(s, "a whole number from 1 to 1,000,000 is needed", "")
	return 1
}

// takes marks settings as translated together; false, with comments, where one's value is unknown.
func (t *translation) takes(names ...string) bool {
	known := true
	for _, name := range names {
		t.by(name, func(setting) {})
		s, _ := t.get(name)
		known = known && s.value != any(unknown{})
	}
	return known
}

// set writes a key. Whole numbers are written as such: 20 / 2 is 10.0 in Python, which no count here is.
func (t *translation) set(key string, v any) {
	if x, ok := v.(float64); ok && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		v = int64(x)
	}
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
	s, ok := t.get(name)
	switch {
	case !ok || t.done[name]:
	case s.value == any(unknown{}):
		t.note(s, "its value is not read")
	default:
		t.done[name] = true
		write(s)
	}
}

// rows writes settings by their rows of elsewhere.toml, and notes the rest.
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
		case s.value == any(unknown{}):
			t.note(s, "its value is not read")
		case i < 0:
			t.note(s, "no counterpart")
		case all[i].By != "":
			converters[all[i].By](t, s, all[i].Here)
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

func shown(v any) string {
	left := mostSettings
	return shownIn(v, 0, &left)
}

// shownIn is a value at a depth of lists and tables, with at most *left values.
func shownIn(v any, depth int, left *int) string {
	if *left--; depth > 4 || *left < 0 {
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
			if *left >= 0 {
				all = append(all, shownIn(x, depth+1, left))
			}
		}
		return "[" + strings.Join(all, ", ") + "]"
	case *table:
		var all []string
		for _, name := range v.names {
			if *left >= 0 {
				all = append(all, name+" = "+shownIn(v.of[name], depth+1, left))
			}
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
	fmt.Fprintf(&b, "# Translated from %s: %s\n", t.program, line(filepath.ToSlash(from)))
	fmt.Fprintf(&b, "# Settings that it does not name are those of the preset.\npreset = %q\n", t.preset)
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

// A kind is a reward.
type kind struct{ lines, differs string }

// kinds are rewards of either program, with the lines of the table here; differs is in a comment.
var kinds = map[string]kind{
	"pickscore": {lines: "name = \"pickscore\"\npath = \"models/PickScore_v1\"\n"},
	"ocr":       tesseract,
	"video_ocr": tesseract,
	"geneval": {"name = \"geneval\"\nurl = \"http://localhost:8080/detect\"\n",
		"a detector of yours answers at url"},
	"aesthetic":              {lines: "name = \"aesthetic\"\npath = \"models/aesthetic\"\n"},
	"imagereward":            {lines: "name = \"imagereward\"\npath = \"models/ImageReward\"\n"},
	"clipscore":              cosine,
	"clip":                   cosine,
	"jpeg_compressibility":   {lines: "name = \"jpeg\"\njpeg.form = \"flow_grpo\"\n"},
	"jpeg_incompressibility": {lines: "name = \"jpeg\"\njpeg.form = \"incompressibility\"\n"},
	"image_similarity": {"name = \"likeness\"\npath = \"models/dinov2-base\"\n",
		"DINOv2's likeness to the source; there CLIP's"},
}

var (
	tesseract = kind{"name = \"ocr\"\npath = \"tesseract\"\n",
		"Tesseract reads the words; there PaddleOCR"}
	cosine = kind{"name = \"clip\"\npath = \"models/clip-vit-large-patch14\"\n",
		"reward.scaling says whose scale its cosine has"}
)

// reward adds one; place is the setting that names it.
func (t *translation) reward(place setting, name string, weight any) {
	n, ok := number(weight)
	if !ok {
		place.name, place.value = place.name+"."+name, weight
		t.mistake(place, "a weight is a number", "")
		return
	}
	k, ok := kinds[strings.NewReplacer("pick_score", "pickscore").Replace(strings.ToLower(name))]
	if !ok {
		t.note(place, "reward "+name+" has no counterpart: 'darkroom list rewards', or a program of yours (name = \"exec\")")
		return
	}
	lines := k.lines
	if strings.HasPrefix(lines, `name = "ocr"`) {
		lines += "ocr.formula = \"" + strings.ReplaceAll(strings.ToLower(t.program), "-", "_") + "\"\n"
	}
	if n != 1 {
		lines += "weight = " + shown(n) + "\n"
	}
	if t.rewards = append(t.rewards, lines); k.differs != "" {
		t.note(place, "reward "+name+": "+k.differs)
	}
}

// rewarded is a mistake where no reward is translated.
func (t *translation) rewarded() {
	if len(t.rewards) > 0 || t.wrong != nil {
		return
	}
	at := t.at
	for _, name := range []string{"reward_fn", "rewards"} {
		if s, ok := t.get(name); ok {
			at = s.at
		}
	}
	errors.As(at.mistake("none of its rewards has a counterpart: "+strings.Join(t.notes, "; "),
		"write the rest by docs/elsewhere.md, with a reward of yours (docs/own-reward.md)"), &t.wrong)
}
