package kernels

// Offloader is a Backend's further interface where frozen weights may lie outside its memory. A weight is stored once
// at its home, and copied into a ring on the device ahead of the product that reads it, beside the work that is under
// way. Copies go one way: the device changes no weight, and nothing is copied back.
//
// A pass calls, for each weight in its order, Fetch (ahead), Await, its products, Release. Weights may be released in
// another order than they were fetched in, and products may read a weight any number of times in between. A weight that
// lies in the ring, released or not, is fetched without a copy. A CPU reads weights where they lie.
//
// Invariant (kerneltest): products of a fetched weight have the bits of those of the weight that was stored, whatever
// the ring's size and the order of calls.
type Offloader interface {
	Backend

	// Reserve makes a ring of at least the given bytes, in the place of a former one; 0 frees it. No weight may be
	// fetched meanwhile.
	Reserve(bytes int)

	// Store copies a weight to its home and frees its memory on this backend, unless that is the home. The weight may
	// be read no more. Other Offloaders of the same kind can fetch stored weights: ranks share one copy. An error
	// says that the home has no room; the weight is then as it was.
	Store(w *Packed, home Home) (*Stored, error)

	// StoreCodes puts a compressed weight into its home. Fetch copies the codes and writes the weight in full beside
	// them, as Unpack followed by Pack would. The weight has arithmetic and shape, and no memory yet. Values are of the
	// type that its arithmetic reads (Packed.DType): others would be rounded twice, and are an error.
	StoreCodes(c Codes, w Packed, values DType, home Home) (*Stored, error)

	// Fetch is the weight in the ring, its copy under way. The copy begins after the work that was queued before the
	// release of the ring's earlier weight there. It is nil where the ring has no room before more is released, and
	// the weight where it lies where this backend's own memory is the home.
	Fetch(s *Stored) *Packed

	// Await lets work that is queued from now on wait for the weight's copy. The program does not wait.
	Await(w *Packed)

	// Release lets the weight's place in the ring be filled again once the work queued so far has run.
	Release(w *Packed)

	// Discard frees the home's memory. No Offloader may hold the weight, and the work that read it is done (Sync).
	Discard(s *Stored)
}

// Home is where a stored weight lies: in host memory, pinned so that copies run beside the program, or in the memory
// of another device of the run.
type Home struct {
	Peer Offloader // nil: host memory
}

// Stored is a packed weight at its home.
type Stored struct {
	Packed // Buf is memory of the home's backend, nil in pinned memory
	Home   Home
	Codes  Codes    // of a compressed weight; nil: the bytes are the weight's
	Host   [][]byte // the weight's bytes in pinned host memory, in order
}

// Codes are a compressed weight in one piece of memory: codes, table and scales.
type Codes interface {
	Size() int
	Write(memory []byte)
	// In is the operation that unpacks such memory, which begins at a multiple of 64 bytes of a buffer.
	In(memory *Buffer, from int, dst Mat) *Unpack
}

// Size is the bytes that are stored.
func (s *Stored) Size() (n int) {
	if s.Codes != nil {
		return s.Codes.Size()
	}
	if s.Buf != nil {
		return s.Buf.Bytes
	}
	for _, part := range s.Host {
		n += len(part)
	}
	return n
}

// Room is the bytes of a ring that the weight takes, beside its codes.
func (s *Stored) Room() int {
	if s.Codes == nil {
		return Room(s.Size())
	}
	return Room(s.N*s.K*s.DType().Size()) + Room(s.Codes.Size())
}

// DType is the type of a packed weight's numbers.
func (w *Packed) DType() DType {
	if w.Math == MathBF16 {
		return BF16
	}
	return F32
}

// Room is how many bytes of a ring a weight takes.
func Room(bytes int) int { return (bytes + roomStep - 1) / roomStep * roomStep }

// roomStep is the alignment of weights in a ring.
const roomStep = 512
