package main

import "maps"

// A shape is a published model's folder.
type shape struct {
	name, says string
	class      string // of the pipeline; "": the folder is of one network
	scheduler  settings
	parts      []part
	absent     []string // parts that the pipeline's class has and the folder has not
	words      map[string]words
}

// A part is a network: its folder, its class and its settings.
type part struct {
	folder, class string
	settings      settings
	layers        string // the setting with the number of layers; "" without one
	drop          string // a setting that names layers, for a cut
	parameters    int    // as published; 0 for a cut network
}

// settings are of a config.json.
type settings map[string]any

// with is settings and more.
func (s settings) with(more settings) settings {
	all := maps.Clone(s)
	maps.Copy(all, more)
	return all
}

// shapes are all that can be written. Parameters are those of the published checkpoints.
func shapes() []shape {
	sd3 := func(name, says string, denoiser part) shape {
		return shape{name: name, says: says, class: "StableDiffusion3Pipeline", scheduler: flow,
			parts: []part{denoiser, {"text_encoder", "CLIPTextModelWithProjection", clipL, "", "", 123650304},
				{"text_encoder_2", "CLIPTextModelWithProjection", clipG, "", "", 694659840}, {"vae", "AutoencoderKL", vaeSD3, "", "", 83819683}},
			absent: []string{"text_encoder_3", "tokenizer_3", "feature_extractor", "image_encoder"},
			words:  map[string]words{"tokenizer": clipWords("<|endoftext|>"), "tokenizer_2": clipWords("!")}}
	}
	return []shape{
		sd3("sd3-medium", "2.0 billion, no T5", part{"transformer", "SD3Transformer2DModel", sd3Medium, "num_layers", "", 2028328000}),
		sd3("sd3.5-medium", "2.2 billion, no T5", part{"transformer", "SD3Transformer2DModel", sd35Medium, "num_layers", "dual_attention_layers", 2243171520}),
		sd3("sd3.5-large", "8.1 billion, no T5", part{"transformer", "SD3Transformer2DModel", sd35Large, "num_layers", "", 8056627520}),
		{name: "flux.1-dev", says: "11.9 billion; T5 of one layer", class: "FluxPipeline", scheduler: fluxFlow,
			parts: []part{{"transformer", "FluxTransformer2DModel", fluxDev, "num_layers", "", 11901408320},
				{"text_encoder", "CLIPTextModel", clipL, "", "", 123060480}, {"text_encoder_2", "T5EncoderModel", t5One, "", "", 0},
				{"vae", "AutoencoderKL", vaeFlux, "", "", 83819683}},
			absent: []string{"feature_extractor", "image_encoder"},
			words:  map[string]words{"tokenizer": clipWords("<|endoftext|>"), "tokenizer_2": t5Words()}},
		{name: "sd1.5", says: "0.86 billion", class: "StableDiffusionPipeline", scheduler: ladder,
			parts: []part{{"unet", "UNet2DConditionModel", unetSD15, "", "", 859520964}, {"text_encoder", "CLIPTextModel", clipL, "", "", 123060480},
				{"vae", "AutoencoderKL", vaeSD15, "", "", 83653863}},
			absent: []string{"safety_checker", "feature_extractor", "image_encoder"}, words: map[string]words{"tokenizer": clipWords("<|endoftext|>")}},
		{name: "wan2.1-1.3b", says: "1.4 billion, clips; UMT5 of one layer", class: "WanPipeline", scheduler: unipc,
			parts: []part{{"transformer", "WanTransformer3DModel", wan13, "num_layers", "", 1418996800}, {"vae", "AutoencoderKLWan", settings{}, "", "", 126892531},
				{"text_encoder", "UMT5EncoderModel", umt5, "", "", 0}},
			absent: []string{"transformer_2"}, words: map[string]words{"tokenizer": t5Words()}},
		{name: "qwen-image-6", says: "Qwen-Image's first 6 of 60 layers; Qwen2.5-VL of one layer", class: "QwenImagePipeline", scheduler: dynamic,
			parts: []part{{"transformer", "QwenImageTransformer2DModel", qwenImage, "num_layers", "", 0}, {"vae", "AutoencoderKLQwenImage", settings{}, "", "", 126892531},
				{"text_encoder", "Qwen2_5_VLForConditionalGeneration", qwenVL, "", "", 0}},
			words: map[string]words{"tokenizer": qwenWords()}},
		{name: "qwen2.5-vl-7b", says: "8.3 billion, reads pictures and answers; darkroom is told the template's name, qwen2_5_vl",
			parts: []part{{"", "Qwen2_5_VLForConditionalGeneration", qwenVL7, "num_hidden_layers", "", 8292166656}},
			words: map[string]words{"": qwenWords().seeing(qwenSight)}},
	}
}

