package rng

import (
	"slices"
	"testing"
)

// TestKnownAnswers are the vectors of Random123 (kat_vectors, philox4x32 10).
func TestKnownAnswers(t *testing.T) {
	const f = 0xffffffff
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{f, f, f, f}, [2]uint32{f, f}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		var got [4]uint32
		got[0], got[1], got[2], got[3] = philox(c.counter[0], c.counter[1], c.counter[2], c.counter[3], c.key[0], c.key[1])
		if got != c.want {
			t.Errorf("philox(%08x, %08x) = %08x, want %08x", c.counter, c.key, got, c.want)
		}
	}
}

// TestCounterLayout ties a key's words to the known answers: the order of the
// counter's words is cuRAND's.
func TestCounterLayout(t *testing.T) {
	k := Key{Philox: 0x299f31d0_a4093822, Stream: 0x03707344_13198a2e}
	if got, want := k.block(0x85a308d3_243f6a88), [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}; got != want {
		t.Errorf("got %08x, want %08x", got, want)
	}
	if got := (Key{}).Word(2); got != 0xbc57ac4c {
		t.Errorf("word 2 of the zero key is %08x", got)
	}
}

// TestParts draws every part of a short sequence, around a carry of the
// counter's low word too, and compares it with the whole.
func TestParts(t *testing.T) {
	k := New(5).With("test")
	for _, base := range []uint64{0, 4<<32 - 8} {
		whole := fill(k, 24, base)
		for from := range 24 {
			for to := from; to <= 24; to++ {
				part := fill(k, to-from, base+uint64(from))
				if !slices.Equal(part.words, whole.words[from:to]) ||
					!slices.Equal(part.uniform, whole.uniform[from:to]) ||
					!slices.Equal(part.open, whole.open[from:to]) ||
					!slices.Equal(part.normal, whole.normal[from:to]) {
					t.Fatalf("elements %d to %d of %d differ when drawn alone", from, to, base)
				}
			}
		}
		for i, w := range whole.words {
			if got := k.Word(base + uint64(i)); got != w {
				t.Fatalf("Word(%d) = %08x, Words gave %08x", i, got, w)
			}
		}
	}
}

type draws struct {
	words                 []uint32
	uniform, open, normal []float32
}

func fill(k Key, n int, start uint64) draws {
	d := draws{make([]uint32, n), make([]float32, n), make([]float32, n), make([]float32, n)}
	k.Words(d.words, start)
	k.Uniform(d.uniform, start)
	k.UniformOpen(d.open, start)
	k.Normal(d.normal, start)
	return d
}
