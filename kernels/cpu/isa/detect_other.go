//go:build !amd64 || noasm

package isa

func features() []Feature { return nil }
