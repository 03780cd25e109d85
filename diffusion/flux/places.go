package flux

// Places of tokens are an index, a row and a column (mmdit's Rotary).

// Grid is the places of h x w tokens of a picture: (index, row, column).
func Grid(index, h, w int) [][]float32 {
	var places [][]float32
	for y := range h {
		for x := range w {
			places = append(places, []float32{float32(index), float32(y), float32(x)})
		}
	}
	return places
}

// Nowhere is the places of n tokens of text.
func Nowhere(n int) [][]float32 {
	places := make([][]float32, n)
	for i := range places {
		places[i] = make([]float32, 3)
	}
	return places
}
