package peft

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

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Settings has both layouts' settings of an adapter.
type Settings struct {
	Rank         int      `json:"r"`
	Alpha        float64  `json:"lora_alpha"`
	RSLoRA       bool     `json:"use_rslora"`
	Dropout      float64  `json:"lora_dropout"`
	RankPattern  Patterns `json:"rank_pattern"` // held against the tensors
	AlphaPattern Patterns `json:"alpha_pattern"`

	Base string `json:"-"` // the model's name, in settings that are written

	DoRA     bool            `json:"use_dora"`
	Bias     string          `json:"bias"`
	LoRABias bool            `json:"lora_bias"`
	Save     json.RawMessage `json:"modules_to_save"`
	FanIn    bool            `json:"fan_in_fan_out"`
	Kind     string          `json:"peft_type"`
}

// supported names the first thing that is asked for and not done here.
func (s Settings) supported() error {
	switch {
	case s.Kind != "" && s.Kind != "LORA":
		return fmt.Errorf("peft_type is %q; LORA is known", s.Kind)
	case s.DoRA:
		return fmt.Errorf("use_dora: DoRA is not known; a plain LoRA is needed")
	case s.Bias != "" && s.Bias != "none" || s.LoRABias:
		return fmt.Errorf("bias: adapters that train biases are not known")
	case len(s.Save) > 0 && string(s.Save) != "null" && string(s.Save) != "[]":
		return fmt.Errorf("modules_to_save: %s is stored whole, which is not known", s.Save)
	case s.FanIn:
		return fmt.Errorf("fan_in_fan_out: transposed layers are not known")
	}
	if err := s.RankPattern.check("rank_pattern"); err != nil {
		return err
	}
	return s.AlphaPattern.check("alpha_pattern")
}

// Adapter is an adapter's file, open.
type Adapter struct {
	path     string
	config   string // the file of its settings; "": they are in path, or nowhere
	set      source
	names    map[string]string // "MODULE.lora_A.weight" under a component's prefix: the file's name
	prefix   string
	settings Settings
	said     bool              // the settings were found
	given    map[string]string // the file's name of a renamed layer
}

type source interface {
	nn.Source
	Close() error
}

// Files are those that an adapter is read from: its weights, and before them the settings that PEFT's folders have.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	config := filepath.Join(path, "adapter_config.json")
	if _, err := os.Stat(config); err == nil {
		return []string{config, filepath.Join(path, "adapter_model.safetensors")}, nil
	}
	file := filepath.Join(path, "pytorch_lora_weights.safetensors")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there is no adapter in this folder\nhint: PEFT's have adapter_config.json, diffusers' pytorch_lora_weights.safetensors; a run is named as RUN or with --run, not with --lora", path)
	}
	return []string{file}, nil
}

// Open opens a PEFT folder, or a folder or file of diffusers'; component is the model's name in a pipeline:
// "transformer", "unet", "text_encoder".
func Open(path, component string) (*Adapter, error) {
	a := &Adapter{path: path, prefix: component + ".", names: map[string]string{}}
	files, err := Files(path)
	if err != nil {
		return nil, err
	}
	file := files[len(files)-1]
	if len(files) > 1 {
		var keys map[string]json.RawMessage
		if err := hub.JSON(files[0], &keys); err != nil {
			return nil, err
		}
		if err := a.says(keys); err != nil {
			return nil, fmt.Errorf("%s: %w", files[0], err)
		}
		a.prefix, a.config = "base_model.model.", files[0]
	}
	f, err := safetensors.Open(file)
	if err != nil {
		return nil, err
	}
	a.path, a.set = file, f
	if err := a.read(f, component); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return a, nil
}

// read understands names and settings.
func (a *Adapter) read(f *safetensors.File, component string) error {
	if !a.said {
		if text := f.Metadata["lora_adapter_metadata"]; text != "" {
			if err := a.metadata(text, component); err != nil {
				return err
			}
		}
	}
	other, err := a.translate(f)
	if err != nil {
		return err
	}
	foreign := ""
	for _, name := range f.Names() {
		rest, ok := strings.CutPrefix(name, a.prefix)
		if !ok {
			if _, read := foreignLayer(name); !other || !read {
				foreign = name
			}
			continue
		}
		a.names[today(rest)] = name
	}
	if len(a.modules()) == 0 {
		hint := ""
		if foreign != "" {
			hint = fmt.Sprintf(" (it has %s)", foreign)
		}
		return fmt.Errorf("no tensors named %s*.lora_A.weight%s", a.prefix, hint)
	}
	if foreign != "" { // an adapter of a text encoder besides: without it pictures would be others
		return fmt.Errorf("%s: it is no part of %s; an adapter of one network is needed%s", foreign, component, textHint(foreign))
	}
	return nil
}

