package rewards

import (
	"errors"
	"slices"
	"testing"
)

func TestParseSpec(t *testing.T) {
	for spec, want := range map[string][]Part{
		"":                          nil,
		" ocr ":                     {{Name: "ocr", Weight: 1}},
		"ocr:2, layout :-0.5,,":     {{Name: "ocr", Weight: 2}, {Name: "layout", Weight: -0.5}},
		"a:1,b,a:3":                 {{Name: "a", Weight: 3}, {Name: "b", Weight: 1}},
		`{"z": 1e-1, "a": 2}`:       {{Name: "z", Weight: 0.1}, {Name: "a", Weight: 2}},
		`{"a": "1.5", "b": 1}`:      {{Name: "a", Weight: 1.5}, {Name: "b", Weight: 1}},
		`{"a": 1, "b": 1, "a": 12}`: {{Name: "a", Weight: 12}, {Name: "b", Weight: 1}},
		"{}":                        nil,
	} {
		if got, err := ParseSpec(spec); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v, %v", spec, got, want, err)
		}
	}
	for spec, want := range map[string]error{
		":1": ErrName, "a, :2": ErrName,
		"a:": ErrWeight, "a:b": ErrWeight, "a:nan": ErrWeight, "a:1e999": ErrWeight, "a:1:2": ErrWeight, `{"a": null}`: ErrWeight, `{"a": [1]}`: ErrWeight,
		"{": ErrJSON, `{"a": 1} x`: ErrJSON, "{a: 1}": ErrJSON,
	} {
		if got, err := ParseSpec(spec); !errors.Is(err, want) {
			t.Errorf("%q: %v, %v, want %v", spec, got, err, want)
		}
	}
}
