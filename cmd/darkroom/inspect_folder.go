package main

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

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/outside/regular"
)

// A setting is an entry of a folder's JSON that decides sizes or behaviour.
type setting struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// A folderKind is what a file makes of the folder that it lies in.
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

// inspectFolder understands a pipeline, or what inspectPart does.
func inspectFolder(path string, tensors bool) (*inspected, error) {
	doc, err := readJSON(path, "model_index.json")
	if errors.Is(err, os.ErrNotExist) {
		return inspectPart(path, tensors)
	}
	if err != nil {
		return nil, err
	}
	in := &inspected{Path: path, Kind: "pipeline", Class: text(doc["_class_name"]), Library: library(doc)}
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
func pipelinePart(pipeline, name, class string, tensors bool) (*inspected, error) {
	in := &inspected{Name: name, Path: filepath.Join(pipeline, name), Class: class}
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
		part.Notes = append(part.Notes, fmt.Sprintf("model_index.json says %s, config.json %s", printable(class), printable(part.Class)))
	}
	part.Class = class
	return part, err
}

// inspectPart understands a folder that is one model, adapter, scheduler or tokenizer.
func inspectPart(path string, tensors bool) (*inspected, error) {
	for _, k := range folderKinds() {
		doc, err := readJSON(path, k.file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		in := &inspected{Path: path, Kind: k.kind, Class: className(doc), Library: library(doc), Settings: keySettings(doc)}
		if k.weights {
			err = in.readWeights(path, tensors)
		}
		return in, err
	}
	in := &inspected{Path: path, Kind: "weights"}
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

// notRecognised says what a folder would have to hold, and points at folders inside it that do.
func notRecognised(path string, cause error) error {
	var inside []string
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if in, err := inspectHint(filepath.Join(path, e.Name())); err == nil && e.IsDir() {
			inside = append(inside, printable(e.Name())+" ("+in+")")
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
