package driver

import (
	"cmp"
	"fmt"
)

// Pinned host memory is slow to ask for, so it is taken in pieces, of which many weights have a part each. A host may
// have room for small pieces where it has none for a large one.
const (
	leastPinned = 4 << 20
	mostPinned  = 256 << 20
	pinnedStep  = 256 // parts begin at multiples of it
)

// Pins lends parts of pinned host memory.
type Pins struct {
	Limit  int // of bytes; 0: as many as the host gives
	d      *Driver
	pieces []*pins
	held   int
}

// pins is one piece. Its parts are lent from its beginning to its end, and it goes back when all came back.
type pins struct {
	mem  []byte
	used int
	lent int
}

// NewPins is memory that is asked of a driver when it is needed.
func NewPins(d *Driver) *Pins { return &Pins{d: d} }

// Held is how many bytes of host memory are pinned.
func (p *Pins) Held() int { return p.held }

// Take lends n bytes, in one or more parts.
func (p *Pins) Take(n int) (parts [][]byte, err error) {
	for n > 0 {
		if len(p.pieces) == 0 || p.last().left() == 0 {
			if err := p.more(n); err != nil {
				return nil, cmp.Or(p.Give(parts), err)
			}
		}
		piece := p.last()
		part := piece.mem[piece.used:][:min(n, piece.left())]
		piece.used = min(len(piece.mem), (piece.used+len(part)+pinnedStep-1)/pinnedStep*pinnedStep)
		piece.lent++
		parts, n = append(parts, part), n-len(part)
	}
	return parts, nil
}

func (p *Pins) last() *pins { return p.pieces[len(p.pieces)-1] }
func (x *pins) left() int   { return len(x.mem) - x.used }
func (x *pins) of(b []byte) bool {
	at, from := address(b), address(x.mem)
	return at >= from && at < from+uintptr(len(x.mem))
}

// more pins a piece: as large as all before, so that pieces are few, or a smaller one that the host has room for.
func (p *Pins) more(n int) error {
	size := min(max(p.held, n, leastPinned), mostPinned)
	size = (size + leastPinned - 1) / leastPinned * leastPinned
	for {
		if p.Limit > 0 && p.held+size > p.Limit && p.held+leastPinned > p.Limit {
			return fmt.Errorf("%s of weights are in pinned host memory, and %s are the limit", gib(p.held), gib(p.Limit))
		}
		if p.Limit == 0 || p.held+size <= p.Limit {
			mem, err := p.d.Pinned(size)
			if err == nil {
				p.pieces = append(p.pieces, &pins{mem: mem})
				p.held += size
				return nil
			}
			if Code(err) != OutOfMemory || size == leastPinned {
				return fmt.Errorf("%s of weights are in pinned host memory, and the host gives no more: %w", gib(p.held), err)
			}
		}
		size = max(size/2/leastPinned*leastPinned, leastPinned)
	}
}

func gib(n int) string { return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30)) }

// Give takes parts back.
func (p *Pins) Give(parts [][]byte) error {
	for _, part := range parts {
		for i, x := range p.pieces {
			if !x.of(part) {
				continue
			}
			if at := int(address(part) - address(x.mem)); at+(len(part)+pinnedStep-1)/pinnedStep*pinnedStep >= x.used {
				x.used = at
			}
			if x.lent--; x.lent > 0 {
				break
			}
			p.held -= len(x.mem)
			p.pieces = append(p.pieces[:i], p.pieces[i+1:]...)
			if err := p.d.Unpin(x.mem); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// Close gives all memory back, the parts that are lent too.
func (p *Pins) Close() (err error) {
	for _, x := range p.pieces {
		err = cmp.Or(err, p.d.Unpin(x.mem))
	}
	p.pieces, p.held = nil, 0
	return err
}
