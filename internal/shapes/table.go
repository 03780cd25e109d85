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
	layers        string // the setting with the number of layers; "": there is none
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
		d.settings = d.settings.with(settings{d.layers: layers})
	}
	if all, ok := d.settings[d.drop].([]int); ok {
		d.settings[d.drop] = all[:min(len(all), layers)]
	}
	s.parts = append([]part{d}, s.parts[1:]...)
	return s
}
