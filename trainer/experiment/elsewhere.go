package experiment

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
)

//go:embed elsewhere.toml
var elsewhereFile string

// An Elsewhere is a setting of another program, and the key that does the same here.
type Elsewhere struct {
	Program string
	Name    string // there
	Here    string // a key, or a flag of a command; "": none, for the reason in Differs
	By      string // its converter in darkroom init --from; "": a number is copied
	Differs string // "": nothing
}

// Last is the setting's own name, without its tables.
func (s Elsewhere) Last() string { return s.Name[strings.LastIndexByte(s.Name, '.')+1:] }

// ElsewhereKeys are all rows of elsewhere.toml, by program.
var ElsewhereKeys = sync.OnceValue(func() []Elsewhere {
	var programs map[string]map[string]string
	if err := toml.Unmarshal([]byte(elsewhereFile), &programs); err != nil {
		panic(err) // embedded
	}
	var all []Elsewhere
	for program, names := range programs {
		for name, here := range names {
			key, differs, _ := strings.Cut(here, " # ")
			key, by, _ := strings.Cut(key, " | ")
			all = append(all, Elsewhere{program, name, strings.TrimSpace(key), by, differs})
		}
	}
	slices.SortFunc(all, func(a, b Elsewhere) int {
		return strings.Compare(a.Program+" "+a.Here+" "+a.Name, b.Program+" "+b.Here+" "+b.Name)
	})
	return all
})

// ofOthers is the hint for an unknown key that other programs have: the keys here that do the same; "" for other names.
func ofOthers(name string) string {
	var says []string
	for _, s := range ElsewhereKeys() { // a table of theirs
		if table, _, ok := strings.Cut(s.Name, "."); ok && table == name && !slices.Contains(says, s.Program) {
			says = append(says, s.Program)
		}
	}
	if len(says) > 0 {
		return fmt.Sprintf("a table of %s: 'darkroom list elsewhere' has its settings, and the key here for each",
			strings.Join(says, ", "))
	}
	return counterparts(name, "")
}

// theirsFor is another meaning of a key's name in other programs, with the key here; "": there is no other.
func theirsFor(key string) string { return counterparts(key[1+strings.LastIndexByte(key, '.'):], key) }

// counterparts says which keys here, but one, do the same as keys of other programs with a name. Differences are for
// readers who have no key here yet.
func counterparts(name, but string) string {
	var says []string
	programs := map[string][]string{} // by their counterpart here, in the order of says
	for _, s := range ElsewhereKeys() {
		if s.Last() != name || s.Here == "" || but != "" && strings.HasSuffix(but, s.Here) {
			continue
		}
		here := s.Here
		if s.Differs != "" && but == "" {
			here += " (" + s.Differs + ")"
		}
		if programs[here] == nil {
			says = append(says, here)
		}
		programs[here] = append(programs[here], s.Program)
	}
	for i, here := range says {
		says[i] = fmt.Sprintf("%s of %s is %s here", name, strings.Join(programs[here], ", "), here)
	}
	return strings.Join(says, "; ")
}
