package t5

import "testing"

// Buckets of published settings, from the definition by hand: exact below 8, then by
// logarithm; far keys share the last of their half.
func TestBuckets(t *testing.T) {
	c := Config{Buckets: 32, Distance: 128}
	for offset, want := range map[int]int32{0: 0, -1: 1, -7: 7, -8: 8, -11: 8, -12: 9, -127: 15, -1000: 15, 1: 17, 7: 23, 8: 24, 500: 31} {
		if got := c.bucket(offset); got != want {
			t.Errorf("offset %d: bucket %d, want %d", offset, got, want)
		}
	}
	all := c.buckets(3)
	for i, want := range []int32{0, 17, 18, 1, 0, 17, 2, 1, 0} {
		if all[i] != want {
			t.Errorf("pair %d: %d, want %d", i, all[i], want)
		}
	}
}
