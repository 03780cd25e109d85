package prompts

import (
	"slices"
	"sync"
)

// Lists are the lists that were read, by their names: each is read once, however many ask for it. The zero value has
// read none; a nil one reads a list whenever it is asked for.
type Lists struct {
	busy sync.Mutex
	read map[string][]Prompt
}

// Open is the package's Open, of what was read already where it was. Who gets a list leaves it as it is.
func (l *Lists) Open(name string) ([]Prompt, error) {
	if l == nil {
		return Open(name)
	}
	l.busy.Lock()
	defer l.busy.Unlock()
	if list, ok := l.read[name]; ok {
		return list, nil
	}
	list, err := Open(name)
	if err != nil {
		return nil, err
	}
	if l.read == nil {
		l.read = map[string][]Prompt{}
	}
	l.read[name] = slices.Clip(list)
	return l.read[name], nil
}
