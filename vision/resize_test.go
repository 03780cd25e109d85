package vision

import (
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
)

// pillow are CRC-32 sums of the results of Pillow 12.0.0 (HorizontalFirst) and 13.0.0 (Pillow13) for noise(width,
// height, channels), one a filter in the order of filterNames.
var pillow = []struct {
	width, height, channels, toWidth, toHeight int
	order                                      Order
	sums                                       [6]uint32
}{
	{37, 53, 1, 18, 26, HorizontalFirst, [6]uint32{0xd7bc83c8, 0x761fb2ff, 0xaaa6b019, 0xc8db898b, 0x08ff7722, 0x17cc1b4e}},
	{37, 53, 3, 18, 26, HorizontalFirst, [6]uint32{0xd50259df, 0xeb4a5232, 0x550c205c, 0x711af2f5, 0x22dae465, 0x2950973e}},
	{37, 53, 4, 18, 26, HorizontalFirst, [6]uint32{0x1c5c72c5, 0x2106bd0e, 0x36857023, 0x1f8f7dfb, 0x52bdc0f3, 0xd83d710c}},
	{37, 53, 1, 77, 62, HorizontalFirst, [6]uint32{0xb868281e, 0xb868281e, 0x613409dd, 0x68d66a39, 0xa01f3678, 0x33d45641}},
	{37, 53, 3, 77, 62, HorizontalFirst, [6]uint32{0x0592c6c4, 0x0592c6c4, 0x28c52f33, 0x2f1140f6, 0x5909c7f3, 0x60981df5}},
	{37, 53, 4, 77, 62, HorizontalFirst, [6]uint32{0x7d8826d4, 0x8335f544, 0x34a3c815, 0xae44c623, 0x2de804f1, 0x43674f1d}},
	{53, 37, 1, 11, 37, HorizontalFirst, [6]uint32{0x18224316, 0xfd9e2be8, 0x111a1e94, 0x2be3a94a, 0x7ca5a835, 0x5efd0427}},
	{53, 37, 3, 11, 37, HorizontalFirst, [6]uint32{0x041b3101, 0xac93209f, 0xe68eec04, 0x378de20f, 0x17fb3199, 0x760ef05a}},
	{53, 37, 4, 11, 37, HorizontalFirst, [6]uint32{0x6f09d69d, 0x0dbf8903, 0x67c2143a, 0xb1543067, 0x35097426, 0x0d312f35}},
	{40, 3, 1, 9, 40, HorizontalFirst, [6]uint32{0xf9e9a4d5, 0x606b34b2, 0xfe593d9c, 0x7e723eb1, 0x36958320, 0xbd72fa47}},
	{40, 3, 3, 9, 40, HorizontalFirst, [6]uint32{0x41b1ebef, 0x7c18f3fa, 0xde406b3c, 0xe1b77071, 0x32db8d53, 0xfc262cc2}},
	{40, 3, 4, 9, 40, HorizontalFirst, [6]uint32{0x0e314109, 0xda3ba705, 0x399f24de, 0xf089e8f9, 0x6a054efc, 0xa1dca88b}},
	{3, 120, 1, 5, 7, HorizontalFirst, [6]uint32{0x1a0e2910, 0x44cae73a, 0xfc47c7bc, 0x6c3e2190, 0xbb02adc7, 0xddeed908}},
	{3, 120, 3, 5, 7, HorizontalFirst, [6]uint32{0x400d9d15, 0xc96be8ff, 0x65f48d7c, 0x3e763dc2, 0x62d9a641, 0x54f46f15}},
	{3, 120, 4, 5, 7, HorizontalFirst, [6]uint32{0x4c76fa9a, 0xf61bbfb8, 0xe131db18, 0x34eafd64, 0xb87edd3a, 0x2ba8cf6c}},
	{61, 44, 1, 61, 13, HorizontalFirst, [6]uint32{0x0fb556e0, 0x0761a230, 0x10f97f44, 0xcb41bfda, 0x309098b0, 0xc140208e}},
	{61, 44, 3, 61, 13, HorizontalFirst, [6]uint32{0xa95d2fe0, 0xebb0fb46, 0xb572cecd, 0xb169955d, 0x7ec95798, 0x30482d89}},
	{61, 44, 4, 61, 13, HorizontalFirst, [6]uint32{0xaf72534e, 0x56fe5dee, 0xd7155d86, 0xd5fe3397, 0x8db81cec, 0x3cff9f35}},
	{33, 35, 1, 64, 64, HorizontalFirst, [6]uint32{0x9c0b2d95, 0x9c0b2d95, 0xc6524b99, 0xe9d7b0e6, 0x4c9ba409, 0x09d90e1b}},
	{33, 35, 3, 64, 64, HorizontalFirst, [6]uint32{0xe690fa66, 0xe690fa66, 0x33bff558, 0xc38bc019, 0x58661db2, 0xf2dd98f5}},
	{33, 35, 4, 64, 64, HorizontalFirst, [6]uint32{0xf6e68078, 0xe15d69ce, 0x8cc99e99, 0x77771d90, 0xf13d5ccf, 0x66d967cd}},
	{20, 200, 1, 60, 10, HorizontalFirst, [6]uint32{0x81ea1456, 0x1971beeb, 0x4e4e9b7b, 0xecb9f103, 0x9569706e, 0xa18920e5}},
	{20, 200, 3, 60, 10, HorizontalFirst, [6]uint32{0xa6013eb5, 0xdcddac10, 0x6fe222a0, 0x5bd444f2, 0xb39d98b2, 0x5c392291}},
	{20, 200, 4, 60, 10, HorizontalFirst, [6]uint32{0x4f8fe8c5, 0xeb82f356, 0x21b04880, 0xd3807f84, 0xcb8bd245, 0x444776a3}},
	{128, 96, 1, 7, 5, HorizontalFirst, [6]uint32{0xea90c7e5, 0x78214376, 0x8e30380b, 0xee7aef8c, 0x0aba8401, 0x8021c0fa}},
	{128, 96, 3, 7, 5, HorizontalFirst, [6]uint32{0x93470b6e, 0x829982da, 0x2356b099, 0x5ae986d0, 0xc76d47f7, 0x69bb506f}},
	{128, 96, 4, 7, 5, HorizontalFirst, [6]uint32{0x36ba16c0, 0x4ae14941, 0xbe8d7d23, 0xb6d8c359, 0x6713aa66, 0x7160cf92}},
	{9, 9, 1, 1, 1, HorizontalFirst, [6]uint32{0x0762ae69, 0x1c630b12, 0x6b643b84, 0x1c630b12, 0x1c630b12, 0x1c630b12}},
	{9, 9, 3, 1, 1, HorizontalFirst, [6]uint32{0xc504379f, 0x40df72e6, 0x7398fb91, 0x16d8bd7b, 0x9ce77148, 0x05ee20f2}},
	{9, 9, 4, 1, 1, HorizontalFirst, [6]uint32{0x541fcaed, 0x9c4bc050, 0x477d5b8e, 0x58daed48, 0xf8270554, 0xf8270554}},
	{1, 1, 1, 6, 4, HorizontalFirst, [6]uint32{0xa8c17b1d, 0xa8c17b1d, 0xa8c17b1d, 0xa8c17b1d, 0xa8c17b1d, 0xa8c17b1d}},
	{1, 1, 3, 6, 4, HorizontalFirst, [6]uint32{0x77dcd3fc, 0x77dcd3fc, 0x77dcd3fc, 0x77dcd3fc, 0x77dcd3fc, 0x77dcd3fc}},
	{1, 1, 4, 6, 4, HorizontalFirst, [6]uint32{0x5a09c586, 0xd818e94a, 0xd818e94a, 0xd818e94a, 0xd818e94a, 0xd818e94a}},
	{37, 53, 3, 18, 26, Pillow13, [6]uint32{0xd50259df, 0xeb4a5232, 0x550c205c, 0x711af2f5, 0x22dae465, 0x2950973e}},
	{37, 53, 3, 77, 62, Pillow13, [6]uint32{0x0592c6c4, 0x0592c6c4, 0x28c52f33, 0x2f1140f6, 0x5909c7f3, 0x60981df5}},
	{53, 37, 3, 11, 37, Pillow13, [6]uint32{0x041b3101, 0xac93209f, 0xe68eec04, 0x378de20f, 0x17fb3199, 0x760ef05a}},
	{40, 3, 1, 9, 40, Pillow13, [6]uint32{0xf9e9a4d5, 0x606b34b2, 0xfe593d9c, 0x7e723eb1, 0x36958320, 0xbd72fa47}},
	{40, 3, 3, 9, 40, Pillow13, [6]uint32{0x41b1ebef, 0x7c18f3fa, 0xde406b3c, 0xe1b77071, 0x32db8d53, 0xfc262cc2}},
	{40, 3, 4, 9, 40, Pillow13, [6]uint32{0x0e314109, 0xda3ba705, 0x399f24de, 0xf089e8f9, 0x6a054efc, 0xa1dca88b}},
	{3, 120, 1, 5, 7, Pillow13, [6]uint32{0x1a0e2910, 0x44cae73a, 0xf2032862, 0xca492a24, 0xb5dc0204, 0x359f8fbc}},
	{3, 120, 3, 5, 7, Pillow13, [6]uint32{0x400d9d15, 0xc96be8ff, 0x67a77542, 0x859f2dfc, 0x0da48473, 0x95f29adb}},
	{3, 120, 4, 5, 7, Pillow13, [6]uint32{0x4c76fa9a, 0xf61bbfb8, 0xb6a9546d, 0x4beef251, 0xa645a1c6, 0x1370c6ea}},
	{61, 44, 3, 61, 13, Pillow13, [6]uint32{0xa95d2fe0, 0xebb0fb46, 0xb572cecd, 0xb169955d, 0x7ec95798, 0x30482d89}},
	{33, 35, 3, 64, 64, Pillow13, [6]uint32{0xe690fa66, 0xe690fa66, 0x33bff558, 0xc38bc019, 0x58661db2, 0xf2dd98f5}},
	{20, 200, 1, 60, 10, Pillow13, [6]uint32{0x81ea1456, 0x1971beeb, 0x480241d2, 0x82f0982d, 0x674fd026, 0xb4043de9}},
	{20, 200, 3, 60, 10, Pillow13, [6]uint32{0xa6013eb5, 0xdcddac10, 0xafc26d42, 0xa0a9b75f, 0x3038f470, 0x545a5db0}},
	{20, 200, 4, 60, 10, Pillow13, [6]uint32{0x4f8fe8c5, 0xeb82f356, 0xc0ceced0, 0xb002f428, 0x821b46e2, 0x7b3390cd}},
	{128, 96, 3, 7, 5, Pillow13, [6]uint32{0x93470b6e, 0x829982da, 0x2356b099, 0x5ae986d0, 0xc76d47f7, 0x69bb506f}},
	{9, 9, 3, 1, 1, Pillow13, [6]uint32{0xc504379f, 0x40df72e6, 0x7398fb91, 0x16d8bd7b, 0x9ce77148, 0x05ee20f2}},
	{1, 1, 3, 6, 4, Pillow13, [6]uint32{0x77dcd3fc, 0x77dcd3fc, 0x77dcd3fc, 0x77dcd3fc, 0x77dcd3fc, 0x77dcd3fc}},
}

