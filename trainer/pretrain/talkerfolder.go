package pretrain

import (
	_ "embed"
	"os"
	"path/filepath"
	"slices"
)

// What a talker's folder has beside weights: config.json, the tokenizer, how pictures are read.

//go:embed chat_template.jinja
var chatTemplate []byte // Qwen2.5-VL's (Apache 2.0), as published

// settings is config.json.
func (t *Talker) settings(vocabulary int) map[string]any {
	m := t.Model
	pairs := m.Width / m.Heads / 2
	id := func(token string) int {
		return vocabulary - len(specialTokens) - len(plainTokens) + slices.Index(specialTokens, token)
	}
	return map[string]any{"architectures": []string{"Qwen2_5_VLForConditionalGeneration"}, "model_type": "qwen2_5_vl", "torch_dtype": "bfloat16",
		"vocab_size": vocabulary, "hidden_size": m.Width, "intermediate_size": m.Inner, "num_hidden_layers": m.Layers, "num_attention_heads": m.Heads,
		"num_key_value_heads": m.KVHeads, "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0, "max_position_embeddings": 4096,
		"rope_scaling":        map[string]any{"type": "mrope", "mrope_section": []int{pairs - 2*(3*pairs/8), 3 * pairs / 8, 3 * pairs / 8}},
		"tie_word_embeddings": true, "image_token_id": id("<|image_pad|>"), "video_token_id": id("<|video_pad|>"),
		"vision_start_token_id": id("<|vision_start|>"), "vision_end_token_id": id("<|vision_end|>"), "eos_token_id": id("<|im_end|>"), "bos_token_id": id("<|endoftext|>"),
		"vision_config": map[string]any{"model_type": "qwen2_5_vl", "depth": m.VisionLayers, "hidden_size": m.VisionWidth, "intermediate_size": m.VisionInner,
			"num_heads": m.VisionHeads, "out_hidden_size": m.Width, "patch_size": m.Patch, "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3, "in_chans": 3,
			"window_size": 8 * m.Patch, "fullatt_block_indexes": []int{m.VisionLayers - 1}, "tokens_per_second": 2, "hidden_act": "silu"}}
}

// Frame writes what the folder has beside weights.
func (t *Talker) Frame(dir string) error {
	n, err := writeBytePairs(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "chat_template.jinja"), chatTemplate, 0o644); err != nil {
		return err
	}
	m := t.Model
	if err := writeJSON(filepath.Join(dir, "preprocessor_config.json"), map[string]any{
		"image_processor_type": "Qwen2VLImageProcessor", "patch_size": m.Patch, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": m.Least * m.Least, "max_pixels": m.Most * m.Most,
		"do_resize": true, "do_rescale": true, "do_normalize": true, "do_convert_rgb": true, "rescale_factor": 1.0 / 255, "resample": 3,
		"image_mean": []float64{0.48145466, 0.4578275, 0.40821073}, "image_std": []float64{0.26862954, 0.26130258, 0.27577711}}); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "config.json"), t.settings(n))
}
