package peft

import "strings"

// Rename gives layers other names: those that another library, or another folder of the same model, has for them.
// Patterns of the settings still speak of the file's names.
func (a *Adapter) Rename(of func(layer string) string) {
	names, given := map[string]string{}, map[string]string{}
	for name, stored := range a.names {
		layer, end := halves(name)
		was := layer
		if old, ok := a.given[layer]; ok {
			was = old
		}
		layer = of(layer)
		names[layer+end], given[layer] = stored, was
	}
	a.names, a.given = names, given
}

// halves are a tensor's layer and its end.
func halves(name string) (layer, end string) {
	for _, end := range []string{".lora_A.weight", ".lora_B.weight", ".alpha"} {
		if layer, ok := strings.CutSuffix(name, end); ok {
			return layer, end
		}
	}
	return name, ""
}