func TestResizeIsPillows(t *testing.T) {
	for _, c := range pillow {
		for f, want := range c.sums {
			out, err := Resizing{Filter: Filter(f), Order: c.order}.Apply(noise(c.width, c.height, c.channels), c.toWidth, c.toHeight)
			if err != nil {
				t.Fatal(err)
			}
			if got := crc32.ChecksumIEEE(out.Pix); got != want {
				t.Errorf("%d x %d x %d to %d x %d, %v, order %d: %08x, want %08x", c.width, c.height, c.channels, c.toWidth, c.toHeight, Filter(f), c.order, got, want)
			}
		}
	}
}

// TestResizeIsTodays: a picture's own way is that of Pillow 13.0.0, which pip installs, and Preprocess has the name of
// the other order.
func TestResizeIsTodays(t *testing.T) {
	compared, other := 0, 0
	for _, c := range pillow {
		if c.channels != 3 || c.order != Pillow13 {
			continue
		}
		m := noise(c.width, c.height, 3).RGB()
		for f, want := range c.sums {
			out, err := m.Resize(c.toWidth, c.toHeight, Filter(f))
			if err != nil {
				t.Fatal(err)
			}
			compared++
			if got := crc32.ChecksumIEEE(out.Pix); got != want {
				t.Errorf("%d x %d to %d x %d, %v: %08x, want %08x", c.width, c.height, c.toWidth, c.toHeight, Filter(f), got, want)
			}
			before, err := Resizing{Filter: Filter(f)}.Apply(m.Raster(), c.toWidth, c.toHeight)
			if err == nil && crc32.ChecksumIEEE(before.Pix) != want {
				other++
			}
		}
	}
	if compared < 40 || other == 0 {
		t.Errorf("%d pictures, of which the order changes %d", compared, other)
	}
	tall := noise(20, 200, 3).RGB()
	today, err := Preprocess{Size: 10, Fit: Stretch, Filter: Lanczos, Std: [3]float32{1, 1, 1}}.Apply(nil, tall, ChannelsLast)
	if err != nil {
		t.Fatal(err)
	}
	before, err := Preprocess{Size: 10, Fit: Stretch, Filter: Lanczos, Arithmetic: Pillow12, Std: [3]float32{1, 1, 1}}.Apply(nil, tall, ChannelsLast)
	if err != nil || slices.Equal(today, before) {
		t.Errorf("Pillow 12 and 13 make the same numbers of a tall picture (%v)", err)
	}
}

