//go:build (amd64 || arm64) && !noasm

package gemm

// The layouts of packed panels of 32 columns, as a kernels.Packed is marked with them.
const (
	formPaired = iota + 1 // bf16, k paired
	formPanels            // fp32
	formTiles             // bf16, k in its order by pairs
	formNarrow            // bf16, k in its order
	formWide              // bf16 numbers as fp32
)

// apart avoids distances of rows that are multiples of 1 KiB, which would put a block's rows into
// few sets of L1.
func apart(n int) int {
	if n%1024 == 0 {
		n += 64
	}
	return n
}
