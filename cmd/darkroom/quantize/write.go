package quantize

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/edition"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// A writer compresses a model.
type writer struct {
	options
	said    func(done, all int)
	stopped func() error
	report  Report
}

func (w *writer) run() (*Report, error) {
	w.report.Out, w.report.As = w.out, w.as
	st, err := os.Stat(w.model)
	switch {
	case err != nil:
		return nil, err
	case !st.IsDir():
		err = w.file()
	default:
		err = edition.Make(w.model, w.out, w.folder)
	}
	w.report.sort()
	return &w.report, err
}

// file compresses a single file.
func (w *writer) file() error {
	if strings.EqualFold(filepath.Ext(w.model), ".gguf") {
		return compressed(w.model, "GGUF")
	}
	if len(w.parts) > 0 {
		return fmt.Errorf("--parts is of a pipeline's folder, and %s is a file", w.model)
	}
	saving := w.saving()
	switch w.as {
	case "fp8":
		saving = quant.ComfyFloat8()
	case "int8":
		saving = quant.ComfyInt8()
	}
	out := w.out
	if filepath.Ext(out) != ".safetensors" {
		stem := strings.TrimSuffix(filepath.Base(w.model), filepath.Ext(w.model))
		out = filepath.Join(w.out, stem+"-"+w.as+".safetensors")
	}
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s: it exists already; name a file that does not", out)
	}
	w.report.Out = out
	set, err := safetensors.OpenFolder(w.model)
	if err != nil {
		return err
	}
	defer set.Close()
	n := &network{writer: w, from: w.model, set: set, saving: saving, choice: choice{Choice: quant.Choice{Blocks: w.as == "fp8" || w.as == "int8"}, kept: w.kept}}
	if err := n.write(filepath.Dir(out), strings.TrimSuffix(filepath.Base(out), ".safetensors"), math.MaxInt64); err != nil {
		return err
	}
	return n.verify(out)
}

func (w *writer) saving() quant.Saving {
	if w.as == "int8" {
		return quant.BitsandbytesInt8()
	}
	if w.as == "fp8" {
		return quant.ComfyFloat8()
	}
	return quant.Bitsandbytes4(w.as, w.nested)
}

