// Package safetensors reads and writes tensors as Hugging Face folders hold them:
// a .safetensors file, or a set of them with an index (*.safetensors.index.json).
//
//	set, err := safetensors.OpenFolder("stable-diffusion-3.5/transformer")
//	defer set.Close()
//	t, err := set.Tensor("pos_embed.proj.weight") // no copy: t.Data lies in the mapped file
//	w, err := t.Float32(nil)                      // widened, exactly
//
// Start at file.go (one file) and set.go (a folder). A file is
//
//	8 bytes   n, little endian
//	n bytes   JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
//	the rest  the data; offsets count from here and leave no holes
//
// Files come from strangers. header.go and set.go believe
// nothing: a mistake is an *Error that names the file, the tensor and a remedy,
// and nothing is allocated from a size that was not checked against the file's.
//
// On Linux, macOS and the BSDs the data is mapped: it costs no memory until it is
// read, and Drop gives read pages back. Elsewhere each call of Tensor reads that
// tensor. Mapped data must not be touched after Close, and the file must not be
// shortened meanwhile; Write never does that, it renames a new file over the old.
package safetensors
