package vision

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// EncodePNG writes a picture as an RGB PNG, the settings as text chunks before the pixels.
func EncodePNG(w io.Writer, m *Image, settings ...Setting) error {
	return encodePNG(w, m, png.DefaultCompression, settings)
}

// EncodeQuickPNG writes a picture on its way: an eighth of the time, and some more bytes.
func EncodeQuickPNG(w io.Writer, m *Image) error { return encodePNG(w, m, png.BestSpeed, nil) }

func encodePNG(w io.Writer, m *Image, level png.CompressionLevel, settings []Setting) error {
	text, err := textChunks(settings)
	if err != nil {
		return err
	}
	// The encoder reads four channels faster than it asks for single pixels.
	full := image.NewRGBA(m.Bounds())
	for i := range m.Width * m.Height {
		p := full.Pix[4*i : 4*i+4]
		copy(p, m.Pix[3*i:3*i+3])
		p[3] = 255
	}
	var file bytes.Buffer
	encoder := png.Encoder{CompressionLevel: level}
	if err := encoder.Encode(&file, full); err != nil {
		return fmt.Errorf("encoding a PNG of %d x %d: %w", m.Width, m.Height, err)
	}
	data := file.Bytes()
	for _, part := range [][]byte{data[:headerEnd], text, data[headerEnd:]} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// WriteFile writes a picture as a PNG file: under another name first, so that a reader
// never sees a part of it.
func WriteFile(path string, m *Image, settings ...Setting) error {
	var file bytes.Buffer
	if err := EncodePNG(&file, m, settings...); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	part := path + ".part"
	if err := os.WriteFile(part, file.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// IsPNG reports whether a file begins as PNG files do.
func IsPNG(data []byte) bool { return bytes.HasPrefix(data, []byte(pngMagic)) }

// Card: text in PNG files (PNG specification, 11.3.4). A sample's settings stand in its picture as text chunks, so
// that the picture alone says how to make it again. A chunk is length, name, data, CRC. tEXt is key, 0, Latin-1; iTXt
// is key, 0, compressed?, method, language, 0, translated key, 0, UTF-8; zTXt is tEXt, compressed. Latin-1 values are
// written as tEXt, others as iTXt. The invariant: written settings are read again.

// A Setting is one text in a PNG file: prompt, seed, steps, whatever made the picture.
type Setting struct{ Key, Value string }

const (
	pngMagic  = "\x89PNG\r\n\x1a\n"
	headerEnd = len(pngMagic) + 12 + 13 // the magic and the chunk IHDR
)

// Limits on the text of a stranger's file.
const (
	maxSettings = 1000
	maxText     = 1 << 20 // of one value, once decompressed
	maxTexts    = 16 << 20
)

func textChunks(settings []Setting) ([]byte, error) {
	var out []byte
	for _, s := range settings {
		if err := s.check(); err != nil {
			return nil, err
		}
		key, _ := latin1(s.Key)
		data := append(key, 0)
		name := "tEXt"
		if value, ok := latin1(s.Value); ok {
			data = append(data, value...)
		} else {
			name = "iTXt"
			data = append(append(data, 0, 0, 0, 0), s.Value...)
		}
		out = appendChunk(out, name, data)
	}
	return out, nil
}

func appendChunk(out []byte, name string, data []byte) []byte {
	out = binary.BigEndian.AppendUint32(out, uint32(len(data)))
	from := len(out)
	out = append(append(out, name...), data...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[from:]))
}

func (s Setting) check() error {
	key, ok := latin1(s.Key)
	switch {
	case !ok || len(key) < 1 || len(key) > 79 || strings.TrimSpace(s.Key) != s.Key || strings.ContainsFunc(s.Key, func(r rune) bool { return r < 32 || r > 126 && r < 161 }):
		return fmt.Errorf("setting %q: a key has 1 to 79 printable Latin-1 characters and no space at its ends", s.Key)
	case !utf8.ValidString(s.Value) || strings.ContainsRune(s.Value, 0):
		return fmt.Errorf("setting %q: its value is not a text: UTF-8 without zero bytes is needed", s.Key)
	case len(s.Value) > maxText:
		return fmt.Errorf("setting %q: a value of %d bytes, more than %d", s.Key, len(s.Value), maxText)
	}
	return nil
}

func latin1(s string) ([]byte, bool) {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 255 || r == utf8.RuneError {
			return nil, false
		}
		out = append(out, byte(r))
	}
	return out, true
}

func fromLatin1(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		s.WriteRune(rune(c))
	}
	return s.String()
}