// textHint is the remedy for an adapter of a text encoder.
func textHint(name string) string {
	if strings.HasPrefix(name, "lora_te") || strings.HasPrefix(name, "text_encoder") {
		return "\nhint: text encoders are not adapted here; save it without theirs (kohya's scripts: --network_train_unet_only)"
	}
	return ""
}

// metadata is diffusers' settings: one object whose keys begin with the component.
func (a *Adapter) metadata(text, component string) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return fmt.Errorf("lora_adapter_metadata: %w", err)
	}
	own := map[string]json.RawMessage{}
	for key, v := range all {
		if rest, ok := strings.CutPrefix(key, component+"."); ok {
			own[rest] = v
		}
	}
	if len(own) == 0 {
		return nil
	}
	if err := a.says(own); err != nil {
		return fmt.Errorf("lora_adapter_metadata: %w", err)
	}
	return nil
}

// says takes settings by their keys, and refuses those of no adapter that is known here.
func (a *Adapter) says(keys map[string]json.RawMessage) error {
	flat, err := json.Marshal(keys)
	if err == nil {
		err = json.Unmarshal(flat, &a.settings)
	}
	if err == nil {
		err = a.scaled(keys)
	}
	if err == nil {
		err = a.settings.supported()
	}
	a.said = err == nil
	return err
}

// scaled refuses ranks and alphas that no adapter was trained with.
func (a *Adapter) scaled(keys map[string]json.RawMessage) error {
	if _, there := keys["r"]; there && a.settings.Rank < 1 {
		return fmt.Errorf("r is %d; a rank is 1 or more", a.settings.Rank)
	}
	if _, there := keys["lora_alpha"]; there && a.settings.Alpha <= 0 {
		return fmt.Errorf("lora_alpha is %g; the scale lora_alpha / r is above 0", a.settings.Alpha)
	}
	for _, p := range a.settings.AlphaPattern {
		if p.Value <= 0 {
			return fmt.Errorf("alpha_pattern: %q has %g; the scale alpha / r is above 0", p.Name, p.Value)
		}
	}
	return nil
}

// today is a tensor's name as PEFT has it, for those of older files.
func today(name string) string {
	for _, pair := range [][2]string{{".lora.down.weight", ".lora_A.weight"}, {".lora.up.weight", ".lora_B.weight"},
		{".lora_linear_layer.down.weight", ".lora_A.weight"}, {".lora_linear_layer.up.weight", ".lora_B.weight"},
		{".lora_A.default.weight", ".lora_A.weight"}, {".lora_B.default.weight", ".lora_B.weight"}} {
		if base, ok := strings.CutSuffix(name, pair[0]); ok {
			return base + pair[1]
		}
	}
	return name
}

// modules are the layers that have a pair.
func (a *Adapter) modules() []string {
	var all []string
	for name := range a.names {
		if m, ok := strings.CutSuffix(name, ".lora_A.weight"); ok {
			all = append(all, m)
		}
	}
	slices.Sort(all)
	return all
}

