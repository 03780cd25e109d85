package peft

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// kohya's layout (sd-scripts), which ComfyUI and its relatives read: one file, for each layer
//
//	lora_unet_NAME.lora_down.weight [r, in]   lora_unet_NAME.lora_up.weight [out, r]   lora_unet_NAME.alpha
//
// NAME is the layer's path with _ in place of dots. Of a U-Net the path is diffusers'. Of FLUX it is the
// original network's, whose queries, keys and values are one layer (and in single blocks the MLP's
// first half with them). Their adapters become one: the A are stacked, the B are blocks on a diagonal,
//
//	[B₁ 0 ; 0 B₂]·[A₁ ; A₂] = [B₁A₁ ; B₂A₂]
//
// so the rank grows and the change of the weights stays as it was. A member that was not trained is a block of zeros.
//
// Invariant (test): every layer's alpha/r·up·down is its members' scale·B·A, in their order.

// Network says whose names a kohya file has.
type Network int

// The networks with a layout of kohya's that others read.
const (
	UNet Network = 1 + iota
	FLUX
)

// member is a layer as a part of one of the original network's.
type member struct {
	name string // of the whole
	part int    // which part
	of   []int  // the parts' shares of the output, in units of the first
}

// CopyKohya writes an open adapter in kohya's layout.
func (a *Adapter) CopyKohya(path string, n Network) error {
	wholes := map[string][]string{} // layers, by the original network's
	members := map[string]member{}
	for _, module := range a.modules() {
		m := member{name: strings.ReplaceAll(module, ".", "_"), of: []int{1}}
		if n == FLUX {
			var ok bool
			if m, ok = fluxMember(module); !ok {
				return fmt.Errorf("%s: kohya's layout has no name for this layer of FLUX", module)
			}
		}
		wholes[m.name] = append(wholes[m.name], module)
		members[module] = m
	}
	var tensors []safetensors.Tensor
	for _, name := range sorted(wholes) {
		t, err := a.kohya("lora_unet_"+name, wholes[name], members)
		if err != nil {
			return err
		}
		tensors = append(tensors, t...)
	}
	return safetensors.Write(path, tensors, map[string]string{"format": "pt", "ss_network_module": "networks.lora"})
}

func sorted(m map[string][]string) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// factors are a layer's adapter.
type factors struct {
	down, up safetensors.Tensor
	rank     int
	scale    float64 // alpha/r
}

func (a *Adapter) factors(module string) (p factors, err error) {
	k, err := a.kindOf(module)
	if err != nil {
		return p, fmt.Errorf("%s: %w", a.path, err)
	}
	p.rank, p.scale = k.rank, k.alpha/float64(k.rank)
	if a.settings.RSLoRA {
		p.scale = k.alpha / math.Sqrt(float64(k.rank))
	}
	if p.down, p.up, err = a.pair(module); err == nil && p.up.Shape[1] != p.rank {
		err = fmt.Errorf("%s: its two factors have the shapes %v and %v, which do not fit", module, p.down.Shape, p.up.Shape)
	}
	return p, err
}

// kohya is one layer's three tensors.
func (a *Adapter) kohya(name string, modules []string, members map[string]member) ([]safetensors.Tensor, error) {
	pairs := map[int]factors{}
	first := members[modules[0]]
	for _, module := range modules {
		p, err := a.factors(module)
		if err != nil {
			return nil, err
		}
		pairs[members[module].part] = p
	}
	if len(first.of) > 1 {
		return fused(name, first.of, pairs)
	}
	p := pairs[0]
	p.down.Name, p.up.Name = name+".lora_down.weight", name+".lora_up.weight"
	return []safetensors.Tensor{p.down, p.up, alphaTensor(name, p.scale*float64(p.rank))}, nil
}

func alphaTensor(name string, alpha float64) safetensors.Tensor {
	return safetensors.FromF32(name+".alpha", nil, []float32{float32(alpha)})
}