// cut is the shape with fewer layers; 0: all.
func (s shape) cut(layers int) shape {
	if layers == 0 {
		return s
	}
	d := s.parts[0]
	if d.parameters = 0; d.layers != "" {
		whole := d.settings[d.layers].(int)
		d.settings = d.settings.with(settings{d.layers: layers})
		if single, ok := d.settings["num_single_layers"].(int); ok { // FLUX's second kind, in proportion
			d.settings["num_single_layers"] = max(1, single*layers/whole)
		}
	}
	if all, ok := d.settings[d.drop].([]int); ok {
		d.settings[d.drop] = all[:min(len(all), layers)]
	}
	s.parts = append([]part{d}, s.parts[1:]...)
	return s
}

// Settings of the published folders, where they differ from the defaults of diffusers and transformers.
var (
	sd3Any = settings{"sample_size": 128, "patch_size": 2, "in_channels": 16, "out_channels": 16, "attention_head_dim": 64,
		"joint_attention_dim": 4096, "pooled_projection_dim": 2048}
	sd3Medium  = sd3Any.with(settings{"num_layers": 24, "num_attention_heads": 24, "caption_projection_dim": 1536, "pos_embed_max_size": 192})
	sd35Medium = sd3Medium.with(settings{"pos_embed_max_size": 384, "qk_norm": "rms_norm", "dual_attention_layers": []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}})
	sd35Large  = sd3Any.with(settings{"num_layers": 38, "num_attention_heads": 38, "caption_projection_dim": 2432, "pos_embed_max_size": 192, "qk_norm": "rms_norm"})

	unetSD15 = settings{"sample_size": 64, "in_channels": 4, "out_channels": 4, "cross_attention_dim": 768, "attention_head_dim": 8,
		"block_out_channels": []int{320, 640, 1280, 1280}, "layers_per_block": 2, "norm_num_groups": 32, "norm_eps": 1e-5,
		"down_block_types":    []string{"CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"},
		"up_block_types":      []string{"UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"},
		"flip_sin_to_cos":     true,
		"freq_shift":          0,
		"act_fn":              "silu",
		"center_input_sample": false}

	wan13 = settings{"num_layers": 30, "num_attention_heads": 12, "attention_head_dim": 128, "ffn_dim": 8960, "freq_dim": 256, "text_dim": 4096,
		"in_channels": 16, "out_channels": 16, "patch_size": []int{1, 2, 2}, "cross_attn_norm": true, "qk_norm": "rms_norm_across_heads", "eps": 1e-6}
	qwenImage = settings{"num_layers": 6, "num_attention_heads": 24, "attention_head_dim": 128, "joint_attention_dim": 3584,
		"in_channels": 64, "out_channels": 16, "patch_size": 2, "axes_dims_rope": []int{16, 56, 56}, "guidance_embeds": false}
	// Of layers with two streams num_layers are; 38 more have one.
	fluxDev = settings{"num_layers": 19, "num_single_layers": 38, "num_attention_heads": 24, "attention_head_dim": 128, "joint_attention_dim": 4096,
		"pooled_projection_dim": 768, "in_channels": 64, "patch_size": 1, "axes_dims_rope": []int{16, 56, 56}, "guidance_embeds": true}

	vaeAny = settings{"in_channels": 3, "out_channels": 3, "block_out_channels": []int{128, 256, 512, 512}, "layers_per_block": 2, "norm_num_groups": 32, "act_fn": "silu",
		"down_block_types": []string{"DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D"},
		"up_block_types":   []string{"UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D"}}
	vaeSD3 = vaeAny.with(settings{"latent_channels": 16, "sample_size": 1024, "scaling_factor": 1.5305, "shift_factor": 0.0609,
		"use_quant_conv": false, "use_post_quant_conv": false, "force_upcast": true})
	vaeFlux = vaeSD3.with(settings{"scaling_factor": 0.3611, "shift_factor": 0.1159})
	vaeSD15 = vaeAny.with(settings{"latent_channels": 4, "sample_size": 512, "scaling_factor": 0.18215})

	clipAny = settings{"model_type": "clip_text_model", "vocab_size": clipVocabulary, "max_position_embeddings": 77, "layer_norm_eps": 1e-5,
		"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
	clipL = clipAny.with(settings{"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_act": "quick_gelu", "projection_dim": 768})
	clipG = clipAny.with(settings{"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32, "num_attention_heads": 20, "hidden_act": "gelu", "projection_dim": 1280})

	umt5 = settings{"model_type": "umt5", "vocab_size": t5Vocabulary, "d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 64,
		"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new", "is_gated_act": true, "layer_norm_epsilon": 1e-6,
		"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
	t5One  = umt5.with(settings{"model_type": "t5"})
	qwenVL = settings{"model_type": "qwen2_5_vl", "vocab_size": qwenVocabulary, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 1,
		"num_attention_heads": 28, "num_key_value_heads": 4, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 128000,
		"tie_word_embeddings": false, "use_sliding_window": false, "rope_scaling": settings{"type": "mrope", "mrope_section": []int{16, 24, 24}},
		"bos_token_id": qwenSpecial, "eos_token_id": qwenSpecial + 1, "vision_start_token_id": qwenSpecial + 3, "vision_end_token_id": qwenSpecial + 4,
		"image_token_id": qwenSpecial + 5, "video_token_id": qwenSpecial + 6,
		"vision_config": settings{"model_type": "qwen2_5_vl", "depth": 1, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 3584,
			"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 112, "fullatt_block_indexes": []int{0}, "hidden_act": "silu", "in_channels": 3, "tokens_per_second": 2}}

	qwenVL7 = qwenVL.with(settings{"vocab_size": 152064, "num_hidden_layers": 28,
		"vision_config": qwenVL["vision_config"].(settings).with(settings{"depth": 32, "fullatt_block_indexes": []int{7, 15, 23, 31}})})
	qwenSight = settings{"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 14, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": 3136, "max_pixels": 12845056,
		"image_mean": []float64{0.48145466, 0.4578275, 0.40821073}, "image_std": []float64{0.26862954, 0.26130258, 0.27577711}, "rescale_factor": 1. / 255}

	flow     = settings{"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 3.0}
	fluxFlow = flow.with(settings{"use_dynamic_shifting": true, "base_image_seq_len": 256, "base_shift": 0.5, "max_image_seq_len": 4096, "max_shift": 1.15})
	dynamic  = flow.with(settings{"shift": 1.0, "use_dynamic_shifting": true, "base_image_seq_len": 256, "base_shift": 0.5, "max_image_seq_len": 8192, "max_shift": 0.9,
		"shift_terminal": 0.02, "time_shift_type": "exponential"})
	unipc = settings{"_class_name": "UniPCMultistepScheduler", "num_train_timesteps": 1000, "prediction_type": "flow_prediction", "use_flow_sigmas": true, "flow_shift": 3.0,
		"solver_order": 2, "solver_type": "bh2", "final_sigmas_type": "zero", "timestep_spacing": "linspace"}
	ladder = settings{"_class_name": "DDIMScheduler", "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "num_train_timesteps": 1000,
		"clip_sample": false, "set_alpha_to_one": false, "steps_offset": 1, "prediction_type": "epsilon", "timestep_spacing": "leading"}
)