// Names are of the form "MODULE.lora_A.weight".
func (a *Adapter) Names() []string {
	var all []string
	for name := range a.names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Tensor reads one of Names.
func (a *Adapter) Tensor(name string) (safetensors.Tensor, error) {
	t, err := a.set.Tensor(a.names[name])
	t.Name = name
	return t, err
}

// Close closes the file.
func (a *Adapter) Close() error { return a.set.Close() }

// kind is the kind of a module's pair.
type kind struct {
	rank  int
	alpha float64
}

// kindOf is the rank that the file has and the alpha that its settings say.
func (a *Adapter) kindOf(module string) (kind, error) {
	down, err := a.Tensor(module + ".lora_A.weight")
	if err != nil {
		return kind{}, err
	}
	if len(down.Shape) == 0 {
		return kind{}, fmt.Errorf("%s.lora_A.weight: it is a single number", module)
	}
	k := kind{rank: down.Shape[0], alpha: a.settings.Alpha}
	said := module
	if old, ok := a.given[module]; ok {
		said = old
	}
	switch rank, key := a.rankOf(said); {
	case rank == 0:
	case onExperts(module): // whose pairs lie in one (nn/lora.go)
		k.rank = rank
	case rank != k.rank:
		settings := "the adapter's settings"
		if a.config != "" {
			settings = a.config
		}
		return k, fmt.Errorf("%s.lora_A.weight has rank %d, and %s of %s says %d\nhint: settings and tensors are of two adapters; save the adapter again", module, k.rank, key, settings, rank)
	}
	if !a.said || a.settings.Alpha == 0 {
		k.alpha = float64(k.rank)
	}
	if alpha, ok := a.settings.AlphaPattern.find(said); ok {
		k.alpha = alpha
	}
	if _, ok := a.names[module+".alpha"]; ok {
		t, err := a.Tensor(module + ".alpha")
		if err != nil {
			return k, err
		}
		x, err := t.Float32(nil)
		if err != nil || len(x) != 1 {
			return k, fmt.Errorf("%s.alpha: one number was expected", module)
		}
		k.alpha = float64(x[0])
	}
	return k, nil
}

// rankOf is the rank that the settings say of a module, and their key; 0: they say none.
func (a *Adapter) rankOf(module string) (rank int, key string) {
	if r, ok := a.settings.RankPattern.find(module); ok {
		return int(r), "rank_pattern"
	}
	return a.settings.Rank, "r"
}

// onExperts says that a module is PEFT's wrapper of a parameter that holds all experts.
func onExperts(module string) bool {
	return strings.HasSuffix(module, expertsEnd) || strings.HasSuffix(module, expertsEnd+innerEnd)
}

// How PEFT calls the wrappers of two parameters of one module: the first one's lies inside.
const (
	expertsEnd = ".experts"
	innerEnd   = ".base_layer"
)

// Patterns are numbers of modules that differ from the rest: expressions for the ends of
// their names, of which the first that matches counts. The order is the file's.
type Patterns []Pattern

// Pattern is a module's, or several modules', number.
type Pattern struct {
	Name  string
	Value float64
}

func (x Pattern) compile() (*regexp.Regexp, error) {
	return regexp.Compile(`^(?:.*\.)?(?:` + x.Name + `)$`)
}

// check names an invalid expression.
func (p Patterns) check(key string) error {
	for _, x := range p {
		if _, err := x.compile(); err != nil {
			return fmt.Errorf("%s: %q is no expression that is known here: %w", key, x.Name, err)
		}
	}
	return nil
}

// find is a module's number.
func (p Patterns) find(module string) (float64, bool) {
	for _, x := range p {
		if re, err := x.compile(); err == nil && re.MatchString(module) {
			return x.Value, true
		}
	}
	return 0, false
}

// UnmarshalJSON reads an object in its order.
func (p *Patterns) UnmarshalJSON(b []byte) error {
	*p = nil
	if string(b) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf("an object of names and numbers was expected, not %.40s", b)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		x := Pattern{Name: fmt.Sprint(name)}
		if err := d.Decode(&x.Value); err != nil {
			return fmt.Errorf("%q: %w", x.Name, err)
		}
		*p = append(*p, x)
	}
	return nil
}

// MarshalJSON writes an object in this order.
func (p Patterns) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, x := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(x.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(x.Value)
		if err != nil {
			return nil, err
		}
		b.Write(append(append(name, ':'), value...))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Rename gives layers other names: those that another library, or another folder of the same model, has for them.
// Patterns of the settings still speak of the file's names.
func (a *Adapter) Rename(of func(layer string) string) {
	names, given := map[string]string{}, map[string]string{}
	for name, stored := range a.names {
		layer, end := halves(name)
		was := layer
		if old, ok := a.given[layer]; ok {
			was = old
		}
		layer = of(layer)
		names[layer+end], given[layer] = stored, was
	}
	a.names, a.given = names, given
}

// halves are a tensor's layer and its end.
func halves(name string) (layer, end string) {
	for _, end := range []string{".lora_A.weight", ".lora_B.weight", ".alpha"} {
		if layer, ok := strings.CutSuffix(name, end); ok {
			return layer, end
		}
	}
	return name, ""
}

// Where two networks take turns (Wan 2.2's A14B), diffusers reads a file for each: NAME.safetensors, and for the second
// one NAME.transformer_2.safetensors, as darkroom's export calls it.

// ending is of diffusers' files.
const ending = ".safetensors"

// Second is the file with the adapter of the second network, called part, that goes with the first one's. Of a file
// that is called so already it is that file.
func Second(path, part string) string {
	if strings.HasSuffix(path, "."+part+ending) {
		return path
	}
	return strings.TrimSuffix(path, ending) + "." + part + ending
}
