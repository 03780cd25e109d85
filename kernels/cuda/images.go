package cuda

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/ulikunitz/xz"
)

//go:generate bash gen/build.sh

// Images are the kernels compiled ahead: machine code for some architectures, and PTX that a
// driver compiles for the others. gen/build.sh makes them; images/sources.sha256 records the sources.

// imagesFor are the images to try for a compute capability, in order.
func imagesFor(major int) []string {
	switch major {
	case 8:
		return []string{"sm_80", "ptx"}
	case 9:
		return []string{"sm_90", "ptx"}
	case 10:
		return []string{"sm_100", "ptx"}
	}
	return []string{"ptx"}
}

// hopperImages are those for compute capability 9.0 alone (hopper.go), in order.
var hopperImages = []string{"sm_90a", "ptx_90a"}

// readImage is an image, unpacked when it is first asked for: parity opens a device for each case.
func readImage(name string) ([]byte, error) {
	if read, ok := unpacked[name]; ok {
		return read()
	}
	return unpack(name)
}

var unpacked = map[string]func() ([]byte, error){
	"ptx":     sync.OnceValues(func() ([]byte, error) { return unpack("ptx") }),
	"sm_80":   sync.OnceValues(func() ([]byte, error) { return unpack("sm_80") }),
	"sm_90":   sync.OnceValues(func() ([]byte, error) { return unpack("sm_90") }),
	"sm_90a":  sync.OnceValues(func() ([]byte, error) { return unpack("sm_90a") }),
	"ptx_90a": sync.OnceValues(func() ([]byte, error) { return unpack("ptx_90a") }),
	"sm_100":  sync.OnceValues(func() ([]byte, error) { return unpack("sm_100") }),
}

// KernelsHash names the kernels of this program: a hash of all images.
func KernelsHash() (string, error) {
	h := sha256.New()
	names, err := fs.Glob(images, "images/*.xz")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		packed, err := fs.ReadFile(images, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, name, len(packed))
		h.Write(packed)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// unpack unpacks an image; a zero byte follows it, as PTX needs.
func unpack(name string) ([]byte, error) {
	packed, err := fs.ReadFile(images, "images/"+name+".xz")
	if err != nil {
		return nil, fmt.Errorf("kernels %s: %w", name, err)
	}
	var image []byte
	unpacking, err := xz.NewReader(bytes.NewReader(packed))
	if err == nil {
		image, err = io.ReadAll(unpacking)
	}
	if err != nil {
		return nil, fmt.Errorf("kernels %s: %w", name, err)
	}
	return append(image, 0), nil
}
