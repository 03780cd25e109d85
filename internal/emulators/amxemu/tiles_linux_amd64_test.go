package amxemu

import "testing"

// TestDecode decodes encodings that were compared with GNU as.
func TestDecode(t *testing.T) {
	r := registers{0: 0x1000, 1: 0x2000, 6: 0x40, 9: 0x80, 10: 0x3000}
	for _, c := range []struct {
		text       string
		code       []byte
		length     int
		at, stride uint64
	}{
		{"TILELOADD 0(AX)(SI*1), T0", []byte{0xC4, 0xE2, 0x7B, 0x4B, 0x04, 0x30}, 6, 0x1000, 0x40},
		{"TILELOADD 1024(R10)(R9*1), T7", []byte{0xC4, 0x82, 0x7B, 0x4B, 0xBC, 0x0A, 0, 4, 0, 0}, 10, 0x3400, 0x80},
		{"TILESTORED T3, (CX)(R9*1)", []byte{0xC4, 0xA2, 0x7A, 0x4B, 0x1C, 0x09}, 6, 0x2000, 0x80},
	} {
		length, at, stride, err := address(append(c.code, make([]byte, 10)...), &r)
		if err != nil || length != c.length || at != c.at || stride != c.stride {
			t.Errorf("%s: %d bytes, %#x, %#x, %v", c.text, length, at, stride, err)
		}
	}
}
