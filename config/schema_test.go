package config

import (
	"fmt"
	"testing"
)

type paced struct {
	Rate *float64 `toml:"rate" range:"(0,1]" of:"a,b" doc:"how fast"`
}

func (i *paced) SetDefaults() { half := 0.5; i.Rate = &half }

type described struct {
	Name  string   `toml:"name,required"`
	Modes []string `toml:"modes,single" enum:"x,y"`
	One   *paced   `toml:"one" of:"kind=x"`
	Many  []paced  `toml:"many"`
	Later []paced  `toml:"later,later"`
	Other int      `toml:"-"`
}

// TestKeys: the contents of tags, tables first; a missing table is described by its defaults.
func TestKeys(t *testing.T) {
	says := func(v described) (all string) {
		for _, k := range Keys(&v) {
			all += fmt.Sprintf("%s|%s|%v|%s|%v|%s|%v|%s|%s\n", k.Path, k.Kind, k.Table, k.Default, k.Absent, k.Range, k.Enum, k.Of, k.Doc)
		}
		return all
	}
	want := `name|string|false|"a"|false||[]||
modes|list of strings|false|"x"|false||[x y]||
one|table|true||true||[]|kind=x|
one.rate|number|false|0.5|false|(0,1]|[]|a,b|how fast
many|list of tables|true||false||[]||
many.rate|number|false|0.5|false|(0,1]|[]|a,b|how fast
later|list of tables|true||false||[]||
`
	if got := says(described{Name: "a", Modes: []string{"x"}}); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	want = `name|string|false|""|false||[]||
modes|list of strings|false|[]|false||[x y]||
one|table|true||false||[]|kind=x|
one.rate|number|false||true|(0,1]|[]|a,b|how fast
many|list of tables|true||false||[]||
many[0].rate|number|false||true|(0,1]|[]|a,b|how fast
many[1].rate|number|false|0.5|false|(0,1]|[]|a,b|how fast
later|list of tables|true||false||[]||
`
	var set paced
	set.SetDefaults()
	if got := says(described{One: &paced{}, Many: []paced{{}, set}}); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