// fused is several layers' adapters as one of their concatenation.
func fused(name string, of []int, pairs map[int]factors) ([]safetensors.Tensor, error) {
	rank, in, unit, scale := 0, 0, 0, 0.0
	for part := range of {
		p, ok := pairs[part]
		if !ok {
			continue
		}
		if scale == 0 {
			scale = p.scale
		}
		rank, in, unit = max(rank, p.rank), p.down.Shape[1], p.up.Shape[0]/of[part]
	}
	out := 0
	for _, share := range of {
		out += share * unit
	}
	all := len(of) * rank
	down, up := make([]float32, all*in), make([]float32, out*all)
	row := 0 // of the output
	for part, share := range of {
		if p, ok := pairs[part]; ok {
			if p.down.Shape[1] != in || p.up.Shape[0] != share*unit {
				return nil, fmt.Errorf("%s: its parts have %d and %d inputs, %d and %d outputs, which is not one layer", name, in, p.down.Shape[1], share*unit, p.up.Shape[0])
			}
			a, err := p.down.Float32(nil)
			if err != nil {
				return nil, err
			}
			b, err := p.up.Float32(nil)
			if err != nil {
				return nil, err
			}
			copy(down[part*rank*in:], a)
			for i := range p.up.Shape[0] {
				for k := range p.rank {
					up[(row+i)*all+part*rank+k] = float32(float64(b[i*p.rank+k]) * (p.scale / scale))
				}
			}
		}
		row += share * unit
	}
	return []safetensors.Tensor{safetensors.FromF32(name+".lora_down.weight", []int{all, in}, down), safetensors.FromF32(name+".lora_up.weight", []int{out, all}, up),
		alphaTensor(name, scale*float64(all))}, nil
}

var fluxBlock = regexp.MustCompile(`^(transformer_blocks|single_transformer_blocks)\.(\d+)\.(.+)$`)

// fluxMember is where a layer of diffusers' FLUX lies in the original network.
func fluxMember(module string) (member, bool) {
	alone := []int{1}
	if m := fluxBlock.FindStringSubmatch(module); m != nil {
		table, prefix := fluxDouble, "double_blocks_"
		if m[1] != "transformer_blocks" {
			table, prefix = fluxSingle, "single_blocks_"
		}
		found, ok := table[m[3]]
		if found.of == nil {
			found.of = alone
		}
		found.name = prefix + m[2] + "_" + found.name
		return found, ok
	}
	name, ok := fluxOutside[module]
	return member{name: name, of: alone}, ok
}

var thirds = []int{1, 1, 1}
var withMLP = []int{1, 1, 1, 4}

var fluxDouble = map[string]member{
	"attn.to_q": {"img_attn_qkv", 0, thirds}, "attn.to_k": {"img_attn_qkv", 1, thirds}, "attn.to_v": {"img_attn_qkv", 2, thirds},
	"attn.add_q_proj": {"txt_attn_qkv", 0, thirds}, "attn.add_k_proj": {"txt_attn_qkv", 1, thirds}, "attn.add_v_proj": {"txt_attn_qkv", 2, thirds},
	"attn.to_out.0": {name: "img_attn_proj"}, "attn.to_add_out": {name: "txt_attn_proj"},
	"ff.net.0.proj": {name: "img_mlp_0"}, "ff.net.2": {name: "img_mlp_2"},
	"ff_context.net.0.proj": {name: "txt_mlp_0"}, "ff_context.net.2": {name: "txt_mlp_2"},
	"norm1.linear": {name: "img_mod_lin"}, "norm1_context.linear": {name: "txt_mod_lin"},
}

var fluxSingle = map[string]member{
	"attn.to_q": {"linear1", 0, withMLP}, "attn.to_k": {"linear1", 1, withMLP}, "attn.to_v": {"linear1", 2, withMLP}, "proj_mlp": {"linear1", 3, withMLP},
	"proj_out": {name: "linear2"}, "norm.linear": {name: "modulation_lin"},
}

var fluxOutside = map[string]string{
	"x_embedder": "img_in", "context_embedder": "txt_in", "proj_out": "final_layer_linear",
	"time_text_embed.timestep_embedder.linear_1": "time_in_in_layer", "time_text_embed.timestep_embedder.linear_2": "time_in_out_layer",
	"time_text_embed.text_embedder.linear_1": "vector_in_in_layer", "time_text_embed.text_embedder.linear_2": "vector_in_out_layer",
	"time_text_embed.guidance_embedder.linear_1": "guidance_in_in_layer", "time_text_embed.guidance_embedder.linear_2": "guidance_in_out_layer",
}
