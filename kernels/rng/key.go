package rng

// A Key names a sequence of 2^64 blocks of random words: the key of Philox and
// the upper half of its counter. The lower half is the index. Keys can be
// compared and stored.
type Key struct {
	Philox, Stream uint64
}

// A Purpose names a draw, in words: "start noise", "prompt order". Two things that are drawn at the same coordinates
// must have different purposes.
type Purpose string

// The dimensions of a coordinate. Their numbers are part of every draw.
const (
	dimPurpose uint64 = iota + 1
	dimIteration
	dimPrompt
	dimSample
	dimAttempt
	dimStep
	dimBranch
)

// New is the key of a run.
func New(seed uint64) Key { return Key{Philox: seed} }

// With is the key of one purpose.
func (k Key) With(p Purpose) Key {
	k = k.derive(dimPurpose, uint64(len(p)))
	for len(p) > 0 {
		var v uint64
		for i := range min(8, len(p)) {
			v |= uint64(p[i]) << (8 * i)
		}
		k = k.derive(dimPurpose, v)
		p = p[min(8, len(p)):]
	}
	return k
}

// Iteration is the key of one iteration of the trainer.
func (k Key) Iteration(i int) Key { return k.derive(dimIteration, uint64(i)) }

// Prompt is the key of one prompt: its number, or a hash of its text.
func (k Key) Prompt(i uint64) Key { return k.derive(dimPrompt, i) }

// Sample is the key of one member of a prompt's group.
func (k Key) Sample(i int) Key { return k.derive(dimSample, uint64(i)) }

// Attempt is the key of a repeated try at a sample.
func (k Key) Attempt(i int) Key { return k.derive(dimAttempt, uint64(i)) }

// Step is the key of a denoising step, or of a turn of an episode.
func (k Key) Step(i int) Key { return k.derive(dimStep, uint64(i)) }

// Branch is the key of a branch of a tree.
func (k Key) Branch(i int) Key { return k.derive(dimBranch, uint64(i)) }

// derive hashes one coordinate into the key, with Philox itself: the counter
// holds the stream and the value, and the dimension changes the cipher's key.
// That change also keeps derived keys apart from words that are drawn: words of
// k are enciphered under k.Philox, keys derived from k under something else.
// A dimension that is left out is not the same as one that is 0.
func (k Key) derive(dim, value uint64) Key {
	tweaked := Key{Philox: k.Philox ^ dim*0x9E3779B97F4A7C15, Stream: k.Stream}
	w := tweaked.block(value)
	return Key{
		Philox: uint64(w[0]) | uint64(w[1])<<32,
		Stream: uint64(w[2]) | uint64(w[3])<<32,
	}
}
