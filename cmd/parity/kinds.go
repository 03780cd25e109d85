package main

import "strings"

// Cases of rewards give tolerances by the kind of an output: "embeds_rel_norm" bounds
// |got - want| / |want| of whole tensors, "scores_abs" every score. They also list among
// their inputs what a reward makes of its pictures and prompts by itself (pixel_values,
// input_ids): it is held to these, too.

// kinds says which outputs a tolerance's first word is for, by parts of their names.
var kinds = map[string][]string{
	"scores": {"scores"}, "embeds": {"embeds", "features"}, "grad": {"grad"}, "pixel": {"pixel_values"}, "logits": {"logits"},
}

// byKind reads such tolerances for the outputs.
func (t *tolerances) byKind(doc map[string]any, outputs map[string]any) {
	said, _ := doc["tol"].(map[string]any)
	for key, v := range said {
		x, ok := float(v)
		word, form, found := strings.Cut(key, "_")
		if !ok || !(x >= 0) || !found || kinds[word] == nil {
			continue
		}
		for name := range outputs {
			for _, part := range kinds[word] {
				switch {
				case !strings.Contains(name, part) || word != "grad" && strings.HasPrefix(name, "grad"):
				case form == "abs":
					t.byName[name] = tolerance{Abs: x}
				case form == "rel_norm":
					t.byName[name] = tolerance{Norm: x}
				}
			}
		}
		if key == "logits_abs" { // logits are 100 times products of unit vectors with these
			t.byName["classifier"] = tolerance{Abs: x / 100}
		}
	}
}

// prepared are the names among a case's inputs that a reward makes itself, where the case
// has scores: pictures, if it says how near they must be, and tokens, which are exact.
func prepared(doc map[string]any) []any {
	tol, _ := doc["tol"].(map[string]any)
	names, _ := doc["in"].([]any)
	var made []any
	for _, n := range names {
		name, _ := n.(string)
		_, near := tol["pixel_abs"]
		if strings.HasSuffix(name, "_ids") || strings.HasSuffix(name, "_mask") || near && strings.Contains(name, "pixel_values") {
			made = append(made, n)
		}
	}
	return made
}
