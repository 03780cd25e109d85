package experiment

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/darkroom-rl/darkroom/assets"
)

// The settings of published systems as data: a preset NAME has presets/published/NAME.toml, a recipe
// assets/recipes/published/NAME.toml. Such a file has each number's place, its value there, and the key of an
// experiment that has it here. Departures are in [[differs]] with their reasons, which plan, list, init and
// docs/coverage.md print.
//
// Invariants (tests): every key that a preset or a recipe sets has a number; it has the published value, or differs
// with a reason; and each declared departure is one.

//go:embed presets/published/*.toml
var publishedFiles embed.FS

// Published is where the numbers of a preset or a recipe are from.
type Published struct {
	Episode bool         `toml:"episode"` // it is of tokens: a file that names it has an [episode]
	Sources []Source     `toml:"source"`
	Differs []Difference `toml:"differs"`
}

// A Source is a file with numbers, or a paper.
type Source struct {
	Repository string `toml:"repository"` // owner/name on GitHub; "": none
	Commit     string `toml:"commit"`
	File       string `toml:"file"`
	Of         string `toml:"of"`     // part of the file, such as a function
	Paper      string `toml:"paper"`  // the numbers are a paper's
	Unread     string `toml:"unread"` // why the code could not be read

	Numbers []Setting `toml:"numbers"`
}

// A Setting is a setting of a source.
type Setting struct {
	Key   string `toml:"key"`   // in the source
	Value any    `toml:"value"` // in the source
	Here  string `toml:"here"`  // key of an experiment's file; "": nothing here is set so
	Is    any    `toml:"is"`    // the key's value for it, where that is another word or a result; "none": nothing
}

// A Difference is a departure from the publication.
type Difference struct {
	Here   string `toml:"here"` // key whose number is another one
	What   string `toml:"what"` // in its place: the source's key without one here, or the system's behaviour
	Reason string `toml:"reason"`
}

// A Departure is a difference with its values.
type Departure struct {
	Key       string `json:"key"`                 // the key here, or the source's name for it
	Value     string `json:"value,omitempty"`     // here
	Published string `json:"published,omitempty"` // in the source
	Reason    string `json:"reason"`
}

func (d Departure) String() string {
	switch {
	case d.Value != "":
		return fmt.Sprintf("%s = %s, published %s: %s", d.Key, d.Value, d.Published, d.Reason)
	case d.Published != "":
		return fmt.Sprintf("%s %s: %s", d.Key, d.Published, d.Reason)
	}
	return fmt.Sprintf("%s: %s", d.Key, d.Reason)
}

// wanted is the number in the words of the key here.
func (n Setting) wanted() any {
	if n.Is != nil {
		return n.Is
	}
	return n.Value
}

// Where is the source for people.
func (s Source) Where() string {
	where := strings.TrimSpace(strings.Join([]string{s.Repository, s.Commit}, " "))
	if s.Paper != "" {
		where = strings.TrimSpace(where + " " + s.Paper)
	}
	if s.File != "" {
		where += ", " + s.File
	}
	if s.Of != "" {
		where += ", " + s.Of
	}
	return where
}

// Published are the settings of the preset's source.
func (p Preset) Published() (Published, error) {
	return readPublished(publishedFiles, "presets/published/"+p.Name.Name+".toml")
}

// PublishedRecipe are the settings of a recipe's source.
func PublishedRecipe(name string) (Published, error) {
	return readPublished(assets.PublishedRecipes(), name+".toml")
}

func readPublished(tree fs.FS, file string) (p Published, err error) {
	text, err := fs.ReadFile(tree, file)
	if err != nil {
		return p, err
	}
	d := toml.NewDecoder(bytes.NewReader(text))
	if err := d.DisallowUnknownFields().Decode(&p); err != nil {
		return p, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// number is the one of a key here, the last that is written.
func (p Published) number(here string) (Setting, bool) {
	for _, s := range slices.Backward(p.Sources) {
		for _, n := range slices.Backward(s.Numbers) {
			if n.Here == here {
				return n, true
			}
		}
	}
	return Setting{}, false
}

// reason is why a key differs; "": nothing is said.
func (p Published) reason(here string) string {
	for _, d := range p.Differs {
		if d.Here == here {
			return d.Reason
		}
	}
	return ""
}

// settings are the resolved file as maps.
func (e *Experiment) settings() (map[string]any, error) {
	var text bytes.Buffer
	if err := e.Write(&text); err != nil {
		return nil, err
	}
	all := map[string]any{}
	return all, toml.Unmarshal(text.Bytes(), &all)
}

// valueAt is the value of a dotted key, in which numbers count lists; nil: it is not set.
func valueAt(all any, key string) any {
	for part := range strings.SplitSeq(key, ".") {
		switch v := all.(type) {
		case map[string]any:
			all = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(v) {
				return nil
			}
			all = v[i]
		default:
			return nil
		}
	}
	return all
}

// sameValue compares two values of TOML; whole numbers are those of floats.
func sameValue(a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == "none" || b == nil && a == "none"
	}
	if x, ok := a.([]any); ok {
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, sameValue)
	}
	if x, ok := asFloat(a); ok {
		y, ok := asFloat(b)
		return ok && x == y
	}
	return reflect.DeepEqual(a, b)
}

func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// shown is a value for people.
func shown(v any) string {
	if v == nil {
		return "none"
	}
	if list, ok := v.([]any); ok {
		var all []string
		for _, x := range list {
			all = append(all, shown(x))
		}
		return strings.Join(all, ", ")
	}
	return fmt.Sprint(v)
}

