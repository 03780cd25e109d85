package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// library is who has a class.
func library(class string) string {
	if strings.Contains(class, "Text") || strings.Contains(class, "T5") || strings.Contains(class, "Qwen2") || strings.Contains(class, "Tokenizer") {
		return "transformers"
	}
	return "diffusers"
}

// base is the name of a class's files of weights.
func base(class string) string {
	if library(class) == "transformers" {
		return "model"
	}
	return "diffusion_pytorch_model"
}

// write writes the folder, and calls done for each part.
func (s shape) write(o options, done func(part string, parameters int)) error {
	for name, w := range s.words {
		if err := w.write(filepath.Join(o.out, name)); err != nil {
			return err
		}
	}
	for _, p := range s.parts {
		n, err := p.write(o)
		if err != nil {
			return fmt.Errorf("%s: %w", p.folder, err)
		}
		done(cmp.Or(p.folder, "network"), n)
	}
	if s.class == "" {
		return nil
	}
	if err := writeJSON(filepath.Join(o.out, "scheduler", "scheduler_config.json"), s.scheduler); err != nil {
		return err
	}
	return writeJSON(filepath.Join(o.out, "model_index.json"), s.index())
}

// index is a pipeline's table of contents.
func (s shape) index() settings {
	index := settings{"_class_name": s.class, "_diffusers_version": "0.42.1", "scheduler": []string{"diffusers", s.scheduler["_class_name"].(string)}}
	if s.class == "StableDiffusionPipeline" {
		index["requires_safety_checker"] = false
	}
	for _, name := range s.absent {
		index[name] = []any{nil, nil}
	}
	for name, w := range s.words {
		index[name] = []string{"transformers", w.class}
	}
	for _, p := range s.parts {
		index[p.folder] = []string{library(p.class), p.class}
	}
	return index
}

// describe writes a part's settings.
func (p part) describe(dir string) error {
	named := settings{"_class_name": p.class, "_diffusers_version": "0.42.1"}
	if library(p.class) == "transformers" {
		named = settings{"architectures": []string{p.class}}
	}
	return writeJSON(filepath.Join(dir, "config.json"), p.settings.with(named))
}

// write writes a part, and says how many parameters it has.
func (p part) write(o options) (int, error) {
	dir := filepath.Join(o.out, p.folder)
	if err := p.describe(dir); err != nil {
		return 0, err
	}
	asked, err := networks[p.class].asked(dir)
	if err != nil {
		return 0, err
	}
	all, n := tensors(asked, o.dtype)
	if p.parameters > 0 && n != p.parameters {
		return n, fmt.Errorf("%d parameters, and %d were published", n, p.parameters)
	}
	if o.bare {
		return n, nil
	}
	key := rng.New(o.seed).With(rng.Purpose(p.folder))
	return n, safetensors.WriteMade(dir, base(p.class), all, map[string]string{"format": "pt"}, o.shard, func(shard []safetensors.Tensor, put safetensors.Put) error { return draw(shard, key, put) })
}

func writeJSON(path string, v any) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
