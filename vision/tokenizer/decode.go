package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder turns tokens back into text: steps that rewrite the list of tokens, which are
// then joined.
type decoder []func([]string) []string

func (d decoder) text(tokens []string) string {
	for _, step := range d {
		tokens = step(tokens)
	}
	return strings.Join(tokens, "")
}

type decoderFile struct {
	Type        string        `json:"type"`
	Decoders    []decoderFile `json:"decoders"`
	Replacement string        `json:"replacement"`
	Scheme      string        `json:"prepend_scheme"`
	Suffix      string        `json:"suffix"`
	Pattern     pattern       `json:"pattern"`
	Content     string        `json:"content"`
	Start, Stop int
	Cleanup     *bool `json:"cleanup"`
	Prefix      string
}

func readDecoder(raw json.RawMessage) (decoder, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return decoder{joinWords}, nil
	}
	var f decoderFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	return f.build()
}

// joinWords replaces a missing decoder: blanks between tokens.
func joinWords(tokens []string) []string { return []string{strings.Join(tokens, " ")} }

func (f decoderFile) build() (decoder, error) {
	switch f.Type {
	case "Sequence":
		var all decoder
		for _, d := range f.Decoders {
			one, err := d.build()
			if err != nil {
				return nil, err
			}
			all = append(all, one...)
		}
		return all, nil
	case "ByteLevel":
		return decoder{joinBytes}, nil
	case "WordPiece":
		return decoder{joinPieces(f.Prefix, f.Cleanup == nil || *f.Cleanup)}, nil
	case "Metaspace":
		if f.Replacement == "" { // every place between two characters would be one
			return nil, errors.New(`decoder Metaspace needs a "replacement"`)
		}
		return decoder{f.blanks}, short("decoder Metaspace: a replacement", f.Replacement)
	case "ByteFallback":
		return decoder{joinFallback}, nil
	case "Fuse":
		return decoder{func(t []string) []string { return []string{strings.Join(t, "")} }}, nil
	case "BPEDecoder":
		if f.Suffix == "" {
			return nil, errors.New(`decoder BPEDecoder needs a "suffix"`)
		}
		if err := short("decoder BPEDecoder: a suffix", f.Suffix); err != nil {
			return nil, err
		}
		return decoder{func(t []string) []string {
			out := make([]string, len(t))
			for i, s := range t {
				end := " "
				if i == len(t)-1 {
					end = ""
				}
				out[i] = strings.ReplaceAll(s, f.Suffix, end)
			}
			return out
		}}, nil
	case "Replace":
		find, err := f.Pattern.compile()
		if err == nil {
			err = short("a text", f.Content)
		}
		if err != nil {
			return nil, fmt.Errorf("decoder Replace: %w", err)
		}
		return decoder{func(t []string) []string {
			out := make([]string, len(t))
			w, total := begin(""), 0 // text beyond the limits is left out: a decoded text is only read
			for i, s := range t {
				out[i] = replaceAll(w, s, find, f.Content)
				if total += len(out[i]); !w.holds(total) {
					return out[:i]
				}
			}
			return out
		}}, nil
	case "Strip":
		return decoder{func(t []string) []string {
			out := make([]string, len(t))
			for i, s := range t {
				for n := 0; n < f.Start && strings.HasPrefix(s, f.Content) && f.Content != ""; n++ {
					s = s[len(f.Content):]
				}
				for n := 0; n < f.Stop && strings.HasSuffix(s, f.Content) && f.Content != ""; n++ {
					s = s[:len(s)-len(f.Content)]
				}
				out[i] = s
			}
			return out
		}}, nil
	}
	return nil, fmt.Errorf("decoder of type %.40q is not known", f.Type)
}

// joinBytes reads tokens as bytes; invalid UTF-8 becomes U+FFFD.
func joinBytes(tokens []string) []string {
	var all []byte
	for _, t := range tokens {
		all = append(all, fromByteLevel(t)...)
	}
	return []string{lossy(all)}
}

// lossy replaces each longest part that could have begun a character by one U+FFFD.
func lossy(b []byte) string {
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r != utf8.RuneError || n > 1 {
			s.Write(b[:n])
			b = b[n:]
			continue
		}
		s.WriteRune(utf8.RuneError)
		b = b[broken(b):]
	}
	return s.String()
}

// broken is the length of a character's beginning that does not go on.
func broken(b []byte) int {
	need, low, high := 0, byte(0x80), byte(0xBF)
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c >= 0xE0 && c <= 0xEF:
		need = 2
		if c == 0xE0 {
			low = 0xA0
		}
		if c == 0xED {
			high = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 3
		if c == 0xF0 {
			low = 0x90
		}
		if c == 0xF4 {
			high = 0x8F
		}
	}
	n := 1
	for ; n <= need && n < len(b) && b[n] >= low && b[n] <= high; n++ {
		low, high = 0x80, 0xBF
	}
	return n
}

// blanks writes the mark as blanks, but for the first token's.
func (f decoderFile) blanks(tokens []string) []string {
	out := make([]string, len(tokens))
	for i, t := range tokens {
		blank := " "
		if i == 0 && f.Scheme != "never" {
			blank = ""
		}
		out[i] = strings.ReplaceAll(t, f.Replacement, blank)
	}
	return out
}

// joinFallback joins runs of <0x..>: invalid UTF-8 becomes U+FFFD for every byte.
func joinFallback(tokens []string) []string {
	var out []string
	var run []byte
	flush := func() {
		if utf8.Valid(run) {
			if len(run) > 0 {
				out = append(out, string(run))
			}
		} else {
			for range run {
				out = append(out, string(utf8.RuneError))
			}
		}
		run = nil
	}
	for _, t := range tokens {
		if len(t) == 6 && strings.HasPrefix(t, "<0x") && t[5] == '>' {
			if b, err := strconv.ParseUint(t[3:5], 16, 8); err == nil {
				run = append(run, byte(b))
				continue
			}
		}
		flush()
		out = append(out, t)
	}
	flush()
	return out
}
