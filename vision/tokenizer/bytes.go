package tokenizer

import "strings"

// Byte-level models write bytes as printable characters (GPT-2): those that are printable
// stand for themselves, the others for 256, 257, ... in order.

var byteRunes, runeBytes = byteAlphabet()

func byteAlphabet() (runes [256]rune, bytes map[rune]byte) {
	bytes = map[rune]byte{}
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) {
			r = next
			next++
		}
		runes[b], bytes[r] = r, byte(b)
	}
	return runes, bytes
}

func toByteLevel(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(byteRunes[s[i]])
	}
	return b.String()
}

// fromByteLevel is the bytes of a token; one that has other characters is as it is.
func fromByteLevel(token string) []byte {
	var out []byte
	for _, r := range token {
		b, ok := runeBytes[r]
		if !ok {
			return []byte(token)
		}
		out = append(out, b)
	}
	return out
}
