package single

import (
	"fmt"
	"strconv"
	"strings"
)

// unet is the U-Net's: blocks are counted through, and diffusers counts them by resolution.
func unet(layers int) rule {
	per := layers + 1
	return func(name string, _ []int) []placed {
		at := strings.SplitN(name, ".", 4)
		to := ""
		switch at[0] {
		case "time_embed":
			to = renamed(name, map[string]string{"time_embed.0.": "time_embedding.linear_1.", "time_embed.2.": "time_embedding.linear_2."})
		case "label_emb":
			to = renamed(name, map[string]string{"label_emb.0.0.": "add_embedding.linear_1.", "label_emb.0.2.": "add_embedding.linear_2."})
		case "out":
			to = renamed(name, map[string]string{"out.0.": "conv_norm_out.", "out.2.": "conv_out."})
		case "middle_block":
			to = middle(at)
		case "input_blocks":
			to = down(at, per)
		case "output_blocks":
			to = up(at, per)
		}
		if to == "" {
			return nil
		}
		return []placed{{name: to}}
	}
}

// renamed is a name whose beginning is another; "": it has none of them.
func renamed(name string, begins map[string]string) string {
	for from, to := range begins {
		if rest, ok := strings.CutPrefix(name, from); ok {
			return to + rest
		}
	}
	return ""
}

// resnet is what follows a block's name.
func resnet(rest string) string {
	return strings.NewReplacer("in_layers.0", "norm1", "in_layers.2", "conv1", "out_layers.0", "norm2", "out_layers.3", "conv2",
		"emb_layers.1", "time_emb_proj", "skip_connection", "conv_shortcut").Replace(rest)
}

// middle is of ["middle_block", block, rest...].
func middle(at []string) string {
	if len(at) < 3 {
		return ""
	}
	rest := strings.Join(at[2:], ".")
	switch at[1] {
	case "0":
		return "mid_block.resnets.0." + resnet(rest)
	case "1":
		return "mid_block.attentions.0." + rest
	case "2":
		return "mid_block.resnets.1." + resnet(rest)
	}
	return ""
}

// down is of ["input_blocks", block, layer, rest].
func down(at []string, per int) string {
	if len(at) < 4 {
		return ""
	}
	n, err := strconv.Atoi(at[1])
	if err != nil {
		return ""
	}
	if n == 0 {
		return "conv_in." + at[3]
	}
	block, layer := (n-1)/per, (n-1)%per
	switch rest, isDown := strings.CutPrefix(at[3], "op."); {
	case at[2] == "0" && isDown:
		return fmt.Sprintf("down_blocks.%d.downsamplers.0.conv.%s", block, rest)
	case at[2] == "0":
		return fmt.Sprintf("down_blocks.%d.resnets.%d.%s", block, layer, resnet(at[3]))
	}
	return fmt.Sprintf("down_blocks.%d.attentions.%d.%s", block, layer, at[3])
}

// up is of ["output_blocks", block, layer, rest].
func up(at []string, per int) string {
	if len(at) < 4 {
		return ""
	}
	n, err := strconv.Atoi(at[1])
	if err != nil {
		return ""
	}
	block, layer := n/per, n%per
	switch rest, isUp := strings.CutPrefix(at[3], "conv."); {
	case at[2] == "0":
		return fmt.Sprintf("up_blocks.%d.resnets.%d.%s", block, layer, resnet(at[3]))
	case isUp:
		return fmt.Sprintf("up_blocks.%d.upsamplers.0.conv.%s", block, rest)
	}
	return fmt.Sprintf("up_blocks.%d.attentions.%d.%s", block, layer, at[3])
}
