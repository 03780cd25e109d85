package cuda

import "github.com/darkroom-rl/darkroom/kernels"

// The structs of src/device.h, as C lays them out: pointers and 64-bit numbers first, so that
// neither side has gaps. TestArguments holds their sizes to the kernels'.

type vec struct {
	p    uintptr
	n    int64
	kind int32
	_    int32
}

type mat struct {
	p          uintptr
	stride     int64
	rows, cols int32
	kind       int32
	_          int32
}

type heads struct {
	p          uintptr
	sb, ss, sh int64
	b, s, h, d int32
	kind       int32
	_          int32
}

// at is a span's device address, 0 where it is absent.
func at(s kernels.Span) uintptr {
	if s.Empty() {
		return 0
	}
	return s.Buf.Addr + uintptr(s.Off*s.DType.Size())
}

func vecOf(s kernels.Span) vec { return vec{p: at(s), n: int64(s.Len), kind: int32(s.DType)} }

func matOf(m kernels.Mat) mat {
	return mat{p: at(m.Span), stride: int64(m.Stride), rows: int32(m.Rows), cols: int32(m.Cols), kind: int32(m.DType)}
}

func headsOf(x kernels.Heads) heads {
	return heads{p: at(x.Span), sb: int64(x.SB), ss: int64(x.SS), sh: int64(x.SH),
		b: int32(x.B), s: int32(x.S), h: int32(x.H), d: int32(x.D), kind: int32(x.DType)}
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

func ceil(a, b int) int { return (a + b - 1) / b }
