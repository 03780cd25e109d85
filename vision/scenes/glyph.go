package scenes

import "strings"

const (
	dot  = 3       // pixels a side of a glyph's dot
	cell = 6 * dot // pixels a side of a glyph
)

// glyphs are the capital Letters in PIL's built-in bitmap font, six rows of six dots.
var glyphs = [...][6]uint8{
	{0b111100, 0b011100, 0b010100, 0b111110, 0b110110, 0b110111}, // A
	{0b011110, 0b110110, 0b110000, 0b110000, 0b110110, 0b011100}, // C
	{0b111100, 0b110110, 0b110110, 0b110110, 0b110110, 0b111100}, // D
	{0b111110, 0b110000, 0b111100, 0b110000, 0b110110, 0b111110}, // E
	{0b011100, 0b110110, 0b110000, 0b111110, 0b110110, 0b011110}, // G
	{0b110111, 0b111010, 0b111010, 0b110110, 0b110110, 0b110010}, // N
	{0b011100, 0b110110, 0b110110, 0b110110, 0b110110, 0b011100}, // O
	{0b111100, 0b110110, 0b110110, 0b111100, 0b110000, 0b111000}, // P
	{0b111100, 0b110110, 0b110110, 0b111100, 0b110110, 0b111011}, // R
	{0b011110, 0b110010, 0b111100, 0b001110, 0b100110, 0b111100}, // S
	{0b111110, 0b011010, 0b011000, 0b011000, 0b011000, 0b111100}, // T
	{0b110111, 0b110110, 0b110110, 0b110110, 0b110110, 0b011100}, // U
}

// inGlyph reports whether pixel x, y of a letter's cell is ink.
func inGlyph(letter byte, x, y int) bool {
	i := strings.IndexByte(Letters, letter)
	return i >= 0 && glyphs[i][y/dot]>>(5-x/dot)&1 == 1
}
