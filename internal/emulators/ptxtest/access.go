package ptxtest

import (
	"encoding/binary"
	"strings"
)

// Loads and stores: SPACE.vN.TYPE, where the space may be missing (generic) and the vector, too.

// An access is the meaning of a load's or a store's name.
type access struct {
	space  space
	n      int // elements
	size   int // bytes of each
	letter string
	signed bool
}

func accessOf(rest string) (a access, ok bool) {
	a.n = 1
	parts := strings.Split(rest, ".")
	if s, ok := spaces[parts[0]]; ok {
		a.space, parts = s, parts[1:]
	}
	if len(parts) == 2 && (parts[0] == "v2" || parts[0] == "v4") {
		a.n, parts = int(parts[0][1]-'0'), parts[1:]
	}
	if len(parts) != 1 {
		return a, false
	}
	switch parts[0] {
	case "u8":
		a.size, a.letter = 1, "w"
	case "u16", "b16":
		a.size, a.letter = 2, "w"
	case "u32", "s32", "b32", "f32":
		a.size, a.letter, a.signed = 4, "v", parts[0] == "s32"
	case "u64", "s64", "b64", "f64":
		a.size, a.letter = 8, "q"
	default:
		return a, false
	}
	return a, true
}

func load(rest string) (row, bool) {
	a, ok := accessOf(rest)
	return row{strings.Repeat(a.letter, a.n) + "m", func(w *warp, in *instruction, m uint32) {
		at, bytes := w.addresses(in.args[a.n]), a.n*a.size
		each(m, func(l int) { a.take(w, in, l, w.bytes(a.space, l, at[l], bytes, false)) })
	}, onwards}, ok
}

// take puts the bytes read into a lane's registers.
func (a access) take(w *warp, in *instruction, l int, b []byte) {
	for i := range a.n {
		switch b := b[i*a.size:]; a.size {
		case 1:
			w.r(in.args[i])[l] = uint32(b[0])
		case 2:
			w.r(in.args[i])[l] = uint32(binary.LittleEndian.Uint16(b))
		case 4:
			a.take32(w, in.args[i], l, binary.LittleEndian.Uint32(b))
		case 8:
			w.q(in.args[i])[l] = binary.LittleEndian.Uint64(b)
		}
	}
}

// take32 lets a register of 64 bits have the number as its type says.
func (a access) take32(w *warp, o operand, l int, v uint32) {
	switch {
	case o.class != double:
		w.r(o)[l] = v
	case a.signed:
		w.q(o)[l] = uint64(int64(int32(v)))
	default:
		w.q(o)[l] = uint64(v)
	}
}

func store(rest string) (row, bool) {
	a, ok := accessOf(rest)
	letter := strings.Replace(a.letter, "v", "r", 1)
	return row{"m" + strings.Repeat(letter, a.n), func(w *warp, in *instruction, m uint32) {
		at := w.addresses(in.args[0])
		each(m, func(l int) {
			a.put(w, in, l, w.bytes(a.space, l, at[l], a.n*a.size, true))
			if a.space == shared {
				w.wrote(l, at[l], a.n*a.size)
			}
		})
	}, onwards}, ok
}

func (a access) put(w *warp, in *instruction, l int, b []byte) {
	for i := range a.n {
		o := in.args[1+i]
		switch b := b[i*a.size:]; a.size {
		case 1:
			b[0] = byte(w.r(o)[l])
		case 2:
			binary.LittleEndian.PutUint16(b, uint16(w.r(o)[l]))
		case 4:
			binary.LittleEndian.PutUint32(b, w.r(o)[l])
		case 8:
			binary.LittleEndian.PutUint64(b, w.q(o)[l])
		}
	}
}

// addresses are an operand's in all lanes; they hold until the next call.
func (w *warp) addresses(o operand) *doubles {
	d := &w.at
	switch o.base {
	case word:
		a, offset := &w.words[o.i], uint32(o.offset)
		for l := range d {
			d[l] = uint64(a[l] + offset)
		}
	case double:
		a, offset := &w.doubles[o.i], uint64(o.offset)
		for l := range d {
			d[l] = a[l] + offset
		}
	default:
		for l := range d {
			d[l] = w.p.wide[o.i][l] + uint64(o.offset)
		}
	}
	return d
}
