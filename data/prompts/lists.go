package prompts

import (
	"path/filepath"
	"slices"
	"sync"
)

// Lists are the lists that were read, by their names: each is read once, however many ask for it. The zero value has
// read none; a nil one reads a list whenever it is asked for.
type Lists struct {
	busy sync.Mutex
	read map[string][]Prompt
}

// Open is the package's Open with a cache. A caller does not change the list.
func (l *Lists) Open(name string) ([]Prompt, error) {
	if l == nil {
		return openNamed(name)
	}
	l.busy.Lock()
	defer l.busy.Unlock()
	if list, ok := l.read[name]; ok {
		return list, nil
	}
	list, err := openNamed(name)
	if err != nil {
		return nil, err
	}
	if l.read == nil {
		l.read = map[string][]Prompt{}
	}
	l.read[name] = slices.Clip(list)
	return l.read[name], nil
}

// openNamed is Open, of prompts that know their list.
func openNamed(name string) ([]Prompt, error) {
	list, err := Open(name)
	for i := range list {
		list[i].List = name
	}
	return list, err
}

// In are the places of prompts that stand in lists of these names; lessons stand in none.
func In(list []Prompt, names []string) (places []int) {
	for i := range list {
		if slices.Contains(names, list[i].List) {
			places = append(places, i)
		}
	}
	return places
}

// Folder is where the names of pictures begin: that of the prompt's list, or of another file where it stands in none.
func (p Prompt) Folder(otherwise string) string {
	if p.List != "" {
		otherwise = p.List
	}
	return filepath.Dir(otherwise)
}

// A Stretch is a range of consecutive prompts of a list.
type Stretch struct {
	List string `json:"list"`
	N    int    `json:"n"`
}

// Stretches say which lists prompts stand in, for another process.
func Stretches(list []Prompt) (all []Stretch) {
	for _, p := range list {
		if n := len(all); n == 0 || all[n-1].List != p.List {
			all = append(all, Stretch{List: p.List})
		}
		all[len(all)-1].N++
	}
	return all
}

// Restore gives prompts the lists that Stretches were made of.
func Restore(list []Prompt, from []Stretch) {
	for _, s := range from {
		n := min(max(s.N, 0), len(list))
		for i := range list[:n] {
			list[i].List = s.List
		}
		list = list[n:]
	}
}
