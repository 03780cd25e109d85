package driver

import "testing"

func TestParseDevice(t *testing.T) {
	for s, want := range map[string]int{"cuda": 0, "cuda:0": 0, "cuda:7": 7, "cuda:": -1, "cuda:-1": -1, "cuda7": -1, "cpu": -1, "cuda:x": -1} {
		got, err := ParseDevice(s)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%s: %d, %v", s, got, err)
		}
	}
}
