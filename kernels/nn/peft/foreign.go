package peft

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Adapters by other names than diffusers' and PEFT's:
//
//	lora_unet_NAME.lora_down.weight     kohya's scripts and their relatives: NAME has _ in place of dots
//	diffusion_model.NAME.lora_A.weight  ComfyUI, ai-toolkit, musubi-tuner: NAME is the original network's, or diffusers'
//
// Layers get diffusers' names. One layer of the original FLUX is several of diffusers' (kohya.go): its pair is parted.
// Where B is blocks on a diagonal each member has its block alone, else A is shared by all,
//
//	[B₁ ; B₂]·A = [B₁A ; B₂A]
//
// Invariant (tests): an export of kohya.go is read as the adapter that it was made of, and written as the same bytes.

// prefixes of foreign names.
const (
	kohyaPrefix = "lora_unet_"
	comfyPrefix = "diffusion_model."
)

// foreignEnds are the ends of foreign names, and PEFT's.
var foreignEnds = [][2]string{{".lora_down.weight", ".lora_A.weight"}, {".lora_up.weight", ".lora_B.weight"}, {".lora_A.weight", ".lora_A.weight"},
	{".lora_B.weight", ".lora_B.weight"}, {".lora_A.default.weight", ".lora_A.weight"}, {".lora_B.default.weight", ".lora_B.weight"}, {".alpha", ".alpha"}}

// otherKinds are parts of adapters of other kinds than a plain LoRA, and the kinds. The first in a name counts.
var otherKinds = [][2]string{{".lokr_", "LoKr"}, {".hada_", "LoHa"}, {".oft_", "OFT"}, {".dora_scale", "DoRA"},
	{".lora_mid", "LoCon with a middle"}, {".diff", "a difference of whole weights"}}

// IsAdapter reports whether a file of safetensors holds pairs of a LoRA, in any layout that is known, and no model.
func IsAdapter(path string) bool {
	f, err := safetensors.Open(path)
	if err != nil {
		return false
	}
	pairs := 0
	for _, name := range f.Names() {
		if strings.Contains(name, ".lora_down.") || strings.Contains(name, ".lora_A.") || strings.Contains(name, ".lora.down.") {
			pairs++
		}
	}
	return f.Close() == nil && pairs > 0
}

// pairOf are the stored names of a foreign layer, by PEFT's ends.
type pairOf map[string]string

// translate reads foreign names. It reports whether there are any.
func (a *Adapter) translate(f *safetensors.File) (bool, error) {
	layers := map[string]pairOf{}
	for _, name := range f.Names() {
		layer, ok := foreignLayer(name)
		if !ok {
			continue
		}
		end := slices.IndexFunc(foreignEnds, func(e [2]string) bool { return strings.HasSuffix(name, e[0]) })
		if end < 0 {
			for _, kind := range otherKinds {
				if strings.Contains(name, kind[0]) {
					return true, fmt.Errorf("%s: %s is not known; a plain LoRA is needed", name, kind[1])
				}
			}
			return true, fmt.Errorf("%s: pairs are lora_down and lora_up, or lora_A and lora_B", name)
		}
		layer = strings.TrimSuffix(layer, foreignEnds[end][0])
		if layers[layer] == nil {
			layers[layer] = pairOf{}
		}
		layers[layer][foreignEnds[end][1]] = name
	}
	if len(layers) == 0 {
		return false, nil
	}
	fused := map[string]safetensors.Tensor{}
	for layer, pair := range layers {
		if err := a.place(f, layer, pair, fused); err != nil {
			return true, err
		}
	}
	if len(fused) > 0 {
		a.set = withParts{f, fused}
	}
	return true, nil
}

// foreignLayer is a name without its prefix.
func foreignLayer(name string) (string, bool) {
	for _, prefix := range []string{kohyaPrefix, comfyPrefix} {
		if layer, ok := strings.CutPrefix(name, prefix); ok {
			return layer, true
		}
	}
	return "", false
}

// withParts is a file and tensors that were made of its own.
type withParts struct {
	*safetensors.File
	made map[string]safetensors.Tensor
}

func (w withParts) Tensor(name string) (safetensors.Tensor, error) {
	if t, ok := w.made[name]; ok {
		return t, nil
	}
	return w.File.Tensor(name)
}

// place gives a foreign layer's pair its place among diffusers' layers.
func (a *Adapter) place(f *safetensors.File, layer string, pair pairOf, made map[string]safetensors.Tensor) error {
	members, err := membersOf(layer)
	if err != nil {
		return err
	}
	if len(members) == 1 {
		for end, stored := range pair {
			a.names[members[0].module+end] = stored
		}
		return nil
	}
	parts, err := parted(f, pair, members)
	if err != nil {
		return fmt.Errorf("%s: %w", layer, err)
	}
	for name, t := range parts {
		a.names[name], made[name] = name, t
	}
	return nil
}

// A partOf is a layer of diffusers' that is a share of an original one.
type partOf struct {
	module string
	share  int
}

