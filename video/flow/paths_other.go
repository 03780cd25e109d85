//go:build !amd64 || noasm

package flow

func fastest() *kernels { return &plain }
