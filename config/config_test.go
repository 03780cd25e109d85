package config

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/outside/spent"
)

// An oven is something to configure.
type oven struct {
	Run     run              `toml:"run"`
	Heat    heat             `toml:"heat"`
	Shelves []shelf          `toml:"shelf"`
	Later   []map[string]int `toml:"stage,later"`
	Private int
}

type run struct {
	Name string   `toml:"name,required"`
	Seed uint64   `toml:"seed"`
	Days int      `toml:"days" range:"[1,inf)"`
	Cold bool     `toml:"cold"`
	Cook []string `toml:"cook,single" enum:"bread,cake"`
}

type heat struct {
	common
	Top    float64            `toml:"top" range:"(0,1]"`
	Any    float64            `toml:"any"`
	Limit  float64            `toml:"limit" range:"[0,inf]"`
	Betas  [2]float64         `toml:"betas" range:"[0,1)"`
	Steps  []int              `toml:"steps" range:"0,9"`
	Weight map[string]float64 `toml:"weight" range:"0,inf"`
	Inner  inner              `toml:"inner"`
	Maybe  *inner             `toml:"maybe"`
}

type common struct {
	Mode string `toml:"mode" enum:"fan,grill,both"`
}

type inner struct {
	Depth int `toml:"depth"`
}

func (i *inner) SetDefaults() { i.Depth = 5 }

type shelf struct {
	Height int  `toml:"height,required" range:"1,9"`
	Used   bool `toml:"used"`
}

func (s *shelf) SetDefaults() { s.Used = true }

func read(text string, sets ...string) (oven, *Document) {
	o := oven{Run: run{Days: 3}, Heat: heat{Top: 0.5, common: common{Mode: "fan"}}}
	d := Parse("a.toml", []byte(text))
	for _, s := range sets {
		d.Set(s)
	}
	d.Decode("", &o)
	return o, d
}

const whole = `
# an oven
run.name = "x"
run.seed = 7
run.cook = "bread"
[heat]
mode = "grill"
top = 1
limit = inf
betas = [0.9, 0.999]
steps = [
  1, # one
  2,
]
weight = { a = 1, "b c" = 0.5 }
inner.depth = 0x10
[heat.maybe]
[[shelf]]
height = 1
[[shelf]]
height = 2
used = false
`

func TestDecode(t *testing.T) {
	got, d := read(whole)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	want := oven{
		Run: run{Name: "x", Seed: 7, Days: 3, Cook: []string{"bread"}},
		Heat: heat{
			common: common{"grill"}, Top: 1, Limit: math.Inf(1), Betas: [2]float64{0.9, 0.999}, Steps: []int{1, 2},
			Weight: map[string]float64{"a": 1, "b c": 0.5}, Inner: inner{16}, Maybe: &inner{5},
		},
		Shelves: []shelf{{1, true}, {2, false}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for key, want := range map[string]Origin{"run.name": File, "run.days": Absent, "shelf[1].used": File, "shelf[0].used": Absent, "shelf[7].used": Absent} {
		if o := d.Origin(key); o != want {
			t.Errorf("origin of %s: %v", key, o)
		}
	}
	if d.Text("heat.mode") != "grill" || d.Len("shelf") != 2 || d.Text("run.seed") != "" {
		t.Error("Text and Len")
	}
}

// TestWrite: a written file is read back as it was, notes and all.
func TestWrite(t *testing.T) {
	want, _ := read(whole, `run.name="q\"\\\u0001\n ü"`, "heat.any=1e-30")
	var b bytes.Buffer
	if err := Write(&b, want, func(key string) string { return key }); err != nil {
		t.Fatal(err)
	}
	got, d := read(b.String())
	if err := d.Err(); err != nil {
		t.Fatalf("%v\nin %s", err, b.String())
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v\nthrough\n%s", got, want, b.String())
	}
	for _, line := range []string{"# shelf[1].used", "# heat.weight.b c", `cook = "bread" `, "limit = inf ", "any = 1e-30 ", "top = 1.0 "} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("%q is not in\n%s", line, b.String())
		}
	}
}

func TestSet(t *testing.T) {
	o, d := read(whole, "run.name=7", "heat.top=0.25", "shelf.1.height=9", "heat.maybe.depth=1", "run.cook=cake", "heat.steps=[1]", "run.name = over")
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	if o.Run.Name != "over" || o.Heat.Top != 0.25 || o.Shelves[1].Height != 9 || o.Heat.Maybe.Depth != 1 || o.Run.Cook[0] != "cake" || len(o.Heat.Steps) != 1 {
		t.Errorf("%+v", o)
	}
	if d.Origin("run.name") != CommandLine {
		t.Error("the origin of an override")
	}
}