// membersOf are the layers of diffusers' that a foreign layer is.
func membersOf(layer string) ([]partOf, error) {
	name := strings.ReplaceAll(layer, ".", "_")
	if m := originalBlock.FindStringSubmatch(name); m != nil {
		table, blocks := fluxDouble, "transformer_blocks."
		if m[1] == "single" {
			table, blocks = fluxSingle, "single_transformer_blocks."
		}
		var found []partOf
		for module, at := range table {
			if at.name == m[3] {
				share := partOf{blocks + m[2] + "." + module, 1}
				if at.of != nil {
					share.share = at.of[at.part]
				}
				found = append(found, share)
			}
		}
		slices.SortFunc(found, func(x, y partOf) int { return partIn(table, x.module) - partIn(table, y.module) })
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: FLUX has no such layer", layer)
		}
		return found, nil
	}
	for module, original := range fluxOutside {
		if original == name {
			return []partOf{{module, 1}}, nil
		}
	}
	if m := wanBlock.FindStringSubmatch(name); m != nil {
		module, ok := wanLayers[m[2]]
		if !ok { // diffusers' name
			module, ok = dotted(m[2])
		}
		if !ok {
			return nil, fmt.Errorf("%s: Wan has no such layer", layer)
		}
		return []partOf{{"blocks." + m[1] + "." + module, 1}}, nil
	}
	if strings.Contains(layer, ".") { // diffusers' own names
		return []partOf{{layer, 1}}, nil
	}
	module, ok := dotted(sgm(name))
	if !ok {
		return nil, fmt.Errorf("%s%s: the name of no layer that is known here", kohyaPrefix, layer)
	}
	return []partOf{{module, 1}}, nil
}

// partIn is a member's place in its original layer.
func partIn(table map[string]member, module string) int {
	for end, m := range table {
		if strings.HasSuffix(module, "."+end) {
			return m.part
		}
	}
	return 0
}

var (
	originalBlock = regexp.MustCompile(`^(double|single)_blocks_(\d+)_(.+)$`)
	wanBlock      = regexp.MustCompile(`^blocks_(\d+)_(.+)$`)
	sgmBlock      = regexp.MustCompile(`^(input_blocks|output_blocks)_(\d+)_(\d)_(.+)$`)
)

// wanLayers are the layers of a block of the original Wan, with _ in place of dots, and diffusers' names.
var wanLayers = map[string]string{
	"self_attn_q": "attn1.to_q", "self_attn_k": "attn1.to_k", "self_attn_v": "attn1.to_v", "self_attn_o": "attn1.to_out.0",
	"cross_attn_q": "attn2.to_q", "cross_attn_k": "attn2.to_k", "cross_attn_v": "attn2.to_v", "cross_attn_o": "attn2.to_out.0",
	"cross_attn_k_img": "attn2.add_k_proj", "cross_attn_v_img": "attn2.add_v_proj", "ffn_0": "ffn.net.0.proj", "ffn_2": "ffn.net.2",
}

// sgm is a kohya's name of SDXL, whose blocks are the original network's, with the blocks of diffusers: three entries a
// block, of which the first of the inputs is the convolution before all.
func sgm(name string) string {
	if rest, ok := strings.CutPrefix(name, "middle_block_1_"); ok {
		return "mid_block_attentions_0_" + rest
	}
	m := sgmBlock.FindStringSubmatch(name)
	if m == nil || m[3] != "1" { // 0 are the layers of resnets, which a plain LoRA leaves out
		return name
	}
	var at int
	_, _ = fmt.Sscan(m[2], &at) // of digits
	if m[1] == "output_blocks" {
		return fmt.Sprintf("up_blocks_%d_attentions_%d_%s", at/3, at%3, m[4])
	}
	return fmt.Sprintf("down_blocks_%d_attentions_%d_%s", (at-1)/3, (at-1)%3, m[4])
}

// words are the elements of diffusers' names that have a _ themselves, before those without.
var words = []string{"single_transformer_blocks", "transformer_blocks", "time_text_embed", "timestep_embedder", "guidance_embedder", "text_embedder",
	"context_embedder", "time_embedding", "time_emb_proj", "conv_shortcut", "down_blocks", "mid_block", "up_blocks", "add_q_proj", "add_k_proj",
	"add_v_proj", "to_add_out", "ff_context", "x_embedder", "conv_in", "conv_out", "linear_1", "linear_2", "proj_mlp", "proj_in", "proj_out", "to_q",
	"to_k", "to_v", "to_out", "img_mlp", "txt_mlp", "img_mod", "txt_mod", "img_in", "txt_in", "attentions", "resnets", "downsamplers", "upsamplers", "attn1", "attn2",
	"attn", "conv1", "conv2", "conv", "norm1_context", "norm1", "norm", "linear", "net", "ffn", "ff", "proj", "blocks"}

var number = regexp.MustCompile(`^\d+`)

