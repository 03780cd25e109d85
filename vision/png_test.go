package vision

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSettingsRoundTrip(t *testing.T) {
	m := noise(9, 6, 3).RGB()
	want := []Setting{
		{"prompt", "a red cup\non a table"},
		{"seed", "7"},
		{"prompt.de", "eine rote Tasse für Zoë"},
		{"prompt.zh", "红色杯子 \"x\""},
		{"empty", ""},
		{"prompt", "the same key again"},
		{"Größe", "Latin-1 key"},
	}
	path := filepath.Join(t.TempDir(), "a.png")
	if err := WriteFile(path, m, want...); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadSettings(data)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("read %q, %v", got, err)
	}
	back, err := Open(path, Limits{})
	if err != nil || !bytes.Equal(back.Pix, m.Pix) {
		t.Errorf("the pixels changed: %v", err)
	}
	if _, err := png.Decode(bytes.NewReader(data)); err != nil {
		t.Errorf("the standard reader: %v", err)
	}
}

// TestReadCompressedSettings reads files of other programs.
func TestReadCompressedSettings(t *testing.T) {
	packed := "\x78\x9c\xcb\x48\xcd\xc9\xc9\x07\x00\x06\x2c\x02\x15" // zlib: hello
	data := []byte(pngMagic)
	data = appendChunk(data, "zTXt", []byte("a\x00\x00"+packed))
	data = appendChunk(data, "iTXt", []byte("b\x00\x01\x00en\x00bee\x00"+packed))
	data = appendChunk(data, "iTXt", []byte("c\x00\x00\x00\x00\x00plain"))
	data = appendChunk(data, "teST", []byte("of no concern"))
	data = appendChunk(data, "IEND", nil)
	got, err := ReadSettings(data)
	if want := []Setting{{"a", "hello"}, {"b", "hello"}, {"c", "plain"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestSettingsRefused(t *testing.T) {
	for _, s := range []Setting{
		{"", "x"}, {strings.Repeat("k", 80), "x"}, {" k", "x"}, {"k\n", "x"}, {"钥", "x"}, {"k\x00", "x"},
		{"k", "a\x00b"}, {"k", "\xff"}, {"k", strings.Repeat("x", maxText+1)},
	} {
		if err := EncodePNG(&bytes.Buffer{}, New(1, 1), s); err == nil || !strings.Contains(err.Error(), "setting") {
			t.Errorf("%.20q: %v", s, err)
		}
	}
	whole := appendChunk(appendChunk([]byte(pngMagic), "tEXt", []byte("k\x00v")), "IEND", nil)
	wrong := bytes.Clone(whole)
	wrong[len(pngMagic)+9] ^= 1
	bomb := []byte(pngMagic)
	for range maxSettings + 1 {
		bomb = appendChunk(bomb, "tEXt", []byte("k\x00v"))
	}
	for name, data := range map[string][]byte{
		"no PNG": []byte("x"), "no end": whole[:len(whole)-12], "cut": whole[:len(whole)-15], "checksum": wrong,
		"no key": appendChunk([]byte(pngMagic), "tEXt", []byte("key")), "too many": appendChunk(bomb, "IEND", nil),
	} {
		if got, err := ReadSettings(data); err == nil {
			t.Errorf("%s: read %q", name, got)
		}
	}
}

// FuzzSettings: whatever is read can be written and read again.
func FuzzSettings(f *testing.F) {
	f.Add(appendChunk(appendChunk([]byte(pngMagic), "tEXt", []byte("k\x00v")), "IEND", nil))
	f.Add(appendChunk(appendChunk([]byte(pngMagic), "iTXt", []byte("k\x00\x01\x00\x00\x00x\x9c")), "IEND", nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := ReadSettings(data)
		if err != nil {
			return
		}
		var file bytes.Buffer
		if EncodePNG(&file, New(1, 1), read...) != nil {
			return // a key that others allow themselves
		}
		again, err := ReadSettings(file.Bytes())
		if err != nil || !slices.Equal(read, again) {
			t.Errorf("%q became %q, %v", read, again, err)
		}
	})
}
