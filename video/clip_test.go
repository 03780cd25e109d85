package video

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// moving is a clip of a bright square that walks over a gradient.
func moving(width, height, frames int) *Clip {
	c := &Clip{Width: width, Height: height, Rate: Rate{25, 2}}
	for t := range frames {
		f := make([]uint8, 3*width*height)
		for i := range width * height {
			x, y := i%width, i/width
			f[3*i], f[3*i+1], f[3*i+2] = uint8(7*x), uint8(5*y), uint8(x*y+31*t)
			if x >= t && x < t+4 && y >= t && y < t+3 {
				f[3*i], f[3*i+1], f[3*i+2] = 250, 240, 10
			}
		}
		c.Frames = append(c.Frames, f)
	}
	return c
}

// worst is the largest difference of two clips of one shape.
func worst(t *testing.T, a, b *Clip) int {
	t.Helper()
	if a.Width != b.Width || a.Height != b.Height || len(a.Frames) != len(b.Frames) {
		t.Fatalf("%d frames of %d x %d, want %d of %d x %d", len(b.Frames), b.Width, b.Height, len(a.Frames), a.Width, a.Height)
	}
	most := 0
	for i := range a.Frames {
		for j := range a.Frames[i] {
			d := int(a.Frames[i][j]) - int(b.Frames[i][j])
			most = max(most, d, -d)
		}
	}
	return most
}

