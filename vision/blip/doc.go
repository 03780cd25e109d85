// Package blip is the network of ImageReward (Xu et al., 2023): BLIP's vision transformer, a
// BERT that looks at the picture in every layer, and linear layers on its first token, by the
// parameter names of the published checkpoint.
//
//	m, err := blip.Open("image-reward", blip.Options{Device: device})
//	rewards, err := m.Rewards(ctx, prompts, pictures)
//
// Start with Open in open.go; network.go is the network, score.go asks it. A folder holds
// med_config.json, model.safetensors (the published ImageReward.pt saved as safetensors) and
// BERT's tokenizer (tokenizer.json or vocab.txt of bert-base-uncased). Pictures are
// [B, H, W, 3], channels last.
package blip