// TestResizeIsItsFormula holds the passes to the card's sum, a pixel at a time.
func TestResizeIsItsFormula(t *testing.T) {
	r := noise(19, 14, 4)
	r.Channels, r.Width = 1, 4*19 // any number of channels is a picture of one, resized downwards
	for f := Box; f <= Lanczos; f++ {
		for _, height := range []int{3, 13, 14, 40} {
			got, err := Resizing{Filter: f}.Apply(r, r.Width, height)
			if err != nil {
				t.Fatal(err)
			}
			want := NewRaster(r.Width, height, 1)
			for y, tap := range f.tapsOf(r.Height, 0, float32(r.Height), height) {
				for x := range r.Width {
					sum := int64(1) << 21
					for j, w := range tap.weights {
						weight := int64(w*(1<<22) + 0.5)
						if w < 0 {
							weight = -int64(-w*(1<<22) + 0.5)
						}
						sum += weight * int64(r.Pix[(tap.first+j)*r.Width+x])
					}
					want.Pix[y*r.Width+x] = uint8(min(max(sum>>22, 0), 255))
				}
			}
			if height == r.Height {
				want = r
			}
			if !slices.Equal(got.Pix, want.Pix) {
				t.Errorf("%v to height %d differs from its formula", f, height)
			}
		}
	}
}

