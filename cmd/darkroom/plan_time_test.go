package main

import "testing"

func TestEvaluations(t *testing.T) {
	for _, c := range [][3]int{{10, 0, 2}, {10, 5, 3}, {10, 4, 4}, {10, 20, 2}, {10, 10, 2}} {
		if n := evaluations(c[0], c[1]); n != c[2] {
			t.Errorf("%d iterations, every %d: %d evaluations, not %d", c[0], c[1], n, c[2])
		}
	}
}
