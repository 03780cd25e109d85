package amxemu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Tiles is one thread's tile state. It is stricter than a CPU where a kernel would be
// wrong on one: tiles that are not configured, or sizes that do not fit, are errors.
type Tiles struct {
	on    bool
	rows  [8]int
	bytes [8]int
	data  [8][16][16]uint32
}

// memory reads and writes the program's memory.
type memory interface {
	read(b []byte, at uint64) error
	write(b []byte, at uint64) error
}

// Registers are the general registers by their numbers in instructions.
type registers [16]uint64

var errNotTiles = errors.New("not a tile instruction")

// step carries out the instruction in code; it returns its length.
func (t *Tiles) step(code []byte, r *registers, m memory) (int, error) {
	if len(code) < 5 || code[0] != 0xC4 || code[1]&0x1F != 2 || code[2]&0x84 != 0 {
		return 0, errNotTiles
	}
	pp, v := code[2]&3, 15-int(code[2]>>3&15)
	modrm := code[4]
	reg, register := int(modrm>>3&7), modrm >= 0xC0
	if code[3] == 0x5C && pp == 2 && register && v < 8 {
		return 5, t.product(reg, int(modrm&7), v)
	}
	if v != 0 {
		return 0, errNotTiles
	}
	switch {
	case code[3] == 0x49 && pp == 0 && code[1] == 0xE2 && modrm == 0xC0:
		*t = Tiles{}
		return 5, nil
	case code[3] == 0x49 && pp == 3 && register && modrm&7 == 0:
		if err := t.ready(reg); err != nil {
			return 0, err
		}
		t.data[reg] = [16][16]uint32{}
		return 5, nil
	case code[3] == 0x49 && pp == 0 && !register && reg == 0:
		length, at, _, err := address(code, r)
		if err != nil {
			return 0, err
		}
		return length, t.configure(at, m)
	case code[3] == 0x4B && pp != 0 && !register && modrm&7 == 4:
		length, at, stride, err := address(code, r)
		if err != nil {
			return 0, err
		}
		return length, t.move(reg, at, stride, pp == 2, m)
	}
	return 0, errNotTiles
}

// address decodes the operand behind the modrm of code.
func address(code []byte, r *registers) (length int, at, stride uint64, err error) {
	if len(code) < 10 {
		return 0, 0, 0, errors.New("a short read of code")
	}
	modrm, length := code[4], 5
	base := int(modrm & 7)
	if base == 4 {
		sib := code[5]
		length = 6
		base = int(sib & 7)
		if index := int(sib>>3&7) | int(^code[1]>>6&1)<<3; index != 4 {
			stride = r[index] << (sib >> 6)
		}
	}
	mod := modrm >> 6
	if mod == 0 && base == 5 {
		return 0, 0, 0, errors.New("an address without a base")
	}
	at = r[base|int(^code[1]>>5&1)<<3]
	switch mod {
	case 1:
		at += uint64(int64(int8(code[length])))
		length++
	case 2:
		at += uint64(int64(int32(binary.LittleEndian.Uint32(code[length:]))))
		length += 4
	}
	return length, at, stride, nil
}

func (t *Tiles) configure(at uint64, m memory) error {
	var b [64]byte
	if err := m.read(b[:], at); err != nil {
		return err
	}
	if b[0] != 1 || b[1] != 0 {
		return fmt.Errorf("palette %d, first row %d", b[0], b[1])
	}
	*t = Tiles{on: true}
	for i := range 8 {
		t.bytes[i], t.rows[i] = int(binary.LittleEndian.Uint16(b[16+2*i:])), int(b[48+i])
		if t.bytes[i] > 64 || t.rows[i] > 16 || t.bytes[i]%4 != 0 || (t.bytes[i] == 0) != (t.rows[i] == 0) {
			return fmt.Errorf("tile %d of %d rows x %d bytes", i, t.rows[i], t.bytes[i])
		}
	}
	return nil
}

func (t *Tiles) ready(tile int) error {
	if !t.on || t.rows[tile] == 0 {
		return fmt.Errorf("tile %d is not configured", tile)
	}
	return nil
}

func (t *Tiles) move(tile int, at, stride uint64, store bool, m memory) error {
	if err := t.ready(tile); err != nil {
		return err
	}
	b := make([]byte, t.bytes[tile])
	if !store {
		t.data[tile] = [16][16]uint32{}
	}
	for row := range t.rows[tile] {
		x := &t.data[tile][row]
		p := at + uint64(row)*stride
		if store {
			for i := range len(b) / 4 {
				binary.LittleEndian.PutUint32(b[4*i:], x[i])
			}
			if err := m.write(b, p); err != nil {
				return err
			}
			continue
		}
		if err := m.read(b, p); err != nil {
			return err
		}
		for i := range len(b) / 4 {
			x[i] = binary.LittleEndian.Uint32(b[4*i:])
		}
	}
	return nil
}

// product is TDPBF16PS: tile d += a·b.
func (t *Tiles) product(d, a, b int) error {
	for _, tile := range []int{d, a, b} {
		if err := t.ready(tile); err != nil {
			return err
		}
	}
	if d == a || d == b || a == b || t.rows[d] != t.rows[a] || t.bytes[d] != t.bytes[b] || t.bytes[a] != 4*t.rows[b] {
		return fmt.Errorf("a product of tiles %d, %d, %d whose sizes do not fit", d, a, b)
	}
	half := math.Float32frombits
	for m := range t.rows[d] {
		for n := range t.bytes[d] / 4 {
			var e, o float32
			for i := range t.rows[b] {
				x, y := t.data[a][m][i], t.data[b][i][n]
				e = ref.FMA(half(x<<16), half(y<<16), e)
				o = ref.FMA(half(x&0xFFFF0000), half(y&0xFFFF0000), o)
			}
			c := &t.data[d][m][n]
			*c = math.Float32bits(ref.Add(half(*c), ref.Add(e, o)))
		}
	}
	return nil
}