// TestResizeTurned: a picture on its side, resized, is the resized picture on its side, where
// one direction alone changes. It holds the horizontal loops to the vertical one.
func TestResizeTurned(t *testing.T) {
	turned := func(r *Raster) *Raster {
		out := NewRaster(r.Height, r.Width, r.Channels)
		for y := range r.Height {
			for x := range r.Width {
				copy(out.Row(x)[y*r.Channels:(y+1)*r.Channels], r.Row(y)[x*r.Channels:])
			}
		}
		return out
	}
	for _, channels := range []int{1, 3, 4} {
		r := noise(23, 17, channels)
		for f := Box; f <= Lanczos; f++ {
			for _, n := range []int{5, 22, 60} {
				across, err := Resizing{Filter: f}.Apply(r, n, r.Height)
				if err != nil {
					t.Fatal(err)
				}
				down, err := Resizing{Filter: f}.Apply(turned(r), r.Height, n)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(turned(down).Pix, across.Pix) {
					t.Errorf("%d channels, %v, %d: the directions differ", channels, f, n)
				}
			}
		}
	}
}

func TestResizeOfAPart(t *testing.T) {
	r := noise(30, 20, 3)
	part, err := Resizing{Filter: Bicubic, From: &Span{4, 3, 16, 12}}.Apply(r, 12, 9)
	if err != nil || !slices.Equal(part.Pix, r.cut(4, 3, 12, 9).Pix) {
		t.Errorf("whole pixels are not simply cut out: %v", err)
	}
	for _, s := range []Span{{-1, 0, 5, 5}, {0, 0, 31, 5}, {5, 0, 5, 5}, {6, 0, 5, 5}} {
		if _, err := (Resizing{From: &s}).Apply(r, 3, 3); err == nil {
			t.Errorf("%v was resized", s)
		}
	}
	for _, size := range [][2]int{{0, 1}, {1, -1}, {1 << 21, 1}, {1 << 20, 1 << 20}} {
		if _, err := r.RGB().Resize(size[0], size[1], Box); err == nil {
			t.Errorf("resized to %v", size)
		}
	}
}

func BenchmarkResize(b *testing.B) {
	for _, c := range []struct{ from, to int }{{512, 224}, {1024, 224}, {224, 512}} {
		b.Run(fmt.Sprintf("bicubic-%d-%d", c.from, c.to), func(b *testing.B) {
			m := noise(c.from, c.from, 3).RGB()
			for b.Loop() {
				if _, err := m.Resize(c.to, c.to, Bicubic); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