// Departures are a file's departures from the publication if it asks for the preset and sets nothing else.
func (p Preset) Departures() ([]Departure, error) {
	published, err := p.Published()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("preset = %q\n[run]\nname = \"preset\"\niterations = 1000\n[model]\npath = \"MODEL\"\n[rollout]\nprompts = \"embed:scenes\"\n[[reward]]\nname = \"jpeg\"\n", p.Name.Name)
	if !strings.Contains(p.Text, "[sampler]") {
		text = strings.Replace(text, "embed:scenes", "embed:zoom", 1)
		text = strings.Replace(text, "jpeg", "accuracy", 1) + "[episode]\n"
	}
	e, err := Parse("preset "+p.Name.Name, []byte(text), nil)
	if err != nil {
		return nil, err
	}
	return e.departures(published, true)
}

// RecipeDepartures are a recipe's departures from the publication.
func RecipeDepartures(name string) ([]Departure, error) {
	text, err := assets.Recipe(name)
	if err != nil {
		return nil, err
	}
	e, err := Parse(name+".toml", text, nil)
	if err != nil {
		return nil, err
	}
	p, err := PublishedRecipe(name)
	if err != nil {
		return nil, err
	}
	return e.departures(p, true)
}

// departures are the settings of an experiment that are not those of a source. own says that the file is the source's
// recipe; otherwise a key that the file sets is the file's own choice.
func (e *Experiment) departures(p Published, own bool) ([]Departure, error) {
	all, err := e.settings()
	if err != nil {
		return nil, err
	}
	var out []Departure
	for _, key := range p.keys() {
		n, _ := p.number(key)
		got := valueAt(all, key)
		if sameValue(got, n.wanted()) {
			continue
		}
		d := Departure{Key: key, Value: shown(got), Published: shown(n.wanted()), Reason: p.reason(key)}
		if by := e.Origin(key); !own && (by == "" || by == "--set") || d.Reason == "" {
			d.Reason = "the file's own"
		}
		out = append(out, d)
	}
	return append(out, p.apart()...), nil
}

// keys are those here that have numbers, in the order of the sources.
func (p Published) keys() (keys []string) {
	for _, s := range p.Sources {
		for _, n := range s.Numbers {
			if n.Here != "" && !slices.Contains(keys, n.Here) {
				keys = append(keys, n.Here)
			}
		}
	}
	return keys
}

// A Provenance is a plan's text about a preset or a recipe.
type Provenance struct {
	Of      string      `json:"of"` // "preset flow_grpo"
	Where   []string    `json:"where"`
	Unread  []string    `json:"unread,omitempty"`
	Numbers int         `json:"numbers"` // that have a key here
	Differs []Departure `json:"differs"`
}

// provenance is that of the file's presets, and of the recipe that its run is named after.
func (e *Experiment) provenance() (all []Provenance, err error) {
	var recipe Published
	for _, name := range assets.Recipes() {
		if e.Run.Name == strings.ReplaceAll(name, "_", "-") {
			if recipe, err = PublishedRecipe(name); err != nil {
				return nil, err
			}
			one, err := e.traced("recipe "+name, recipe, true)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	for _, g := range e.given {
		p, err := g.preset.Published()
		if err != nil {
			return nil, err
		}
		one, err := e.traced("preset "+g.preset.Name.Name, p.within(g.table).without(recipe), false)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func (e *Experiment) traced(of string, p Published, own bool) (Provenance, error) {
	one := Provenance{Of: of, Numbers: len(p.keys())}
	repositories := map[string]int{} // places in Where
	for _, s := range p.Sources {
		whose := strings.TrimSpace(strings.Join([]string{s.Repository, s.Commit, s.Paper}, " "))
		at, ok := repositories[whose]
		if !ok {
			at = len(one.Where)
			repositories[whose], one.Where = at, append(one.Where, whose)
		}
		if file := strings.TrimSpace(s.File + " " + s.Of); file != "" && !strings.Contains(one.Where[at], file) {
			one.Where[at] += ", " + file
		}
		if s.Unread != "" {
			one.Unread = append(one.Unread, s.Unread)
		}
	}
	var err error
	one.Differs, err = e.departures(p, own)
	return one, err
}

// within are the numbers of one table; "": all.
func (p Published) within(table string) Published {
	if table == "" {
		return p
	}
	return p.only(func(here string) bool { return strings.HasPrefix(here, table+".") }, false)
}

// without leaves out the numbers of another source.
func (p Published) without(other Published) Published {
	keys := other.keys()
	if len(keys) == 0 {
		return p
	}
	return p.only(func(here string) bool { return !slices.Contains(keys, here) }, true)
}

// only has the numbers whose keys here pass, and those without a key here if apart is set.
func (p Published) only(pass func(here string) bool, apart bool) Published {
	var out Published
	for _, s := range p.Sources {
		s.Numbers = slices.DeleteFunc(slices.Clone(s.Numbers), func(n Setting) bool { return n.Here == "" || !pass(n.Here) })
		out.Sources = append(out.Sources, s)
	}
	for _, d := range p.Differs {
		if d.Here != "" && pass(d.Here) || d.Here == "" && apart {
			out.Differs = append(out.Differs, d)
		}
	}
	return out
}

// apart are the differences that no key here has.
func (p Published) apart() (out []Departure) {
	for _, d := range p.Differs {
		if d.What == "" {
			continue
		}
		one := Departure{Key: d.What, Reason: d.Reason}
		for _, s := range p.Sources {
			for _, n := range s.Numbers {
				if n.Key == d.What {
					one.Published = shown(n.Value)
				}
			}
		}
		out = append(out, one)
	}
	return out
}
