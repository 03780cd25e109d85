package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// leaf is a number, a text or a word of a JSON document, by its path.
type leaf struct {
	path, text string
	number     bool
}

// leaves are all of a document, in its order.
func leaves(text []byte) ([]leaf, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var all []leaf
	err := walk(dec, "", func(l leaf) { all = append(all, l) })
	return all, err
}

// walk reads one value.
func walk(dec *json.Decoder, path string, found func(leaf)) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		return walkInto(dec, v, path, found)
	case json.Number:
		found(leaf{path, v.String(), true})
	case nil:
		found(leaf{path, "null", false})
	case string:
		found(leaf{path, strconv.Quote(v), false})
	default:
		found(leaf{path, fmt.Sprint(v), false})
	}
	return nil
}

// walkInto reads an object or a list.
func walkInto(dec *json.Decoder, open json.Delim, path string, found func(leaf)) error {
	for n := 0; dec.More(); n++ {
		below := fmt.Sprintf("%s[%d]", path, n)
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			if below = fmt.Sprint(key); path != "" {
				below = path + "." + below
			}
		}
		if err := walk(dec, below, found); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// differing are the leaves of two documents that are not the same, in the order of the first.
func differing(a, b []leaf) []Place {
	in := map[string]leaf{}
	for _, l := range b {
		in[l.path] = l
	}
	var all []Place
	for _, l := range a {
		other, ok := in[l.path]
		delete(in, l.path)
		if ok && same(l, other) {
			continue
		}
		p := Place{Number: l.path, A: l.text, B: other.text}
		if l.number && other.number {
			p.Units = units(l.text, other.text)
		}
		all = append(all, p)
	}
	for _, l := range b {
		if _, ok := in[l.path]; ok {
			all = append(all, Place{Number: l.path, B: l.text})
		}
	}
	return all
}

// same compares numbers as numbers: versions may write them otherwise.
func same(a, b leaf) bool {
	if a.text == b.text || !a.number || !b.number {
		return a.text == b.text && a.number == b.number
	}
	n := units(a.text, b.text)
	return n != nil && *n == 0
}

// units returns the number of float64 values between two numbers; nil where one is not a float64.
func units(a, b string) *uint64 {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX != nil || errY != nil {
		return nil
	}
	n := apart(order64(x), order64(y))
	return &n
}

func apart(x, y int64) uint64 {
	if x < y {
		x, y = y, x
	}
	return uint64(x) - uint64(y)
}

// order64 numbers all float64 in their order; both zeros are 0.
func order64(x float64) int64 {
	bits := int64(math.Float64bits(x))
	if bits < 0 {
		return math.MinInt64 - bits
	}
	return bits
}

// order32 numbers all float32 in their order; both zeros are 0.
func order32(x float32) int64 {
	bits := int32(math.Float32bits(x))
	if bits < 0 {
		return int64(math.MinInt32) - int64(bits)
	}
	return int64(bits)
}