// TestMistakes: a document, its overrides, and the message.
func TestMistakes(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		sets []string
		want string
	}{
		"together": {"[run]\nname = 'x'\ndayz = 1\n[heat]\ntop = 1.5\nmode = \"gril\"\n", nil, `a.toml:3:1: unknown key "run.dayz"
  3 | dayz = 1
    | ~~~~
  hint: did you mean "days"?
a.toml:5:7: "heat.top" must be above 0, at most 1, is 1.5
  5 | top = 1.5
    |       ~~~
a.toml:6:8: "heat.mode" must be one of "fan", "grill", "both", is "gril"
  6 | mode = "gril"
    |        ~~~~~~
  hint: did you mean "grill"?`},
		"syntax and more": {"run.name = 'x'\nrun.days = \nrun.cold = 1\n", nil, `a.toml:2:12: a value is missing
  2 | run.days = 
    |            ~
a.toml:3:12: "run.cold" must be true or false, not an integer
  3 | run.cold = 1
    |            ~`},
		"list goes on": {"run.name = 'x'\nrun.cook = [\n  bread,\n  'cake',\n]\nrun.cold = 1\n", nil, `a.toml:3:3: this is not a value
  3 |   bread,
    |   ~
  hint: strings are written in quotation marks
a.toml:6:12: "run.cold" must be true or false, not an integer
  6 | run.cold = 1
    |            ~`},
		"missing":       {"", nil, `a.toml: missing key "run.name"`},
		"missing below": {"[run]\nseed = 1\n", nil, "a.toml:1:2: missing key \"run.name\"\n  1 | [run]\n    |  ~~~"},
		"missing in a list": {"run.name='x'\n[[shelf]]\nheight=1\n[[shelf]]\n", nil,
			"a.toml:4:3: missing key \"shelf[1].height\"\n  4 | [[shelf]]\n    |   ~~~~~"},
		"elsewhere": {"run.name = 'x'\n[run.heat]\nheight = 1\n", nil, `a.toml:2:6: unknown table "run.heat"
  2 | [run.heat]
    |      ~~~~
  hint: there are name, seed, days, cold, cook; or did you mean "heat"?`},
		"set": {"run.name = 'x'", []string{"heat.tpo=1", "run.days=0"}, `--set: unknown key "heat.tpo"
  --set | heat.tpo=1
        | ~~~~~~~~
  hint: did you mean "top"?
--set: "run.days" must be at least 1, is 0
  --set | run.days=0
        |          ~`},
		"set nothing": {"run.name = 'x'", []string{"heat"}, "--set: an override is KEY=VALUE\n  --set | heat\n        | ~~~~\n  hint: for example --set optim.lr=1e-4"},
		"set comment": {"run.name = 'x'", []string{"#a=1"}, "--set: an override is KEY=VALUE\n  --set | #a=1\n        | ~~~~\n  hint: for example --set optim.lr=1e-4"},
		"set a list":  {"run.name = 'x'\n[[shelf]]\nheight=1", []string{"shelf.1.height=1"}, "--set: \"shelf\" is a list of 1; \"1\" is none of its elements\n  --set | shelf.1.height=1\n        | ~~~~~~~~~~~~~~\n  hint: the first element is 0"},
		"set in text": {"run.name = 'x'", []string{"run.name.first=1"}, "--set: \"run.name\" is no table: nothing can be set in it\n  --set | run.name.first=1\n        | ~~~~~~~~~~~~~~"},
	} {
		_, d := read(row.text, row.sets...)
		got := "nothing"
		if err := d.Err(); err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, row.want)
		}
	}
}

