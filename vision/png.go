package vision

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
)

// EncodePNG writes a picture as an RGB PNG, the settings as text chunks before the pixels.
func EncodePNG(w io.Writer, m *Image, settings ...Setting) error {
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
	if err := png.Encode(&file, full); err != nil {
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
