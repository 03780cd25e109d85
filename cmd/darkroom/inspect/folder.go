package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/outside/regular"
)

// A setting is an entry of a folder's JSON that decides sizes or behaviour.
type setting struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// A folderKind is the kind of a folder by one of its files.
type folderKind struct {
	file, kind string
	weights    bool // belong to it
}

// folderKinds in the order of asking: the first whose file is there counts.
func folderKinds() []folderKind {
	return []folderKind{
		{"config.json", "model", true},
		{"adapter_config.json", "adapter", true},
		{"scheduler_config.json", "scheduler", false},
		{"tokenizer_config.json", "tokenizer", false},
		{"preprocessor_config.json", "processor", false},
	}
}

// inspectFolder understands a pipeline, or a folder of inspectPart.
func inspectFolder(path string, tensors bool) (*Document, error) {
	doc, err := readJSON(path, "model_index.json")
	if errors.Is(err, os.ErrNotExist) {
		return inspectPart(path, tensors)
	}
	if err != nil {
		return nil, err
	}
	in := &Document{Path: path, Kind: "pipeline", Class: text(doc["_class_name"]), Library: library(doc)}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(doc)) {
		pair, isPart := doc[name].([]any)
		switch {
		case strings.HasPrefix(name, "_"):
		case !isPart || len(pair) != 2:
			if doc[name] != nil {
				in.Settings = append(in.Settings, setting{name, doc[name]})
			}
		case pair[1] == nil: // a part that this pipeline may have and does not
		default:
			part, err := pipelinePart(path, name, text(pair[1]), tensors)
			if err != nil {
				part.Error = err.Error()
				errs = append(errs, err)
			}
			for _, n := range part.Notes {
				in.Notes = append(in.Notes, name+": "+n)
			}
			in.Parts = append(in.Parts, part)
		}
	}
	if len(in.Parts) == 0 {
		errs = append(errs, fmt.Errorf("%s names no part\nhint: the file is damaged; fetch it again", filepath.Join(path, "model_index.json")))
	}
	if len(errs) == 0 {
		in.Memory = pipelineMemory(path)
	}
	return in, errors.Join(errs...)
}

// pipelinePart understands one part; the result is not nil even if it fails.
func pipelinePart(pipeline, name, class string, tensors bool) (*Document, error) {
	in := &Document{Name: name, Path: filepath.Join(pipeline, name), Class: class}
	if _, err := safetensors.Locate(pipeline, name); errors.Is(err, os.ErrNotExist) {
		return in, fmt.Errorf("%s: there is no %q, but model_index.json names it\nhint: the download is not complete: fetch the folder again", pipeline, name)
	} else if err != nil {
		return in, err
	}
	part, err := inspectPart(in.Path, tensors)
	if part == nil {
		return in, err
	}
	part.Name = name
	if part.Class != "" && part.Class != class && part.Kind == "model" {
		part.Notes = append(part.Notes, fmt.Sprintf("model_index.json says %s, config.json %s", console.Printable(class), console.Printable(part.Class)))
	}
	part.Class = class
	return part, err
}

// inspectPart understands a folder that is one model, adapter, scheduler or tokenizer.
func inspectPart(path string, tensors bool) (*Document, error) {
	for _, k := range folderKinds() {
		doc, err := readJSON(path, k.file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		in := &Document{Path: path, Kind: k.kind, Class: className(doc), Library: library(doc), Settings: keySettings(doc)}
		if k.weights {
			err = in.readWeights(path, tensors)
		}
		return in, err
	}
	in := &Document{Path: path, Kind: "weights"}
	if err := in.readWeights(path, true); err != nil {
		var e *safetensors.Error
		if errors.As(err, &e) && errors.Is(err, os.ErrNotExist) && e.Path == path {
			return nil, notRecognised(path, err)
		}
		return nil, err
	}
	in.Notes = append(in.Notes, "no config.json here, so only the tensors are known")
	return in, nil
}

// notRecognised lists the files that a folder would need, and points at folders inside it that have them.
func notRecognised(path string, cause error) error {
	var inside []string
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if in, err := inspectHint(filepath.Join(path, e.Name())); err == nil && e.IsDir() {
			inside = append(inside, console.Printable(e.Name())+" ("+in+")")
		}
	}
	if len(inside) > 0 {
		more := ""
		if len(inside) > 5 {
			inside, more = inside[:5], ", ..."
		}
		return fmt.Errorf("%s: not a model folder\nhint: it holds some: %s%s", path, strings.Join(inside, ", "), more)
	}
	var e *safetensors.Error
	if errors.As(cause, &e) && !strings.HasPrefix(e.Problem, "no .safetensors file in") {
		return cause // it knows more: shards without their index
	}
	return fmt.Errorf("%s: not a model folder: it has no model_index.json, config.json, adapter_config.json or .safetensors file\nhint: name the folder that was fetched from the hub; the download may be incomplete", path)
}

// inspectHint names the kind of a folder by its files alone.
func inspectHint(path string) (string, error) {
	if _, err := os.Stat(filepath.Join(path, "model_index.json")); err == nil {
		return "pipeline", nil
	}
	for _, k := range folderKinds() {
		if _, err := os.Stat(filepath.Join(path, k.file)); err == nil {
			return k.kind, nil
		}
	}
	return "", os.ErrNotExist
}

// readJSON reads an object from a file in folder; the file may be a link only as
// the hub's cache has them.
func readJSON(folder, name string) (map[string]any, error) {
	real, err := safetensors.Locate(folder, name)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, name)
	const most = 16 << 20
	raw, err := regular.Read(real, most)
	if err != nil {
		return nil, fmt.Errorf("%w\nhint: fetch the folder again", err)
	}
	var doc map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil || doc == nil {
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("no object in it")
		}
		return nil, fmt.Errorf("%s: invalid JSON: %w\nhint: the file is damaged; fetch it again", path, err)
	}
	return doc, nil
}

// keyNames are the settings worth a line, in the order of printing: sizes by the names of the hub's libraries, then
// settings that change the arithmetic.
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

// className is a config's name for its class.
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
		return console.Printable(v)
	case json.Number:
		return console.Printable(v.String())
	}
	raw, err := json.Marshal(v) // bools, null, nested values
	if err != nil {
		return "?"
	}
	return console.Printable(string(raw))
}
