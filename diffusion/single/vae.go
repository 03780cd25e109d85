package single

import (
	"fmt"
	"strconv"
	"strings"
)

// vae is the autoencoder's below a prefix. The decoder's levels are counted from the other end, and attention's
// convolutions of one pixel are linear layers.
func (f *File) vae(prefix string) rule {
	levels := 0
	for _, t := range f.file.Infos {
		if rest, ok := strings.CutPrefix(t.Name, prefix+"decoder.up."); ok {
			level, _, _ := strings.Cut(rest, ".")
			if n, err := strconv.Atoi(level); err == nil {
				levels = max(levels, n+1)
			}
		}
	}
	return func(name string, shape []int) []placed {
		half, rest, _ := strings.Cut(name, ".")
		switch {
		case half == "quant_conv" || half == "post_quant_conv":
			return []placed{{name: name}}
		case half != "encoder" && half != "decoder":
			return nil
		}
		if at, ok := strings.CutPrefix(rest, "mid.attn_1."); ok {
			to := renamed(at, map[string]string{"norm.": "group_norm.", "q.": "to_q.", "k.": "to_k.", "v.": "to_v.", "proj_out.": "to_out.0."})
			return []placed{{name: half + ".mid_block.attentions.0." + to, piece: piece{flat: len(shape) > 2}}}
		}
		to := renamed(rest, map[string]string{"norm_out.": "conv_norm_out.", "conv_in.": "conv_in.", "conv_out.": "conv_out.",
			"mid.block_1.": "mid_block.resnets.0.", "mid.block_2.": "mid_block.resnets.1."})
		if to == "" {
			to = level(rest, levels)
		}
		if to == "" {
			return nil
		}
		return []placed{{name: half + "." + strings.Replace(to, "nin_shortcut", "conv_shortcut", 1)}}
	}
}

// level is a name of one of the levels: "down.0.block.1.conv1.weight".
func level(name string, levels int) string {
	at := strings.SplitN(name, ".", 4)
	if len(at) < 4 {
		return ""
	}
	n, err := strconv.Atoi(at[1])
	if err != nil {
		return ""
	}
	blocks, sampler := "down_blocks", "downsamplers"
	if at[0] == "up" {
		blocks, sampler, n = "up_blocks", "upsamplers", levels-1-n
	}
	switch at[2] {
	case "block":
		return fmt.Sprintf("%s.%d.resnets.%s", blocks, n, at[3])
	case "downsample", "upsample":
		return fmt.Sprintf("%s.%d.%s.0.%s", blocks, n, sampler, at[3])
	}
	return ""
}
