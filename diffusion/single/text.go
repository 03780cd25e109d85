package single

import "strings"

// as leaves names as they are: transformers' own, as text encoders have them.
func as(name string, _ []int) []placed { return []placed{{name: name}} }

// widest is more than any text encoder's states have.
const widest = 1 << 14

// unprojected is the first encoder of Stable Diffusion 3: as diffusers has it, its projection is none, whatever the
// file holds.
func unprojected(name string, shape []int) []placed {
	switch {
	case name == "text_projection.weight":
		return nil
	case strings.HasSuffix(name, "final_layer_norm.weight") && len(shape) == 1 && shape[0] <= widest:
		return []placed{{name: name}, {"text_projection.weight", piece{eyes: shape[0]}}}
	}
	return as(name, shape)
}

// openCLIP is the second encoder of SDXL, as open_clip names it.
func openCLIP(name string, shape []int) []placed {
	if name == "text_projection" && len(shape) == 2 {
		return []placed{{"text_projection.weight", piece{turned: true}}}
	}
	if to := renamed(name, map[string]string{"positional_embedding": "text_model.embeddings.position_embedding.weight",
		"token_embedding.": "text_model.embeddings.token_embedding.", "ln_final.": "text_model.final_layer_norm."}); to != "" {
		return []placed{{name: to}}
	}
	rest, ok := strings.CutPrefix(name, "transformer.resblocks.")
	if !ok {
		return nil // what training had, and a causal mask
	}
	layer, rest, _ := strings.Cut(rest, ".")
	to := "text_model.encoder.layers." + layer + "."
	for _, kind := range []string{"weight", "bias"} {
		if rest == "attn.in_proj_"+kind {
			return split(shape, 1, to+"self_attn.q_proj."+kind, to+"self_attn.k_proj."+kind, to+"self_attn.v_proj."+kind)
		}
	}
	if rest = renamed(rest, map[string]string{"ln_1.": "layer_norm1.", "ln_2.": "layer_norm2.", "mlp.c_fc.": "mlp.fc1.", "mlp.c_proj.": "mlp.fc2.", "attn.out_proj.": "self_attn.out_proj."}); rest == "" {
		return nil
	}
	return []placed{{name: to + rest}}
}

// split shares the rows out among names: as many for each, and for the last times as many.
func split(shape []int, last int, names ...string) (all []placed) {
	if len(shape) == 0 {
		return nil
	}
	each := shape[0] / (len(names) - 1 + last)
	for i, name := range names {
		to := (i + 1) * each
		if i == len(names)-1 {
			to = shape[0]
		}
		all = append(all, placed{name, piece{rows: [2]int{i * each, to}}})
	}
	return all
}
