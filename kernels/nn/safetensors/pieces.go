package safetensors

import (
	"bytes"
	"fmt"
	"io"
)

// Large tensors in pieces, on their way into a file and out of one: a checkpoint lies in no memory whole.

// piece is how many numbers of a tensor lie in memory at once.
const piece = 1 << 20

// A Sink takes the data of tensors in order. Its scratch serves one tensor after another.
type Sink struct {
	w       io.Writer
	bytes   int64 // written
	numbers []float32
	coded   []byte
}

// Write takes the next bytes of a tensor.
func (s *Sink) Write(data []byte) (int, error) {
	n, err := s.w.Write(data)
	s.bytes += int64(n)
	return n, err
}

// floats takes n numbers, which read copies from a place on.
func (s *Sink) floats(n int, read func(x []float32, from int)) error {
	if most := min(n, piece); len(s.numbers) < most {
		s.numbers, s.coded = make([]float32, most), make([]byte, 4*most)
	}
	for from := 0; from < n; from += piece {
		x := s.numbers[:min(piece, n-from)]
		read(x, from)
		b := s.coded[:4*len(x)]
		putFloats(b, x)
		if _, err := s.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// ReadF32 is a tensor of float32 that read copies when it is written, a piece at a time from a place on.
func ReadF32(name string, shape []int, read func(x []float32, from int)) Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return Tensor{Name: name, DType: F32, Shape: shape, Fill: func(to *Sink) error { return to.floats(n, read) }}
}

// fill writes the data, of which there must be as much as the shape needs.
func (t Tensor) fill(to *Sink) error {
	want, err := sizeOf(t.DType, t.Shape)
	if err != nil {
		return err
	}
	before := to.bytes
	if t.Fill == nil {
		_, err = to.Write(t.Data)
	} else {
		err = t.Fill(to)
	}
	if err != nil {
		return err
	}
	return t.holds(to.bytes-before, want)
}

// Made is the tensor with its data in memory.
func (t Tensor) Made() (Tensor, error) {
	if t.Fill == nil {
		return t, nil
	}
	var data bytes.Buffer
	err := t.fill(&Sink{w: &data})
	t.Data, t.Fill = data.Bytes(), nil
	return t, err
}

// Pages are tensors whose memory can be let go: a File, for one.
type Pages interface {
	Tensor(name string) (Tensor, error)
	Drop(name string)
}

// placed writes a shard's i-th tensor.
type placed struct {
	put Put
	i   int
	at  int64
}

func (p *placed) Write(data []byte) (int, error) {
	if err := p.put(p.i, p.at, data); err != nil {
		return 0, err
	}
	p.at += int64(len(data))
	return len(data), nil
}

// Floats reads n numbers of a tensor, a piece at a time, and lets their pages go. take copies x.
func Floats(of Pages, name string, n int, take func(x []float32, from int)) error {
	t, err := of.Tensor(name)
	if err != nil {
		return err
	}
	if t.Len() != n {
		err = &Error{Tensor: name, Problem: fmt.Sprintf("%d numbers, not %d", t.Len(), n)}
		if f, ok := of.(*File); ok {
			return in(f.Path, err)
		}
		return err
	}
	defer of.Drop(name)
	x := make([]float32, min(n, piece))
	for from := 0; from < n; from += piece {
		part := t
		lo, hi := from*t.DType.Bits()/8, min(from+piece, n)*t.DType.Bits()/8
		part.Data = t.Data[lo:hi]
		if _, err := part.Float32(x[:part.Len()]); err != nil {
			return err
		}
		take(x[:part.Len()], from)
	}
	return nil
}
