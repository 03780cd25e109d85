package peft

import "strings"

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
