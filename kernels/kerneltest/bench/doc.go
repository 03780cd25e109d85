// Package bench times a backend's operations at the shapes that the PyTorch peer
// is timed at, and checks each result before it is timed.
//
// Start with Run. A workload (workloads.go) makes its operands, and has the call, and the amount of its work; its
// check recomputes sampled rows of the result on package ref and compares bits (or, where the backend says so,
// numbers of bf16).
package bench
