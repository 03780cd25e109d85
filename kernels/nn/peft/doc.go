// Package peft reads and writes LoRA adapters in the two layouts that people exchange:
//
//	PEFT       a folder with adapter_config.json and adapter_model.safetensors, names
//	           "base_model.model.MODULE.lora_A.weight"
//	diffusers  one file pytorch_lora_weights.safetensors for a whole pipeline, names
//	           "transformer.MODULE.lora_A.weight" ("unet.", "text_encoder.", ...), settings in
//	           the header's metadata, or ".alpha" tensors, or none: then alpha is the rank
//
// A third one, kohya's, is written and not read (kohya.go).
//
// Start with Open. A request of an adapter that is not supported here (DoRA, biases, whole modules) is an error that
// names it.
package peft
