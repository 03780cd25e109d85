package edition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// numberOfShard is the end of a shard's name.
var numberOfShard = regexp.MustCompile(`-\d{5}-of-\d{5}$`)

// unpacked copies a folder of compressed weights as a plain one. Matrices have the precision that their format gives
// them, bf16 as a rule: values that are changed are added in fp32, and rounded once. Compressed again they would lose
// most of a change, so that no compressed copy is written. A matrix at a time is in memory.
func (c Copy) unpacked(below string, set *safetensors.Set, e *quant.Expanded, change Change) error {
	if err := c.files(below, func(file string) bool { return !isWeights(file) }); err != nil {
		return err
	}
	left := slices.Clone(change.Names())
	var headers []safetensors.Tensor
	for _, name := range e.Names() {
		m, compressed, err := e.Matrix(name)
		if err != nil {
			return err
		}
		t := safetensors.Tensor{Name: name, DType: m.DType, Shape: m.Shape}
		if !compressed {
			info, _ := set.Info(name)
			t.DType, t.Shape = info.DType, info.Shape
		}
		headers = append(headers, t)
		if i := slices.Index(left, name); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%s: the model has no such layer: %s\nhint: name the folder of the model that was trained", filepath.Join(c.From, below), left[0])
	}
	base := numberOfShard.ReplaceAllString(strings.TrimSuffix(filepath.Base(set.Files[0].Path), ".safetensors"), "")
	to := filepath.Join(c.To, below)
	err := safetensors.WriteMade(to, base, headers, set.Files[0].Metadata, safetensors.UsualShard, func(shard []safetensors.Tensor, put safetensors.Put) error {
		for i, header := range shard {
			t, err := c.plain(e, header, change)
			if err != nil {
				return fmt.Errorf("%s: %w", set.Where(header.Name), err)
			}
			if err := put(i, 0, t.Data); err != nil {
				return err
			}
			e.Drop(header.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return plainSettings(filepath.Join(to, "config.json"))
}

// plain is a tensor of the copy.
func (c Copy) plain(e *quant.Expanded, header safetensors.Tensor, change Change) (safetensors.Tensor, error) {
	stored, err := e.Tensor(header.Name)
	if err != nil || !slices.Contains(change.Names(), header.Name) {
		return stored, err
	}
	if _, compressed, err := e.Matrix(header.Name); err != nil || !compressed {
		if err != nil {
			return stored, err
		}
		return change.Of(stored)
	}
	values, err := stored.Float32(nil)
	if err != nil {
		return stored, err
	}
	changed, err := change.Of(safetensors.FromF32(header.Name, header.Shape, values))
	if err != nil {
		return stored, err
	}
	exact, err := changed.Float32(nil)
	if err != nil {
		return stored, err
	}
	rounded, err := safetensors.FromFloat32(header.Name, header.DType, header.Shape, exact)
	if counter, ok := change.(Counter); ok && err == nil {
		counter.Rounded(squares(exact, values), squares(valuesOf(rounded), exact))
	}
	return rounded, err
}

func valuesOf(t safetensors.Tensor) []float32 {
	x, _ := t.Float32(nil) // FromFloat32 made it
	return x
}

// squares are summed, of differences.
func squares(a, b []float32) (sum float64) {
	for i, x := range a {
		d := float64(x) - float64(b[i])
		sum += float64(d * d)
	}
	return sum
}

// plainSettings takes the quantization_config out of a folder's config.json, if it has one.
func plainSettings(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var doc map[string]any
	if err := decoder.Decode(&doc); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if _, ok := doc["quantization_config"]; !ok {
		return nil
	}
	delete(doc, "quantization_config")
	if text, err = json.MarshalIndent(doc, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
