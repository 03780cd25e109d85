package single

import (
	"strconv"
	"strings"
)

// mmdit is Stable Diffusion 3's transformer. Queries, keys and values are one layer; the modulation of what is put out,
// and of the texts in the last block, has shift before scale.
func (f *File) mmdit() rule {
	last := 0
	for _, t := range f.file.Infos {
		if _, rest, ok := strings.Cut(t.Name, "joint_blocks."); ok {
			n, _, _ := strings.Cut(rest, ".")
			if i, err := strconv.Atoi(n); err == nil {
				last = max(last, i)
			}
		}
	}
	end := strconv.Itoa(last)
	return func(name string, shape []int) []placed {
		if rest, ok := strings.CutPrefix(name, "joint_blocks."); ok {
			block, rest, _ := strings.Cut(rest, ".")
			return joint(block, rest, shape, block == end)
		}
		if kind, ok := strings.CutPrefix(name, "final_layer.adaLN_modulation.1."); ok {
			return []placed{{"norm_out.linear." + kind, piece{swap: true}}}
		}
		if name == "pos_embed" {
			return []placed{{name: "pos_embed.pos_embed"}}
		}
		to := renamed(name, map[string]string{"x_embedder.proj.": "pos_embed.proj.", "context_embedder.": "context_embedder.", "final_layer.linear.": "proj_out.",
			"t_embedder.mlp.0.": "time_text_embed.timestep_embedder.linear_1.", "t_embedder.mlp.2.": "time_text_embed.timestep_embedder.linear_2.",
			"y_embedder.mlp.0.": "time_text_embed.text_embedder.linear_1.", "y_embedder.mlp.2.": "time_text_embed.text_embedder.linear_2."})
		if to == "" {
			return nil
		}
		return []placed{{name: to}}
	}
}

// joint is a block's: of pictures (x_block) and of texts.
func joint(block, name string, shape []int, last bool) []placed {
	to := "transformer_blocks." + block + "."
	stream, rest, _ := strings.Cut(name, ".")
	texts := stream == "context_block"
	for _, kind := range []string{"weight", "bias"} {
		switch {
		case rest == "attn.qkv."+kind && texts:
			return split(shape, 1, to+"attn.add_q_proj."+kind, to+"attn.add_k_proj."+kind, to+"attn.add_v_proj."+kind)
		case rest == "attn.qkv."+kind || rest == "attn2.qkv."+kind:
			at := to + strings.TrimSuffix(rest, "qkv."+kind)
			return split(shape, 1, at+"to_q."+kind, at+"to_k."+kind, at+"to_v."+kind)
		case rest == "adaLN_modulation.1."+kind && texts:
			return []placed{{to + "norm1_context.linear." + kind, piece{swap: last}}}
		}
	}
	names := map[string]string{"attn.ln_q.": "attn.norm_q.", "attn.ln_k.": "attn.norm_k.", "attn2.ln_q.": "attn2.norm_q.", "attn2.ln_k.": "attn2.norm_k.",
		"attn.proj.": "attn.to_out.0.", "attn2.proj.": "attn2.to_out.0.", "adaLN_modulation.1.": "norm1.linear.", "mlp.fc1.": "ff.net.0.proj.", "mlp.fc2.": "ff.net.2."}
	if texts {
		names = map[string]string{"attn.ln_q.": "attn.norm_added_q.", "attn.ln_k.": "attn.norm_added_k.", "attn.proj.": "attn.to_add_out.",
			"mlp.fc1.": "ff_context.net.0.proj.", "mlp.fc2.": "ff_context.net.2."}
	}
	if rest = renamed(rest, names); rest == "" {
		return nil
	}
	return []placed{{name: to + rest}}
}
