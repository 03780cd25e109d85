package single

import (
	"fmt"
	"strconv"
	"strings"
)

// flux is FLUX's transformer. Queries, keys and values are one layer, in single blocks together with the first layer
// of the perceptron, four times as wide; the modulation of the output has shift before scale.
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

// mmdit is Stable Diffusion 3's transformer. Queries, keys and values are one layer; the modulation of the output,
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

// unet is the U-Net's: blocks are counted through, and diffusers counts them by resolution.
func unet(layers int) rule {
	per := layers + 1
	return func(name string, _ []int) []placed {
		at := strings.SplitN(name, ".", 4)
		to := ""
		switch at[0] {
		case "time_embed":
			to = renamed(name, map[string]string{"time_embed.0.": "time_embedding.linear_1.", "time_embed.2.": "time_embedding.linear_2."})
		case "label_emb":
			to = renamed(name, map[string]string{"label_emb.0.0.": "add_embedding.linear_1.", "label_emb.0.2.": "add_embedding.linear_2."})
		case "out":
			to = renamed(name, map[string]string{"out.0.": "conv_norm_out.", "out.2.": "conv_out."})
		case "middle_block":
			to = middle(at)
		case "input_blocks":
			to = down(at, per)
		case "output_blocks":
			to = up(at, per)
		}
		if to == "" {
			return nil
		}
		return []placed{{name: to}}
	}
}

// renamed is a name whose beginning is another; "": it has none of them.
func renamed(name string, begins map[string]string) string {
	for from, to := range begins {
		if rest, ok := strings.CutPrefix(name, from); ok {
			return to + rest
		}
	}
	return ""
}

// resnet is the rest of a name after its block.
func resnet(rest string) string {
	return strings.NewReplacer("in_layers.0", "norm1", "in_layers.2", "conv1", "out_layers.0", "norm2", "out_layers.3", "conv2",
		"emb_layers.1", "time_emb_proj", "skip_connection", "conv_shortcut").Replace(rest)
}

// middle is of ["middle_block", block, rest...].
func middle(at []string) string {
	if len(at) < 3 {
		return ""
	}
	rest := strings.Join(at[2:], ".")
	switch at[1] {
	case "0":
		return "mid_block.resnets.0." + resnet(rest)
	case "1":
		return "mid_block.attentions.0." + rest
	case "2":
		return "mid_block.resnets.1." + resnet(rest)
	}
	return ""
}

// down is of ["input_blocks", block, layer, rest].
func down(at []string, per int) string {
	if len(at) < 4 {
		return ""
	}
	n, err := strconv.Atoi(at[1])
	if err != nil {
		return ""
	}
	if n == 0 {
		return "conv_in." + at[3]
	}
	block, layer := (n-1)/per, (n-1)%per
	switch rest, isDown := strings.CutPrefix(at[3], "op."); {
	case at[2] == "0" && isDown:
		return fmt.Sprintf("down_blocks.%d.downsamplers.0.conv.%s", block, rest)
	case at[2] == "0":
		return fmt.Sprintf("down_blocks.%d.resnets.%d.%s", block, layer, resnet(at[3]))
	}
	return fmt.Sprintf("down_blocks.%d.attentions.%d.%s", block, layer, at[3])
}

// up is of ["output_blocks", block, layer, rest].
func up(at []string, per int) string {
	if len(at) < 4 {
		return ""
	}
	n, err := strconv.Atoi(at[1])
	if err != nil {
		return ""
	}
	block, layer := n/per, n%per
	switch rest, isUp := strings.CutPrefix(at[3], "conv."); {
	case at[2] == "0":
		return fmt.Sprintf("up_blocks.%d.resnets.%d.%s", block, layer, resnet(at[3]))
	case isUp:
		return fmt.Sprintf("up_blocks.%d.upsamplers.0.conv.%s", block, rest)
	}
	return fmt.Sprintf("up_blocks.%d.attentions.%d.%s", block, layer, at[3])
}

// vae is the autoencoder's below a prefix. The decoder's levels are counted from the other end, and attention's
// convolutions of one pixel are linear layers.
func (f *File) vae(prefix string) rule {
	levels := 0
	for _, t := range f.file.Infos {
		if rest, ok := strings.CutPrefix(t.Name, prefix+"decoder.up."); ok {
			level, _, _ := strings.Cut(rest, ".")
			if n, err := strconv.Atoi(level); err == nil {
				levels = max(levels, n+1)
			}
		}
	}
	return func(name string, shape []int) []placed {
		half, rest, _ := strings.Cut(name, ".")
		switch {
		case half == "quant_conv" || half == "post_quant_conv":
			return []placed{{name: name}}
		case half != "encoder" && half != "decoder":
			return nil
		}
		if at, ok := strings.CutPrefix(rest, "mid.attn_1."); ok {
			to := renamed(at, map[string]string{"norm.": "group_norm.", "q.": "to_q.", "k.": "to_k.", "v.": "to_v.", "proj_out.": "to_out.0."})
			return []placed{{name: half + ".mid_block.attentions.0." + to, piece: piece{flat: len(shape) > 2}}}
		}
		to := renamed(rest, map[string]string{"norm_out.": "conv_norm_out.", "conv_in.": "conv_in.", "conv_out.": "conv_out.",
			"mid.block_1.": "mid_block.resnets.0.", "mid.block_2.": "mid_block.resnets.1."})
		if to == "" {
			to = level(rest, levels)
		}
		if to == "" {
			return nil
		}
		return []placed{{name: half + "." + strings.Replace(to, "nin_shortcut", "conv_shortcut", 1)}}
	}
}

// level is a name of one of the levels: "down.0.block.1.conv1.weight".
func level(name string, levels int) string {
	at := strings.SplitN(name, ".", 4)
	if len(at) < 4 {
		return ""
	}
	n, err := strconv.Atoi(at[1])
	if err != nil {
		return ""
	}
	blocks, sampler := "down_blocks", "downsamplers"
	if at[0] == "up" {
		blocks, sampler, n = "up_blocks", "upsamplers", levels-1-n
	}
	switch at[2] {
	case "block":
		return fmt.Sprintf("%s.%d.resnets.%s", blocks, n, at[3])
	case "downsample", "upsample":
		return fmt.Sprintf("%s.%d.%s.0.%s", blocks, n, sampler, at[3])
	}
	return ""
}

// as leaves names as they are: transformers' own, as text encoders have them.
func as(name string, _ []int) []placed { return []placed{{name: name}} }

// widest is more than any text encoder's states have.
const widest = 1 << 14

// unprojected is the first encoder of Stable Diffusion 3: as in diffusers, it has no projection, whatever the file
// holds.
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
		return nil // values of training, and a causal mask
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
