package single

import "strings"

// flux is FLUX's transformer. Queries, keys and values are one layer, in single blocks together with the first layer of
// the perceptron, four times as wide; the modulation of what is put out has shift before scale.
func flux(name string, shape []int) []placed {
	if rest, ok := strings.CutPrefix(name, "double_blocks."); ok {
		block, rest, _ := strings.Cut(rest, ".")
		return double(block, rest, shape)
	}
	if rest, ok := strings.CutPrefix(name, "single_blocks."); ok {
		block, rest, _ := strings.Cut(rest, ".")
		return alone(block, rest, shape)
	}
	if kind, ok := strings.CutPrefix(name, "final_layer.adaLN_modulation.1."); ok {
		return []placed{{"norm_out.linear." + kind, piece{swap: true}}}
	}
	to := renamed(name, map[string]string{"txt_in.": "context_embedder.", "img_in.": "x_embedder.", "final_layer.linear.": "proj_out."})
	for from, embedder := range map[string]string{"time_in.": "timestep_embedder.", "vector_in.": "text_embedder.", "guidance_in.": "guidance_embedder."} {
		if layer := renamed(name, map[string]string{from + "in_layer.": "linear_1.", from + "out_layer.": "linear_2."}); layer != "" {
			to = "time_text_embed." + embedder + layer
		}
	}
	if to == "" {
		return nil
	}
	return []placed{{name: to}}
}

// double is a block's of pictures and texts.
func double(block, name string, shape []int) []placed {
	to := "transformer_blocks." + block + "."
	for _, kind := range []string{"weight", "bias"} {
		switch name {
		case "img_attn.qkv." + kind:
			return split(shape, 1, to+"attn.to_q."+kind, to+"attn.to_k."+kind, to+"attn.to_v."+kind)
		case "txt_attn.qkv." + kind:
			return split(shape, 1, to+"attn.add_q_proj."+kind, to+"attn.add_k_proj."+kind, to+"attn.add_v_proj."+kind)
		}
	}
	rest := renamed(name, map[string]string{"img_mod.lin.": "norm1.linear.", "txt_mod.lin.": "norm1_context.linear.",
		"img_attn.norm.query_norm.scale": "attn.norm_q.weight", "img_attn.norm.key_norm.scale": "attn.norm_k.weight",
		"txt_attn.norm.query_norm.scale": "attn.norm_added_q.weight", "txt_attn.norm.key_norm.scale": "attn.norm_added_k.weight",
		"img_mlp.0.": "ff.net.0.proj.", "img_mlp.2.": "ff.net.2.", "txt_mlp.0.": "ff_context.net.0.proj.", "txt_mlp.2.": "ff_context.net.2.",
		"img_attn.proj.": "attn.to_out.0.", "txt_attn.proj.": "attn.to_add_out."})
	if rest == "" {
		return nil
	}
	return []placed{{name: to + rest}}
}

// alone is a single block's.
func alone(block, name string, shape []int) []placed {
	to := "single_transformer_blocks." + block + "."
	for _, kind := range []string{"weight", "bias"} {
		if name == "linear1."+kind {
			return split(shape, 4, to+"attn.to_q."+kind, to+"attn.to_k."+kind, to+"attn.to_v."+kind, to+"proj_mlp."+kind)
		}
	}
	rest := renamed(name, map[string]string{"modulation.lin.": "norm.linear.", "linear2.": "proj_out.",
		"norm.query_norm.scale": "attn.norm_q.weight", "norm.key_norm.scale": "attn.norm_k.weight"})
	if rest == "" {
		return nil
	}
	return []placed{{name: to + rest}}
}