// TestRoundTrips: a written clip is read again: without loss as APNG and as a folder, within
// two levels as Y4M, and as a GIF exactly where there are few colours.
func TestRoundTrips(t *testing.T) {
	few := moving(9, 5, 6)
	for _, f := range few.Frames {
		for i := range f {
			f[i] = f[i] >> 7 * 200
		}
	}
	for _, k := range []struct {
		name    string
		c       *Clip
		allowed int
		rate    Rate
	}{
		{"a.png", moving(33, 17, 5), 0, Rate{25, 2}}, {"a.apng", moving(1, 1, 3), 0, Rate{25, 2}},
		{"a.y4m", moving(33, 17, 5), 2, Rate{25, 2}}, {"one.y4m", moving(1, 1, 1), 2, Rate{25, 2}},
		{"folder", moving(33, 17, 12), 0, Rate{}}, {"few.gif", few, 0, Rate{25, 2}}, {"many.gif", moving(33, 17, 5), 40, Rate{25, 2}},
	} {
		path := filepath.Join(t.TempDir(), k.name)
		if err := WriteFile(path, k.c); err != nil {
			t.Fatal(err)
		}
		got, err := Open(path, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if d := worst(t, k.c, got); d > k.allowed {
			t.Errorf("%s: %d levels off, allowed %d", k.name, d, k.allowed)
		}
		if got.Rate != k.rate {
			t.Errorf("%s: rate %v, want %v", k.name, got.Rate, k.rate)
		}
	}
}

// TestGIFClock: delays are whole hundredths, but their sum keeps the duration.
func TestGIFClock(t *testing.T) {
	for _, r := range []Rate{{30, 1}, {24000, 1001}, {7, 1}, {50, 1}} {
		c := moving(4, 4, 60)
		c.Rate = r
		var file bytes.Buffer
		if err := EncodeGIF(&file, c); err != nil {
			t.Fatal(err)
		}
		got, err := Decode(file.Bytes(), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if d := got.Seconds() - c.Seconds(); d > 0.005 || d < -0.005 {
			t.Errorf("%v: %g seconds, want %g", r, got.Seconds(), c.Seconds())
		}
	}
}

func TestPick(t *testing.T) {
	c := moving(4, 4, 10)
	few, err := c.Pick([]int{0, 3, 6, 9, 9})
	if err != nil {
		t.Fatal(err)
	}
	if few.Seconds() != c.Seconds() || &few.Frames[1][0] != &c.Frames[3][0] {
		t.Errorf("%g seconds, want %g; frames must be shared", few.Seconds(), c.Seconds())
	}
	for _, i := range []int{-1, 10} {
		if _, err := c.Pick([]int{i}); err == nil {
			t.Errorf("frame %d was picked", i)
		}
	}
}

// TestFolderOrder: numbers decide, whatever their width; other files do not count.
func TestFolderOrder(t *testing.T) {
	dir := t.TempDir()
	c := moving(5, 4, 12)
	for i, f := range c.Frames {
		var file bytes.Buffer
		if err := encodePNG(&file, f, c.Width, c.Height); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, fmt.Sprintf("take2_%d.PNG", i)), file.Bytes())
	}
	write(t, filepath.Join(dir, "notes.txt"), []byte("no frame"))
	got, err := Open(dir, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if d := worst(t, c, got); d != 0 {
		t.Errorf("the frames are out of order: %d levels off", d)
	}
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRefused: each file that cannot be a clip, or costs too much, is refused with a sentence.
func TestRefused(t *testing.T) {
	c := moving(20, 10, 4)
	file := func(encode func(*bytes.Buffer) error) []byte {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	apng := file(func(b *bytes.Buffer) error { return EncodeAPNG(b, c) })
	gif := file(func(b *bytes.Buffer) error { return EncodeGIF(b, c) })
	y4m := file(func(b *bytes.Buffer) error { return EncodeY4M(b, c) })
	spoilt := bytes.Clone(apng)
	spoilt[len(spoilt)/2] ^= 1
	for name, k := range map[string]struct {
		data []byte
		l    Limits
		says string
	}{
		"nothing":       {nil, Limits{}, "neither GIF"},
		"text":          {[]byte("hello"), Limits{}, "neither GIF"},
		"bytes":         {apng, Limits{Bytes: 100}, "Limits.Bytes"},
		"APNG pixels":   {apng, Limits{Pixels: 199}, "Limits.Pixels"},
		"GIF pixels":    {gif, Limits{Pixels: 199}, "Limits.Pixels"},
		"Y4M pixels":    {y4m, Limits{Pixels: 199}, "Limits.Pixels"},
		"APNG frames":   {apng, Limits{Frames: 3}, "Limits.Frames"},
		"GIF frames":    {gif, Limits{Frames: 3}, "Limits.Frames"},
		"Y4M frames":    {y4m, Limits{Frames: 3}, "Limits.Frames"},
		"APNG total":    {apng, Limits{Total: 799}, "Limits.Total"},
		"GIF total":     {gif, Limits{Total: 799}, "Limits.Total"},
		"Y4M total":     {y4m, Limits{Total: 799}, "Limits.Total"},
		"APNG short":    {apng[:len(apng)-20], Limits{}, "damaged"},
		"APNG spoilt":   {spoilt, Limits{}, "damaged"},
		"GIF short":     {gif[:20], Limits{}, "reading a GIF"},
		"Y4M short":     {y4m[:len(y4m)-1], Limits{}, "cut short"},
		"Y4M no frame":  {[]byte("YUV4MPEG2 W4 H4\n"), Limits{}, "without frames"},
		"Y4M no size":   {[]byte("YUV4MPEG2 F1:1\nFRAME\n"), Limits{}, "nothing in them"},
		"Y4M negative":  {[]byte("YUV4MPEG2 W-4 H-4\nFRAME\n"), Limits{}, "nothing in them"},
		"Y4M vast":      {[]byte("YUV4MPEG2 W99999999999999999999 H4\nFRAME\n"), Limits{}, "in the header"},
		"Y4M large":     {[]byte("YUV4MPEG2 W60000 H60000\nFRAME\n"), Limits{}, "Limits.Pixels"},
		"Y4M deep":      {[]byte("YUV4MPEG2 W4 H4 C420p10\nFRAME\n"), Limits{}, "8 bits"},
		"Y4M no header": {[]byte("YUV4MPEG2 " + strings.Repeat("X", 1<<17)), Limits{}, "no end"},
	} {
		got, err := Decode(k.data, k.l)
		if err == nil || !strings.Contains(err.Error(), k.says) {
			t.Errorf("%s: %v, %v; want an error with %q", name, got, err, k.says)
		}
	}
	for _, bad := range []*Clip{nil, {}, {Width: 2, Height: 2, Frames: [][]uint8{make([]uint8, 11)}}} {
		if err := WriteFile(filepath.Join(t.TempDir(), "a.gif"), bad); err == nil {
			t.Errorf("%v was written", bad)
		}
	}
	if err := WriteFile("clip.txt", c); err == nil || !strings.Contains(err.Error(), ".y4m") {
		t.Errorf("clip.txt: %v", err)
	}
	if err := WriteFile(t.TempDir()+"/full", c); err != nil {
		t.Error(err)
	}
	full := t.TempDir()
	write(t, filepath.Join(full, "x"), nil)
	if err := WriteFile(full+"/.", c); err == nil {
		t.Error("frames were written among other files")
	}
	if _, err := Open(full, Limits{}); err == nil || !strings.Contains(err.Error(), "no PNG") {
		t.Errorf("a folder without frames: %v", err)
	}
}

// TestY4MKinds: one gray level and one colour in every layout of the planes.
func TestY4MKinds(t *testing.T) {
	for name, k := range map[string]struct {
		header string
		planes []byte
		want   []uint8 // of the last pixel
	}{
		"420, odd":  {"W3 H3", slices.Concat(bytes.Repeat([]byte{81}, 9), bytes.Repeat([]byte{90}, 4), bytes.Repeat([]byte{240}, 4)), []uint8{254, 0, 0}},
		"422":       {"W3 H3 C422", slices.Concat(bytes.Repeat([]byte{145}, 9), bytes.Repeat([]byte{54}, 6), bytes.Repeat([]byte{34}, 6)), []uint8{0, 255, 1}},
		"444":       {"W1 H1 C444", []byte{41, 240, 110}, []uint8{0, 0, 255}},
		"mono":      {"W2 H1 Cmono", []byte{16, 235}, []uint8{255, 255, 255}},
		"mono full": {"W2 H1 Cmono XCOLORRANGE=FULL", []byte{3, 77}, []uint8{77, 77, 77}},
	} {
		c, err := Decode(slices.Concat([]byte("YUV4MPEG2 "+k.header+"\nFRAME Ip\n"), k.planes), Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f := c.Frames[0]
		for i, w := range k.want {
			if d := int(f[len(f)-3+i]) - int(w); d < -1 || d > 1 {
				t.Errorf("%s: the last pixel is %v, want %v", name, f[len(f)-3:], k.want)
				break
			}
		}
	}
}

// TestUniform holds the rule to values that numpy and torch gave for
// round(linspace(0, total-1, n)).
func TestUniform(t *testing.T) {
	for _, k := range []struct {
		total, n int
		want     []int
	}{
		{10, 4, []int{0, 3, 6, 9}}, {81, 8, []int{0, 11, 23, 34, 46, 57, 69, 80}}, {6, 11, []int{0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5}},
		{7, 1, []int{0}}, {1, 3, []int{0, 0, 0}}, {0, 3, nil}, {3, 0, nil}, {3, -1, nil},
	} {
		if got := Uniform(k.total, k.n); !slices.Equal(got, k.want) {
			t.Errorf("%d of %d: %v, want %v", k.n, k.total, got, k.want)
		}
	}
	for total := 1; total < 60; total++ {
		for n := 2; n < 40; n++ {
			got := Uniform(total, n)
			if got[0] != 0 || got[n-1] != total-1 || !slices.IsSorted(got) {
				t.Fatalf("%d of %d: %v", n, total, got)
			}
		}
	}
}

func TestThinned(t *testing.T) {
	for _, k := range []struct {
		total int
		rate  Rate
		want  []int
	}{
		{9, Rate{24, 1}, []int{0, 3, 6}}, {5, Rate{8, 1}, []int{0, 1, 2, 3, 4}}, {5, Rate{}, []int{0, 1, 2, 3, 4}},
		{5, Rate{20, 1}, []int{0, 2, 4}}, {5, Rate{28, 1}, []int{0, 4}}, {3, Rate{1 << 30, 1}, []int{0}}, {0, Rate{24, 1}, nil},
	} {
		if got := Thinned(k.total, k.rate, 8); !slices.Equal(got, k.want) {
			t.Errorf("%d at %v: %v, want %v", k.total, k.rate, got, k.want)
		}
	}
}
