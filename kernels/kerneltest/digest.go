package kerneltest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Digests are the hashes of ref's results, by case: "op/name". They are recorded in
// testdata/digests.json, so that a compiler that fuses a product, another machine, or
// an unintended edit of a definition shows.
func Digests() (map[string]string, error) {
	sums := map[string]string{}
	for _, c := range Cases() {
		name := c.Op + "/" + c.Name
		if _, twice := sums[name]; twice {
			return nil, fmt.Errorf("two cases are called %s", name)
		}
		outs, err := play(c, ref.Backend{}, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		h := sha256.New()
		for _, o := range outs {
			canonical(o)
			h.Write([]byte(o.name))
			h.Write(o.bytes)
		}
		sums[name] = hex.EncodeToString(h.Sum(nil)[:8])
	}
	return sums, nil
}

// canonical writes every NaN of a result in one way: which NaN comes out of an
// operation is not defined.
func canonical(o result) {
	n := o.dtype.Size()
	for at := 0; at+n <= len(o.bytes); at += n {
		if b := o.bytes[at : at+n]; isNaN(o.dtype, b) {
			for i := range b {
				b[i] = 0xff
			}
		}
	}
}
