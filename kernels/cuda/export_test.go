package cuda

// SetMostGathered sets how many bytes of gathered operands a product may hold, for tests.
func (b *Backend) SetMostGathered(n int) { b.mostGathered = int64(n) }

// SetLibrary sets the least side of weights that the library computes, and the rows of its check, for tests.
func (b *Backend) SetLibrary(least, whole int) {
	b.products.least, b.products.whole = int64(least), int64(whole)
}

// HopperRuns says whether attention goes by the kernels for Hopper.
func (b *Backend) HopperRuns() bool { return b.hopper.use }

// LibraryCalls is how many products the library computed.
func (b *Backend) LibraryCalls() int { return b.products.calls }