// folder compresses a pipeline, or one network.
func (w *writer) folder(c edition.Copy) error {
	index, err := readJSON(filepath.Join(w.model, "model_index.json"))
	if errors.Is(err, fs.ErrNotExist) {
		if len(w.parts) > 0 {
			return fmt.Errorf("--parts is of a pipeline's folder, and %s has no model_index.json", w.model)
		}
		return w.part(c, ".")
	}
	if err != nil {
		return err
	}
	if err := c.Settings("."); err != nil {
		return err
	}
	all := slices.DeleteFunc(slices.Sorted(maps.Keys(index)), func(name string) bool {
		st, err := os.Stat(filepath.Join(w.model, name))
		return strings.HasPrefix(name, "_") || err != nil || !st.IsDir()
	})
	parts := w.parts
	if len(parts) == 0 {
		for _, name := range []string{"transformer", "transformer_2", "unet"} {
			if slices.Contains(all, name) {
				parts = append(parts, name)
			}
		}
	}
	for _, name := range parts {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%s has no part %q\nhint: --parts names one or more of %s", w.model, name, strings.Join(all, ", "))
		}
	}
	if len(parts) == 0 {
		return fmt.Errorf("%s: no transformer and no unet\nhint: --parts names one or more of %s", w.model, strings.Join(all, ", "))
	}
	for _, name := range all {
		if slices.Contains(parts, name) {
			err = w.part(c, name)
		} else {
			w.report.Copied = append(w.report.Copied, name)
			err = c.Part(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// part compresses a network's folder.
func (w *writer) part(c edition.Copy, below string) error {
	from, to := filepath.Join(c.From, below), filepath.Join(c.To, below)
	config, err := readJSON(filepath.Join(from, "config.json"))
	if err != nil {
		return fmt.Errorf("%w\nhint: a network's folder has its settings in config.json", err)
	}
	if _, ok := config["quantization_config"]; ok {
		return compressed(from, "config.json has a quantization_config")
	}
	if err := c.Settings(below); err != nil {
		return err
	}
	set, err := safetensors.OpenFolder(from)
	if err != nil {
		return err
	}
	defer set.Close()
	n := &network{writer: w, from: from, set: set, saving: w.saving(), prefix: below + ": ", choice: choice{kept: w.kept}}
	if below == "." {
		n.prefix = ""
	}
	base := "model"
	class, diffusers := quant.ClassOf(config)
	if diffusers {
		base = "diffusion_pytorch_model"
	}
	n.Choice = quant.ChoiceOf(w.as, class, diffusers)
	if w.as == "fp8" && !diffusers {
		n.saving = quant.BlockFloat8()
	}
	if err := n.write(to, base, safetensors.UsualShard); err != nil {
		return err
	}
	if w.as == "fp8" && diffusers {
		w.report.Notes = append(w.report.Notes, n.prefix+"diffusers has no reader of fp8 with scales; Darkroom reads the folder, and ComfyUI such layers")
	} else {
		config["quantization_config"] = w.settings(n)
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "config.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return n.verify(to)
}

// settings are the quantization_config that diffusers and transformers read.
func (w *writer) settings(n *network) map[string]any {
	var skip any // null: the reader's own
	if names := n.skipped(n.infos()); names != nil {
		skip = names
	}
	if w.as == "fp8" {
		return map[string]any{"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": []int{128, 128}, "modules_to_not_convert": skip}
	}
	four := w.as != "int8"
	kind := w.as
	if !four {
		kind = "fp4"
	}
	compute := map[safetensors.DType]string{safetensors.BF16: "bfloat16", safetensors.F16: "float16"}[n.precision]
	if compute == "" {
		compute = "float32"
	}
	return map[string]any{"quant_method": "bitsandbytes", "load_in_4bit": four, "load_in_8bit": !four, "_load_in_4bit": four, "_load_in_8bit": !four,
		"bnb_4bit_compute_dtype": compute, "bnb_4bit_quant_storage": "uint8", "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": four && w.nested,
		"llm_int8_enable_fp32_cpu_offload": false, "llm_int8_has_fp16_weight": false, "llm_int8_skip_modules": skip, "llm_int8_threshold": json.Number("6.0")}
}

// A network is a set of weights that is being compressed.
type network struct {
	*writer
	choice
	from      string
	set       *safetensors.Set
	saving    quant.Saving
	prefix    string            // of names in the report
	precision safetensors.DType // of the first matrix
	sums      map[string][]uint32
}

func (n *network) infos() []safetensors.Info {
	var all []safetensors.Info
	for _, name := range n.set.Names() {
		info, _ := n.set.Info(name)
		all = append(all, info)
	}
	return all
}

// A piece is a saved tensor's place among those of its matrix; a tensor that stays has no matrix.
type piece struct {
	source safetensors.Info
	number int
	matrix bool
}

// write compresses the network's matrices, one after another.
func (n *network) write(dir, base string, most int64) error {
	var tensors []safetensors.Tensor
	pieces, all := map[string]piece{}, 0
	for _, info := range n.infos() {
		if quant.Extra(info.Name) || info.DType == safetensors.F8E4M3 || info.DType == safetensors.F8E5M2 || info.DType == safetensors.I8 {
			return compressed(n.from, info.Name+" in "+info.DType.String())
		}
		if !n.compresses(info) {
			tensors, pieces[info.Name] = append(tensors, safetensors.Tensor{Name: info.Name, DType: info.DType, Shape: info.Shape}), piece{source: info}
			n.report.Plain++
			n.report.Before, n.report.After = n.report.Before+info.Bytes, n.report.After+info.Bytes
			continue
		}
		if all++; all == 1 {
			n.precision = info.DType
		}
		n.report.Before += info.Bytes
		for i, t := range n.saving.Tensors(info.Name, info.DType, info.Shape) {
			tensors, pieces[t.Name] = append(tensors, t), piece{info, i, true}
		}
	}
	if all == 0 {
		return fmt.Errorf("%s: nothing to compress: no matrix of a linear layer in %d tensors\nhint: matrices end in .weight; --keep keeps those that it names", n.from, len(tensors))
	}
	n.sums = map[string][]uint32{}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return safetensors.WriteMade(dir, base, tensors, map[string]string{"format": "pt"}, most, func(shard []safetensors.Tensor, put safetensors.Put) error {
		places := map[string][]int{} // of a source's tensors in the shard
		var order []string
		for i, t := range shard {
			name := pieces[t.Name].source.Name
			if places[name] == nil {
				order = append(order, name)
			}
			places[name] = append(places[name], i)
		}
		for _, name := range order {
			if err := n.stopped(); err != nil {
				return err
			}
			if err := n.one(shard, places[name], pieces, put); err != nil {
				return err
			}
			n.said(len(n.sums), all)
		}
		return nil
	})
}

// one writes a source's tensors.
func (n *network) one(shard []safetensors.Tensor, places []int, pieces map[string]piece, put safetensors.Put) error {
	p := pieces[shard[places[0]].Name]
	t, err := n.set.Tensor(p.source.Name)
	if err != nil {
		return err
	}
	defer n.set.Drop(p.source.Name)
	if !p.matrix {
		return put(places[0], 0, t.Data)
	}
	values, err := t.Float32(nil)
	if err != nil {
		return err
	}
	for _, v := range values {
		if d := v - v; d != 0 {
			return fmt.Errorf("%s: %s has values that are not finite\nhint: the file is damaged, or training has diverged", n.set.Where(p.source.Name), p.source.Name)
		}
	}
	data, m := n.saving.Save(p.source.Name, p.source.DType, p.source.Shape, slices.Values([][]float32{values}))
	for _, i := range places {
		bytes := data[pieces[shard[i].Name].number]
		n.report.After += int64(len(bytes))
		if err := put(i, 0, bytes); err != nil {
			return err
		}
	}
	if n.sums[p.source.Name] == nil { // else it went on in another shard
		n.sums[p.source.Name] = m.Fingerprint()
		n.report.add(n.prefix+p.source.Name, m.Distance(values), len(values))
	}
	return nil
}

// verify reads the written file: matrices unpack to the same values, and the rest is equal.
func (n *network) verify(path string) error {
	set, err := safetensors.OpenFolder(path)
	if err != nil {
		return err
	}
	defer set.Close()
	plain, err := quant.Expand(set, set.Metadata)
	if err != nil {
		return err
	}
	read, ok := plain.(*quant.Expanded)
	if !ok {
		return fmt.Errorf("%s: no compressed matrix is found in it again", path)
	}
	for _, info := range n.infos() {
		m, compressed, err := read.Matrix(info.Name)
		if err != nil {
			return err
		}
		same := false
		if sums := n.sums[info.Name]; sums != nil {
			same = compressed && slices.Equal(m.Shape, info.Shape) && slices.Equal(m.Fingerprint(), sums)
		} else {
			same, err = n.unchanged(set, info.Name)
			if err != nil {
				return err
			}
		}
		if !same {
			return fmt.Errorf("%s: %s has other values than were written\nhint: the disk has lost them; write again, elsewhere", path, info.Name)
		}
		set.Drop(info.Name)
	}
	return nil
}

// unchanged compares a tensor that stayed.
func (n *network) unchanged(written *safetensors.Set, name string) (bool, error) {
	a, err1 := n.set.Tensor(name)
	b, err2 := written.Tensor(name)
	defer n.set.Drop(name)
	return bytes.Equal(a.Data, b.Data), errors.Join(err1, err2)
}

// compressed refuses a compressed model.
func compressed(path, why string) error {
	return fmt.Errorf("%s: it is compressed already (%s)\nhint: quantize the model in bf16", path, why)
}

func readJSON(path string) (map[string]any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var doc map[string]any
	if err := decoder.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}
