//go:build (!amd64 && !arm64) || noasm

package isa

func features() []Feature { return nil }