// TestOneMistake: a document with one mistake, and its message.
// TestHints: a key that exists elsewhere is named, and a word that is near to one by chance is not.
func TestHints(t *testing.T) {
	type other struct {
		Weight float64 `toml:"weight"`
		High   float64 `toml:"high"`
		For    int     `toml:"for"`
		Clip   float64 `toml:"clip_range"`
	}
	for key, want := range map[string]string{"height": "there are name, a", "foo": "there are name, a", "clip_rnage": `there are name, a; or did you mean "a.clip_range"?`, "weight": `there are name, a; or did you mean "a.weight"?`, "nmae": `did you mean "name"?`} {
		var into struct {
			Name string `toml:"name"`
			A    other  `toml:"a"`
		}
		doc := Parse("a.toml", []byte(key+" = 1\n"))
		doc.Decode("", &into)
		if err := doc.Err(); err == nil || !strings.HasSuffix(err.Error(), "hint: "+want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}

func TestOneMistake(t *testing.T) {
	for text, says := range map[string]string{
		"heat.betas = [0.9]":                    `1:14: "heat.betas" must have 2 elements, has 1`,
		"heat.betas = [0.9, 1]":                 `1:20: "heat.betas[1]" must be at least 0, below 1, is 1`,
		"heat.any = nan":                        `"heat.any" must be a number, is nan`,
		"heat.any = -inf":                       `"heat.any" must be finite, is -inf`,
		"heat.top = inf":                        `must be above 0, at most 1 and finite, is inf`,
		"heat.limit = -1":                       `must be at least 0, is -1`,
		"heat.weight = {a = 'x'}":               `"heat.weight.a" must be a number, not a string`,
		"heat.inner = 1":                        `"heat.inner" must be a table, not an integer`,
		"[[heat]]":                              `1:3: "heat" must be a table, not a list of tables`,
		"[shelf]":                               `1:2: "shelf" must be a list, not a table`,
		"run.cook = ['pie']":                    `"run.cook[0]" must be one of "bread", "cake", is "pie"`,
		"run.seed = -1":                         `"run.seed" must be at least 0, is -1`,
		"run.days = 1.0":                        "must be an integer, not a number\n",
		"run.days = 1e3":                        "hint: write 1000",
		"run.days = 9223372036854775808":        `more than 64 bits`,
		"heat.any = 1e999":                      `this number is too large`,
		"run.days = 012":                        `leading zero`,
		"run.days = 1__2":                       `underscores`,
		"run.days = 1979-05-27":                 `must be an integer, not a date`,
		"run.seed = 1\nrun.seed = 2":            "2:5: the key \"run.seed\" is written twice\n",
		"[heat]\n[heat]":                        "2:2: the table \"heat\" is written twice\n",
		"[heat.inner]\n[heat]\ninner.depth = 1": `"heat.inner" is written twice`,
		"heat = {inner = {}}\n[heat.maybe]":     `the table "heat" is written twice`,
		"run.days = 1 2":                        "nothing may follow here",
		"run.cook = 'bread":                     "1:",
		"run.cook = [1, 2":                      "a list ends with ]",
		"heat = {":                              "inline table is incomplete",
		"run.seed 1":                            "'=' after key",
		"[heat":                                 "1:",
		"run.cook = 'a\x00'":                    "1:14: a NUL byte",
		"run.cook = 'a\xff'":                    "1:14: the byte 0xff is not UTF-8",
		`run.cook = "a\u0000"`:                  "may not hold a NUL",
		"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q = 1": "at most 16 parts",
		"heat.any = " + strings.Repeat("[", 40) + strings.Repeat("]", 40): "nest at most 16 deep",
		strings.Repeat("#", MaxSize+1):                                    "at most 1048576 are read",
	} {
		o := oven{Run: run{Name: "x"}}
		d := Parse("a.toml", []byte(text))
		d.Decode("", &o)
		err := d.Err()
		if err == nil {
			t.Errorf("%.60q: no mistake", text)
			continue
		}
		if !strings.Contains(err.Error()+"\n", says) {
			t.Errorf("%.60q: got\n%v\nwithout %q", text, err, says)
		}
		if n := len(err.(Mistakes)); n != 1 {
			t.Errorf("%.60q: %d mistakes: %v", text, n, err)
		}
	}
}

// TestHostile: large texts with many mistakes end soon, with a message of a bounded size.
func TestHostile(t *testing.T) {
	line := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < MaxSize-40; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"unknown keys":   line("k%d=1\n"),
		"the same key":   strings.Repeat("a=1\n", MaxSize/4),
		"no syntax":      strings.Repeat("a=\n", MaxSize/3),
		"many tables":    line("[t%d]\n"),
		"many lists":     "run.name='x'\n" + strings.Repeat("[[shelf]]\n", MaxSize/11),
		"one long line":  "a = [" + strings.Repeat("1,", MaxSize/2-10) + "]",
		"one long key":   strings.Repeat("a", MaxSize-10) + " = 1",
		"never ends":     "a = '''" + strings.Repeat("b = '\n", MaxSize/8),
		"nested":         "a = " + strings.Repeat("[", MaxSize-10),
		"nested headers": strings.Repeat("[", MaxSize),
		"a million keys": strings.Repeat("a=1\n", 1e6),
	} {
		began := spent.CPU()
		_, d := read(text)
		err := d.Err()
		switch {
		case err == nil:
			t.Errorf("%s: no mistake", name)
		case len(err.Error()) > 1<<16:
			t.Errorf("%s: a message of %d bytes", name, len(err.Error()))
		case spent.CPU()-began > 2*time.Second:
			t.Errorf("%s took %v of the CPU", name, spent.CPU()-began)
		}
	}
}
