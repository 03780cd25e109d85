//go:build (amd64 || arm64) && !noasm

package gemm

// over runs a block kernel over rows in blocks as equal as they can be: of one size,
// then of one less.
func (b *block) over(rows, most int, kernel []func(*block)) {
	n := (rows + most - 1) / most
	size, larger := rows/n, rows%n
	b.aheadStep = uintptr(roundUp(b.aheadBytes/(n*b.steps), 64))
	for i := range 2 {
		count := larger
		if i == 1 {
			count = n - larger
		}
		if count == 0 {
			continue
		}
		s := size + 1 - i
		b.blocks = count
		kernel[s](b)
		b.a += uintptr(count*s) * b.lda
		b.c += uintptr(count * s * panel * 4)
		b.ahead += uintptr(count*b.steps) * b.aheadStep
	}
}
