//go:build !amd64 || noasm

package isa

func detect() Path { return Plain }
