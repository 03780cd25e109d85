package nn

import (
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Renamed is a source whose tensors have other names than the model's: folders that older
// libraries wrote. Parameters, adapters and messages then speak the names of today.
type Renamed struct {
	Source
	stored map[string]string // today's name: the file's
}

// Rename replaces the first occurrence of each old part by the new one, pair after pair.
func Rename(src Source, pairs ...string) Renamed {
	r := Renamed{Source: src, stored: map[string]string{}}
	for _, name := range src.Names() {
		today := name
		for i := 0; i < len(pairs); i += 2 {
			today = strings.Replace(today, pairs[i], pairs[i+1], 1)
		}
		r.stored[today] = name
	}
	return r
}

// Names are today's, in the order of the file's.
func (r Renamed) Names() []string {
	back := map[string]string{}
	for today, name := range r.stored {
		back[name] = today
	}
	var all []string
	for _, name := range r.Source.Names() {
		if today, ok := back[name]; ok {
			all = append(all, today)
		}
	}
	return all
}

// Tensor reads a tensor by its name of today.
func (r Renamed) Tensor(name string) (safetensors.Tensor, error) {
	if old, ok := r.stored[name]; ok {
		t, err := r.Source.Tensor(old)
		t.Name = name
		return t, err
	}
	return r.Source.Tensor(name)
}

// Drop lets a tensor's pages go.
func (r Renamed) Drop(name string) {
	if s, ok := r.Source.(interface{ Drop(string) }); ok {
		s.Drop(r.stored[name])
	}
}

// Where says where a tensor lies, for messages.
func (r Renamed) Where(name string) string {
	if s, ok := r.Source.(interface{ Where(string) string }); ok {
		return s.Where(r.stored[name])
	}
	return ""
}

// Header is a compressed tensor's.
func (r Renamed) Header(name string) (h quant.Header, ok bool, err error) {
	if at, coded := r.Source.(quant.Coded); coded {
		return at.Header(r.stored[name])
	}
	return h, false, nil
}

// Codes are a compressed tensor's.
func (r Renamed) Codes(name string) (c quant.Codes, d safetensors.DType, ok bool, err error) {
	if at, coded := r.Source.(quant.Coded); coded {
		return at.Codes(r.stored[name])
	}
	return c, d, false, nil
}
