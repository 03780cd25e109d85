package main

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	n, err := parse("nsfw=some:where/a.onnx:1x224x224x3")
	if err != nil || n.name != "nsfw" || n.file != "some:where/a.onnx" || !slices.Equal(n.shape, []int{1, 224, 224, 3}) {
		t.Errorf("%+v, %v", n, err)
	}
	for _, bad := range []string{"a.onnx", "x=a.onnx", "x=a.onnx:", "x=a.onnx:1x0", "x=a.onnx:1x-1x3"} {
		if n, err := parse(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, n)
		}
	}
}

func TestDiffer(t *testing.T) {
	mine := make([]float32, 8192) // of which the other program says every second
	a := answer{Size: len(mine), Out: make([]float64, 4096)}
	mine[2], mine[3] = 1, 5
	a.Out[1] = 0.75
	if worst, err := differ(mine, a); err != nil || worst != 0.25 {
		t.Errorf("%v, %v", worst, err)
	}
	a.Size++
	if _, err := differ(mine, a); err == nil || !strings.Contains(err.Error(), "8193") {
		t.Errorf("an answer of another size: %v", err)
	}
}
