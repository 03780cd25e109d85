package jpeg

import (
	"bytes"
	"hash/crc32"
	stdjpeg "image/jpeg"
	"math"
	"testing"
)

var qualities = [8]int{1, 10, 30, 49, 50, 75, 95, 100}

// pillow are CRC-32 sums of the files that Pillow 12.0.0 (libjpeg-turbo 3.1) writes.
var pillow = []struct {
	width, height int
	smooth        bool
	sums          [8]uint32
}{
	{1, 1, false, [8]uint32{0x9129be6b, 0x4cdc1800, 0x6af65220, 0xf7fe732f, 0x658c0d7a, 0x60e425ea, 0x63f691b7, 0x0b70e7a8}},
	{1, 1, true, [8]uint32{0x11e5cc07, 0x4a5d2c87, 0x191b11ba, 0x77420546, 0xd7b2cb8a, 0xd9079751, 0x012763fd, 0x5a1a9155}},
	{16, 16, false, [8]uint32{0x8ced248e, 0xe1527c03, 0x1ad041fc, 0x622074dc, 0x9ac9e971, 0x2bc7d11c, 0x9529d708, 0x7519ce5e}},
	{16, 16, true, [8]uint32{0xe5df0ae7, 0x9149c98b, 0x5769c631, 0xb7be5c9a, 0xe527c008, 0xdd361d75, 0x3b5941c8, 0x981169e6}},
	{8, 8, false, [8]uint32{0xe64478f8, 0xa7a265c7, 0x2cc6ef5c, 0xef157927, 0xaf51dc00, 0x8034c51d, 0x81fb2589, 0x9f3295c9}},
	{8, 8, true, [8]uint32{0xf5ac390a, 0x9bf2791d, 0x403f997a, 0xf3a65297, 0xe8358592, 0x8413c8d2, 0x85b8428e, 0xa458d9c0}},
	{17, 17, false, [8]uint32{0x8f52eedf, 0xdbf0b3d8, 0xe8cc072c, 0xf6906ae7, 0x25ce1f1c, 0x9dc4a18c, 0x08f2d35c, 0x1bda518d}},
	{17, 17, true, [8]uint32{0x39627e0c, 0xce0634e5, 0x27be7139, 0x0ffe8d8c, 0xfda48a63, 0x2af00248, 0xb9ae5b28, 0x41b453ce}},
	{9, 24, false, [8]uint32{0xad9214fb, 0xbda018b6, 0x05ac6790, 0x6e4591cd, 0x1cf88703, 0xd224ffb9, 0x369aadbd, 0x89d1f5d4}},
	{9, 24, true, [8]uint32{0x948a2ccb, 0xc21562c0, 0xd644623e, 0xac0c42ef, 0xc176fc55, 0x0c621acd, 0xa246b50b, 0xf616575c}},
	{24, 9, false, [8]uint32{0x5af12de1, 0xb01137b8, 0x3ce5bb29, 0x18ab9f42, 0x392b964f, 0xb8cbb6ba, 0x982f0272, 0x76956ff2}},
	{24, 9, true, [8]uint32{0x667ddded, 0xa444f22a, 0xdc5d0abe, 0x8226d17c, 0x257c8069, 0xf687dda0, 0x68c47d04, 0x0ff9df8e}},
	{37, 53, false, [8]uint32{0xd2b1bf11, 0x24348cbe, 0xe94a7d67, 0xd23ce631, 0xe1b6299a, 0x5ba296d8, 0x184d40cd, 0xb43b8d07}},
	{37, 53, true, [8]uint32{0x624c4d78, 0x064fc986, 0x5745fbbe, 0xd02f3c5e, 0xd601b317, 0xdcae92dc, 0x068bfc8d, 0xeda5e4ac}},
	{64, 33, false, [8]uint32{0xb2b21d30, 0xaa07e2ed, 0x63380b29, 0xe375f767, 0x2eea97a0, 0x326d6621, 0x2980f40f, 0x939460ac}},
	{64, 33, true, [8]uint32{0x8d5519d8, 0x3582a2f9, 0xa7e7ce72, 0x353cb3cc, 0xa0f7cd52, 0x58a3b6c3, 0xfcc72af9, 0xec252e27}},
	{100, 75, false, [8]uint32{0x5536349b, 0x891ef334, 0x6f11f929, 0xb1ae22db, 0xdabf224f, 0xc4f0897e, 0xd8d2e042, 0xac0c3576}},
	{100, 75, true, [8]uint32{0x55ff1ee9, 0x32976d81, 0x9f30ba78, 0xcfa572c6, 0x19f843e2, 0x546487be, 0x3b49f117, 0x03e60419}},
	{47, 31, false, [8]uint32{0xca36d301, 0x828ba04f, 0x15d9e1e9, 0x5f987a84, 0xf6f4fbc8, 0x53dae74b, 0xb842b9ed, 0xffd0fcdf}},
	{47, 31, true, [8]uint32{0xf0a24d6c, 0x5c6ea644, 0x37e38667, 0x2d6f4d50, 0xee4598c2, 0x7520fe8f, 0x9dc77b91, 0x007664de}},
	{250, 130, false, [8]uint32{0x93faa409, 0xf1293329, 0xe912332e, 0x6daf0648, 0xbceef6f2, 0xdad580aa, 0x215101e0, 0xf7373687}},
	{250, 130, true, [8]uint32{0xf1e7e1ba, 0xc1b08aec, 0x9df36c84, 0x4d599b1c, 0x53c75e46, 0xc01c77e6, 0x2c89ddd2, 0x372cf6b4}},
}

