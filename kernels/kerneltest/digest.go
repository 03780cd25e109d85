package kerneltest

import (
	"crypto/sha256"
	_ "embed" // the recorded digests
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

//go:embed testdata/digests.json
var recorded []byte

// Recorded are the digests of ref's results, by case: "op/name". They are recorded, so that a
// compiler that fuses a product, another machine, or an unintended edit of a definition shows;
// and so that a backend can be held to ref without computing what ref computes.
func Recorded() (sums map[string]string, err error) {
	return sums, json.Unmarshal(recorded, &sums)
}

// Digests are the hashes of a backend's results, by case.
func Digests(b kernels.Backend) (map[string]string, error) {
	sums := map[string]string{}
	for _, c := range Cases() {
		name := c.Op + "/" + c.Name
		if _, twice := sums[name]; twice {
			return nil, fmt.Errorf("two cases are called %s", name)
		}
		outs, err := results(c, b, 0, false)
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
