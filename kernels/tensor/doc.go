// Package tensor holds typed, shaped memory with an explicit lifetime over a
// kernels.Backend.
//
// Start with Pool: New gives a Tensor, Free gives its memory back to the pool, which keeps it for the next tensor of
// about that size. After a few rounds of the same work a pool asks its backend for nothing more. Stats has the memory
// in use and the peak.
//
// A Tensor is a handle. Views (Reshape, Columns, RowRange, Retain) are handles of their own on the same memory, which
// goes back when the last of them is freed. Use of a freed handle, or freeing it twice, panics and names the tensor.
// A Scope frees tensors that were made in it and not kept.
//
// Tensors are row-major. All axes but the last make rows; a view may leave a gap
// between rows (Columns), and is then good for operations over matrices alone.
//
// A pool and its tensors belong to one goroutine, as the backend does.
package tensor
