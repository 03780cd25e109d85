package cuda

// SetMostGathered sets how many bytes of gathered operands a product may hold, for tests.
func (b *Backend) SetMostGathered(n int) { b.mostGathered = int64(n) }