// picture is noise, or waves with a little noise.
func picture(width, height int, smooth bool) []uint8 {
	out := make([]uint8, 3*width*height)
	for i := range out {
		n := uint32(i)*2654435761 + 12345
		n ^= n >> 15
		n *= 2246822519
		out[i] = uint8(n ^ n>>13)
		if x, y, c := i/3%width, i/3/width, i%3; smooth {
			out[i] = uint8(x*(3+c) + y*2 + x*y/(16+c) + int(out[i]/16))
		}
	}
	return out
}

func TestEncodeIsPillows(t *testing.T) {
	for _, p := range pillow {
		for i, want := range p.sums {
			file, err := Encode(picture(p.width, p.height, p.smooth), p.width, p.height, qualities[i])
			if err != nil {
				t.Fatal(err)
			}
			if got := crc32.ChecksumIEEE(file); got != want {
				t.Errorf("%d x %d, smooth %t, quality %d: %08x, want %08x", p.width, p.height, p.smooth, qualities[i], got, want)
			}
		}
	}
}

// TestOthersReadIt: the standard library's decoder finds the picture again.
func TestOthersReadIt(t *testing.T) {
	const w, h = 45, 30
	rgb := make([]uint8, 3*w*h)
	for i := range rgb {
		rgb[i] = uint8(60 + i/3%w + i/3/w*2)
	}
	file, err := Encode(rgb, w, h, 95)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stdjpeg.Decode(bytes.NewReader(file))
	if err != nil || m.Bounds().Dx() != w || m.Bounds().Dy() != h {
		t.Fatalf("%v, %v", m.Bounds(), err)
	}
	for i := range w * h {
		r, _, _, _ := m.At(i%w, i/w).RGBA()
		if d := int(r>>8) - int(rgb[3*i]); d > 4 || d < -4 {
			t.Errorf("pixel %d is %d, was %d", i, r>>8, rgb[3*i])
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, c := range []struct{ n, w, h, q int }{{3, 0, 1, 75}, {3, 1, 65536, 75}, {3, 1, 1, 0}, {3, 1, 1, 101}, {2, 1, 1, 75}} {
		if _, err := Encode(make([]uint8, c.n), c.w, c.h, c.q); err == nil {
			t.Errorf("%v was encoded", c)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	rgb := picture(512, 512, true)
	for b.Loop() {
		if _, err := Encode(rgb, 512, 512, 95); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTransformIsItsFormula: the transform is the cosine transform, to its last places.
func TestTransformIsItsFormula(t *testing.T) {
	var in [64]int32
	for i := range in {
		in[i] = int32(picture(8, 8, false)[i]) - 128
	}
	got := in
	transform(&got)
	for v := range 8 {
		for u := range 8 {
			sum := 0.0
			for i, x := range in {
				sum += float64(x) * math.Cos(float64(2*(i%8)+1)*float64(u)*math.Pi/16) * math.Cos(float64(2*(i/8)+1)*float64(v)*math.Pi/16)
			}
			for _, k := range []int{u, v} {
				if k == 0 {
					sum /= math.Sqrt2
				}
			}
			if want := 8 * sum / 4; math.Abs(want-float64(got[8*v+u])) > 2 {
				t.Errorf("coefficient (%d, %d) is %d, want %.2f", u, v, got[8*v+u], want)
			}
		}
	}
}
