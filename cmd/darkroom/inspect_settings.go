package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// keyNames are the settings worth a line, in the order of printing: what the
// hub's libraries call sizes, then what changes the arithmetic.
func keyNames() []string {
	return []string{
		"peft_type", "base_model_name_or_path", "r", "lora_alpha", "lora_dropout", "use_dora", "use_rslora", "target_modules", "modules_to_save",
		"model_type", "num_layers", "num_hidden_layers", "num_single_layers", "depth", "hidden_size", "d_model", "embed_dim", "base_dim", "dim", "dim_mult",
		"num_attention_heads", "num_heads", "num_key_value_heads", "attention_head_dim", "d_kv", "head_dim", "intermediate_size", "d_ff", "ffn_dim",
		"block_out_channels", "layers_per_block", "transformer_layers_per_block", "num_res_blocks",
		"in_channels", "out_channels", "latent_channels", "z_dim", "patch_size", "spatial_patch_size", "temporal_patch_size", "spatial_merge_size", "sample_size", "image_size",
		"joint_attention_dim", "cross_attention_dim", "pooled_projection_dim", "projection_dim", "caption_projection_dim", "text_dim", "added_kv_proj_dim", "image_dim",
		"vocab_size", "max_position_embeddings", "pos_embed_max_size", "axes_dims_rope", "rope_theta",
		"guidance_embeds", "qk_norm", "dual_attention_layers", "hidden_act", "feed_forward_proj", "scaling_factor", "shift_factor",
		"num_train_timesteps", "shift", "use_dynamic_shifting", "base_shift", "max_shift", "flow_shift", "prediction_type", "beta_schedule", "beta_start", "beta_end", "solver_order",
		"model_max_length", "torch_dtype", "dtype",
	}
}

// keySettings picks the settings worth a line, also of a model's text and vision halves.
func keySettings(doc map[string]any) []setting {
	all := pick(doc, "")
	for _, half := range []string{"text_config", "vision_config"} {
		if inner, ok := doc[half].(map[string]any); ok {
			all = append(all, pick(inner, half+".")...)
		}
	}
	return all
}

func pick(doc map[string]any, prefix string) []setting {
	var found []setting
	for _, key := range keyNames() {
		v := doc[key]
		if list, ok := v.([]any); ok && len(list) == 0 {
			continue
		}
		if _, nested := v.(map[string]any); v != nil && !nested {
			found = append(found, setting{prefix + key, v})
		}
	}
	return found
}

// className is what a config calls the thing that it configures.
func className(doc map[string]any) string {
	if list, ok := doc["architectures"].([]any); ok && len(list) > 0 {
		return text(list[0])
	}
	for _, key := range []string{"_class_name", "tokenizer_class", "image_processor_type", "feature_extractor_type", "peft_type", "model_type"} {
		if s := text(doc[key]); s != "" {
			return s
		}
	}
	return ""
}

func library(doc map[string]any) string {
	for _, k := range []struct{ key, name string }{{"_diffusers_version", "diffusers"}, {"transformers_version", "transformers"}, {"peft_version", "peft"}} {
		if v := text(doc[k.key]); v != "" {
			return k.name + " " + v
		}
	}
	return ""
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// text is a setting's value in one short line.
func (s setting) text() string {
	list, ok := s.Value.([]any)
	if !ok {
		return valueText(s.Value)
	}
	const most = 12
	var words []string
	for _, v := range list {
		words = append(words, valueText(v))
	}
	if len(slices.Compact(slices.Clone(words))) == 1 && len(words) > most {
		return fmt.Sprintf("%d times %s", len(words), words[0])
	}
	if len(words) > most {
		words = append(words[:most], fmt.Sprintf("... (%d in all)", len(list)))
	}
	return strings.Join(words, ", ")
}

func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return printable(v)
	case json.Number:
		return printable(v.String())
	}
	raw, err := json.Marshal(v) // bools, null, what is nested
	if err != nil {
		return "?"
	}
	return printable(string(raw))
}