// ReadSettings reads the texts of a PNG file, in their order.
func ReadSettings(data []byte) ([]Setting, error) {
	rest, ok := bytes.CutPrefix(data, []byte(pngMagic))
	if !ok {
		return nil, errors.New("not a PNG: only these hold settings")
	}
	var all []Setting
	total := 0
	for len(rest) >= 12 {
		size, name := int64(binary.BigEndian.Uint32(rest)), string(rest[4:8])
		if size > int64(len(rest)-12) {
			return nil, fmt.Errorf("chunk %q of a PNG is cut short: the file is damaged", name)
		}
		body, sum := rest[8:8+size], binary.BigEndian.Uint32(rest[8+size:])
		read, text := textReaders[name]
		if text {
			if crc32.ChecksumIEEE(rest[4:8+size]) != sum {
				return nil, fmt.Errorf("chunk %q of a PNG has a wrong checksum: the file is damaged", name)
			}
			s, err := read(body)
			if err != nil {
				return nil, fmt.Errorf("chunk %q of a PNG: %w", name, err)
			}
			all = append(all, s)
			total += len(s.Key) + len(s.Value)
		}
		if len(all) > maxSettings || total > maxTexts {
			return nil, fmt.Errorf("a PNG with more than %d texts or %d bytes of them: no picture of ours", maxSettings, maxTexts)
		}
		if name == "IEND" {
			return all, nil
		}
		rest = rest[12+size:]
	}
	return nil, errors.New("a PNG without an end: the file is damaged")
}

var textReaders = map[string]func([]byte) (Setting, error){
	"tEXt": func(b []byte) (Setting, error) {
		key, value, ok := bytes.Cut(b, []byte{0})
		if !ok {
			return Setting{}, errNoKey
		}
		return Setting{fromLatin1(key), fromLatin1(value)}, nil
	},
	"zTXt": func(b []byte) (Setting, error) {
		key, rest, ok := bytes.Cut(b, []byte{0})
		if !ok || len(rest) < 1 {
			return Setting{}, errNoKey
		}
		value, err := unzipped(rest[0], rest[1:])
		return Setting{fromLatin1(key), fromLatin1(value)}, err
	},
	"iTXt": func(b []byte) (Setting, error) {
		key, rest, ok := bytes.Cut(b, []byte{0})
		if !ok || len(rest) < 2 {
			return Setting{}, errNoKey
		}
		packed, method := rest[0], rest[1]
		_, rest, ok = bytes.Cut(rest[2:], []byte{0}) // the language
		_, value, ok2 := bytes.Cut(rest, []byte{0})  // the translated key
		if !ok || !ok2 {
			return Setting{}, errNoKey
		}
		var err error
		if packed != 0 {
			value, err = unzipped(method, value)
		}
		if err == nil && !utf8.Valid(value) {
			err = errors.New("its text is not UTF-8")
		}
		return Setting{fromLatin1(key), string(value)}, err
	},
}

var errNoKey = errors.New("it has no key: the file is damaged")

func unzipped(method byte, data []byte) ([]byte, error) {
	if method != 0 {
		return nil, fmt.Errorf("compressed by method %d, which PNG does not have", method)
	}
	z, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	text, err := io.ReadAll(io.LimitReader(z, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("a text of more than %d bytes: no picture of ours", maxText)
	}
	return text, err
}
