package vision

import (
	"bytes"
	"fmt"
)

// Card: a progressive JPEG refines its picture scan by scan, and each scan visits every block, though
// it may take 54 bytes of the file. So the work of a JPEG is its scans times its pixels, which its
// header says nothing of: 174 KB can take 15 s, and 64 MB hours. Scans are counted before anything is
// decoded. The bytes FF DA begin one; within compressed data FF is never followed by DA, and those of
// a thumbnail are counted too, which errs on the safe side.
//
// Invariant (test): no file takes more than mostVisits, about half a second.

// mostVisits is how many pixels the scans of a JPEG visit at most: 128 scans of the largest picture
// that is read by default. Encoders write about ten.
const mostVisits = 1 << 32

// jpegWork refuses a JPEG whose scans would visit too many pixels.
func jpegWork(data []byte, width, height int) error {
	scans := int64(bytes.Count(data, []byte{0xff, 0xda}))
	if pixels := int64(width) * int64(height); scans*pixels > mostVisits {
		return fmt.Errorf("%d scans of %d x %d pixels: no encoder writes that many: save the picture again", scans, width, height)
	}
	return nil
}
