package main

import (
	"bytes"
	"image/png"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// samePixels is `pixels A.png B.png`: two pictures are the same, whatever their texts say; `! pixels`: they are not.
func samePixels(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: pixels A.png B.png")
	}
	var encoded [2][]byte
	for i, name := range args {
		f, err := os.Open(ts.MkAbs(name))
		ts.Check(err)
		defer f.Close()
		m, err := png.Decode(f)
		ts.Check(err)
		var b bytes.Buffer
		ts.Check(png.Encode(&b, m))
		encoded[i] = b.Bytes()
	}
	if same := bytes.Equal(encoded[0], encoded[1]); same == neg {
		ts.Fatalf("%s and %s show the same: %v", args[0], args[1], same)
	}
}