// dotted is a name of diffusers whose dots were written as _.
func dotted(name string) (string, bool) {
	var all []string
	for rest := name; rest != ""; {
		word := number.FindString(rest)
		if word == "" {
			i := slices.IndexFunc(words, func(w string) bool { return rest == w || strings.HasPrefix(rest, w+"_") })
			if i < 0 {
				return "", false
			}
			word = words[i]
		}
		all = append(all, word)
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, word), "_")
	}
	return strings.Join(all, "."), len(all) > 0
}

// parted are the pairs of the members of a fused layer.
func parted(f *safetensors.File, pair pairOf, members []partOf) (map[string]safetensors.Tensor, error) {
	var both [2]safetensors.Tensor
	var values [2][]float32
	for i, end := range []string{".lora_A.weight", ".lora_B.weight"} {
		t, err := f.Tensor(pair[end])
		if err != nil {
			return nil, err
		}
		if len(t.Shape) != 2 {
			return nil, fmt.Errorf("%s: its shape is %v; a matrix was expected", pair[end], t.Shape)
		}
		both[i] = t
		if values[i], err = t.Float32(nil); err != nil {
			return nil, err
		}
	}
	rank, in, out := both[0].Shape[0], both[0].Shape[1], both[1].Shape[0]
	units := 0
	for _, m := range members {
		units += m.share
	}
	if both[1].Shape[1] != rank || out%units != 0 || rank == 0 {
		return nil, fmt.Errorf("its two factors have the shapes %v and %v, which are not of %d layers", both[0].Shape, both[1].Shape, len(members))
	}
	scale, err := scaleOf(f, pair, rank)
	if err != nil {
		return nil, err
	}
	blocks := diagonal(values[1], rank, out/units, members)
	all, row := map[string]safetensors.Tensor{}, 0
	for p, m := range members {
		rows := m.share * (out / units)
		first, last := 0, rank
		if blocks {
			first, last = p*rank/len(members), (p+1)*rank/len(members)
		}
		for last > first && unused(values[0], values[1], in, rank, row, rows, last-1) {
			last--
		}
		own := last - first
		if own > 0 {
			up := make([]float32, 0, rows*own)
			for i := row; i < row+rows; i++ {
				up = append(up, values[1][i*rank+first:i*rank+last]...)
			}
			all[m.module+".lora_A.weight"] = safetensors.FromF32("", []int{own, in}, values[0][first*in:last*in])
			all[m.module+".lora_B.weight"] = safetensors.FromF32("", []int{rows, own}, up)
			all[m.module+".alpha"] = safetensors.FromF32("", nil, []float32{float32(scale * float64(own))})
		}
		row += rows
	}
	return all, nil
}

// scaleOf is alpha over the rank; 1 without an alpha.
func scaleOf(f *safetensors.File, pair pairOf, rank int) (float64, error) {
	stored, ok := pair[".alpha"]
	if !ok {
		return 1, nil
	}
	t, err := f.Tensor(stored)
	if err != nil {
		return 0, err
	}
	x, err := t.Float32(nil)
	if err != nil || len(x) != 1 {
		return 0, fmt.Errorf("%s: one number was expected", stored)
	}
	return float64(x[0]) / float64(rank), nil
}

// diagonal reports whether B is blocks on a diagonal, one a member.
func diagonal(up []float32, rank, unit int, members []partOf) bool {
	if rank%len(members) != 0 {
		return false
	}
	each, row := rank/len(members), 0
	for p, m := range members {
		for i := row; i < row+m.share*unit; i++ {
			for k := range rank {
				if (k < p*each || k >= (p+1)*each) && up[i*rank+k] != 0 {
					return false
				}
			}
		}
		row += m.share * unit
	}
	return true
}

// unused reports whether a rank of a member is padding: zeros in both factors.
func unused(down, up []float32, in, rank, row, rows, k int) bool {
	for i := row; i < row+rows; i++ {
		if up[i*rank+k] != 0 {
			return false
		}
	}
	return !slices.ContainsFunc(down[k*in:(k+1)*in], func(x float32) bool { return x != 0 })
}

// CopyWan writes an open adapter of Wan by the original network's names, which ComfyUI reads.
func (a *Adapter) CopyWan(path string) error {
	original := map[string]string{}
	for name, module := range wanLayers {
		original[module] = strings.Replace(strings.Replace(name, "attn_", "attn.", 1), "ffn_", "ffn.", 1)
	}
	var tensors []safetensors.Tensor
	for _, module := range a.modules() {
		m := diffusersBlock.FindStringSubmatch(module)
		if m == nil || original[m[2]] == "" {
			return fmt.Errorf("%s: ComfyUI's layout has no name for this layer of Wan", module)
		}
		p, err := a.factors(module)
		if err != nil {
			return err
		}
		name := comfyPrefix + "blocks." + m[1] + "." + original[m[2]]
		p.down.Name, p.up.Name = name+".lora_A.weight", name+".lora_B.weight"
		tensors = append(tensors, p.down, p.up, alphaTensor(name, p.scale*float64(p.rank)))
	}
	return safetensors.Write(path, tensors, map[string]string{"format": "pt"})
}

var diffusersBlock = regexp.MustCompile(`^blocks\.(\d+)\.(.+)$`)
