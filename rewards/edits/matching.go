package edits

// Card: how alike two texts are by difflib.SequenceMatcher(None, a, b).ratio() of Python: twice the letters in matching
// blocks over the letters of both. The longest block, of those the first in a and then in b, divides both texts, and
// so on in the parts. Letters of b that make more than 1 in 100 of 200 letters and more are never the beginning of a
// block. Invariant (test): values of Python.

// Matching is the ratio; 1 for two empty texts.
func Matching(a, b string) float64 {
	x, y := []rune(a), []rune(b)
	if len(x)+len(y) == 0 {
		return 1
	}
	places := map[rune][]int{}
	for j, r := range y {
		places[r] = append(places[r], j)
	}
	if n := len(y); n >= 200 {
		for r, list := range places {
			if len(list) > n/100+1 {
				delete(places, r)
			}
		}
	}
	matched := 0
	parts := [][4]int{{0, len(x), 0, len(y)}}
	for len(parts) > 0 {
		p := parts[len(parts)-1]
		parts = parts[:len(parts)-1]
		i, j, n := longest(x, y, places, p)
		if n == 0 {
			continue
		}
		matched += n
		parts = append(parts, [4]int{p[0], i, p[2], j}, [4]int{i + n, p[1], j + n, p[3]})
	}
	return 2 * float64(matched) / float64(len(x)+len(y))
}

// longest is the longest block of a part.
func longest(x, y []rune, places map[rune][]int, p [4]int) (besti, bestj, size int) {
	besti, bestj = p[0], p[2]
	lengths := map[int]int{}
	for i := p[0]; i < p[1]; i++ {
		next := map[int]int{}
		for _, j := range places[x[i]] {
			if j < p[2] {
				continue
			}
			if j >= p[3] {
				break
			}
			k := lengths[j-1] + 1
			next[j] = k
			if k > size {
				besti, bestj, size = i-k+1, j-k+1, k
			}
		}
		lengths = next
	}
	for besti > p[0] && bestj > p[2] && x[besti-1] == y[bestj-1] {
		besti, bestj, size = besti-1, bestj-1, size+1
	}
	for besti+size < p[1] && bestj+size < p[3] && x[besti+size] == y[bestj+size] {
		size++
	}
	return besti, bestj, size
}
