package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/darkroom-rl/darkroom/internal/golden"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// toys are operations for the tests of the frame.
var toys = map[string]Op{
	"double": func(c *Case) {
		x := c.Array("x")
		for i := range x.Data {
			x.Data[i] *= 2
		}
		c.Put("y", x)
	},
	"echo":  func(c *Case) { c.Put("y", c.Raw("x")); c.Put("extra", 1) },
	"count": func(c *Case) { c.Put("n", len(c.Floats("x"))) },
	"first": func(c *Case) { c.Put("y", c.Floats("x")[0]) },
	"fail":  func(*Case) { check(errors.New("no convergence")) },
	"reads": func(c *Case) {
		c.Put("text", string(must(os.ReadFile(filepath.Join(c.Dir(), c.String("name"))))))
	},
	"engine": func(*Case) { check(Skipped{"no engine here"}) },
	"nested": func(c *Case) {
		total := 0.0
		for _, u := range c.Subs("updates") {
			total += u.Sub("config").Float("lr")
		}
		c.Put("total", total)
		c.Put("parts", []any{map[string]any{"a": []float64{1, 2}, "ok": true}, "text", nil})
	},
}

// runFamily runs cases given as JSON objects, joined by commas.
func runFamily(t *testing.T, cases string) *Report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "toys.json")
	if err := os.WriteFile(file, []byte(`{"family": "toys", "cases": [`+cases+`]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := run(context.Background(), []string{file}, Options{}, toys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestVerdicts: one case each, and its expected report; "" is a pass.
func TestVerdicts(t *testing.T) {
	for _, row := range []struct{ op, in, out, tol, says string }{
		{"double", `{"x": {"shape": [2], "data": [1, 2]}}`, `{"y": {"shape": [2], "data": [2, 4]}}`, `{}`, ""},
		{"double", `{"x": [[1, 2], [3, 4]]}`, `{"y": {"shape": [2, 2], "data": [2, 4, 6, 8]}}`, `{}`, ""},
		{"double", `{"x": [1, null]}`, `{"y": {"shape": [2], "data": [2, null]}}`, `{}`, ""},
		{"double", `{"x": [1, 3]}`, `{"y": {"shape": [2], "data": [2, null]}}`, `{}`, "y[1] is 6, want NaN"},
		{"double", `{"x": [1, null]}`, `{"y": {"shape": [2], "data": [2, 3]}}`, `{"abs": 9}`, "y[1] is NaN, want 3"},
		{"double", `{"x": [[1, 2], [3, 4]]}`, `{"y": {"shape": [2, 2], "data": [2, 4, 7, 9]}}`, `{"abs": 0.5}`, "y[1,0] is 6, want 7: off by 1, allowed 0.5"},
		{"double", `{"x": [100]}`, `{"y": {"shape": [1], "data": [201]}}`, `{"rel": 0.01}`, ""},
		{"double", `{"x": [100]}`, `{"y": {"shape": [1], "data": [201]}}`, `{"rel": 0.01, "y": {"abs": 0.5}}`, "y[0] is 200"},
		{"double", `{"x": [1, 2]}`, `{"y": {"shape": [2, 1], "data": [2, 4]}}`, `{}`, "y has shape [2], want [2 1]"},
		{"double", `{"x": 3}`, `{"y": 6}`, `{}`, ""},
		{"double", `{"x": "3"}`, `{"y": 6}`, `{}`, `input "x" is not an array of numbers`},
		{"double", `{}`, `{"y": 6}`, `{}`, `input "x" is missing`},
		{"double", `{"x": [[1], [2, 3]]}`, `{"y": 6}`, `{}`, `input "x" is not an array`},
		{"echo", `{"x": {"a": [1, "b", null, true]}}`, `{"y": {"a": [1, "b", null, true]}}`, `{}`, ""},
		{"echo", `{"x": {"a": [1, "b"], "more": 1}}`, `{"y": {"a": [1, "c"]}}`, `{}`, `y.a[1] is "b", want "c"`},
		{"echo", `{"x": [1, 2]}`, `{"y": [1, 2, 3]}`, `{}`, "y has 2 elements, want 3"},
		{"echo", `{"x": true}`, `{"y": 1}`, `{}`, ""},
		{"echo", `{"x": 1}`, `{"y": false}`, `{}`, "y is 1, want 0"},
		{"echo", `{"x": 1}`, `{"y": 1, "z": 2}`, `{}`, "z is not computed"},
		{"echo", `{"x": "text"}`, `{"y": 1}`, `{}`, `y is "text", want 1`},
		{"echo", `{"x": 1}`, `{"y": null}`, `{}`, "y is 1, want null"},
		{"count", `{"x": [1, 2, 3]}`, `{"n": 3}`, `{}`, ""},
		{"count", `{"x": [1, 2, 3]}`, `{"n": 4}`, `{"abs": 5}`, "n is 3, want 4"}, // an integer is exact
		{"count", `{"x": [1, 2, 3]}`, `{"n": 3.5}`, `{"abs": 1}`, ""},
		{"first", `{"x": []}`, `{"y": 1}`, `{}`, "panic: runtime error: index out of range"},
		{"first", `{}`, `{"y": 1}`, `{}`, `input "x" is missing`}, // not the panic that follows
		{"fail", `{}`, `{"y": 1}`, `{}`, "no convergence"},
		{"nested", `{"updates": [{"config": {"lr": 1}}, {"config": {"lr": 2}}]}`,
			`{"total": 3, "parts": [{"a": [1, 2], "ok": 1}, "text", null]}`, `{}`, ""},
		{"nested", `{"updates": [{"config": {"lr": 1}}, {"config": {}}]}`, `{"total": 3}`, `{}`,
			`input "updates[1].config.lr" is missing`},
		// The output with the largest share is named, not the first by its name.
		{"nested", `{"updates": [{"config": {"lr": 1}}]}`, `{"total": 90, "parts": [{"a": [1, 2.5], "ok": 1}, "text", null]}`, `{"abs": 0.1}`,
			"total is 1, want 90"},
		// An argument that no adapter reads.
		{"double", `{"x": 3, "dtype": "bf16"}`, `{"y": 6}`, `{}`, "no adapter reads dtype"},
		{"nested", `{"updates": [{"config": {"lr": 1}}, {"config": {"lr": 2, "decay": 0.1}}]}`, `{"total": 3}`, `{}`,
			"no adapter reads updates[1].config.decay"},
		{"nested", `{"updates": [{"config": {"lr": 1, "decay": null}}]}`, `{"total": 1}`, `{}`, ""},
		{"nested", `{"updates": [{"config": {"lr": 1}}, 5]}`, `{"total": 3}`, `{}`, `input "updates" is not a list of objects`},
	} {
		text := fmt.Sprintf(`{"name": "c", "op": %q, "in": %s, "out": %s, "tol": %s}`, row.op, row.in, row.out, row.tol)
		r := runFamily(t, text)
		what := strings.Join(r.Errors, "; ")
		for _, f := range r.Failures {
			what += f.What
		}
		if r.Passed == 1 != (row.says == "") || !strings.Contains(what, row.says) || r.Cases != 1 {
			t.Errorf("%s: passed %d of %d, %q, want %q", text, r.Passed, r.Cases, what, row.says)
		}
	}
}

// TestMalformed: each is an error that names file and case, and the case after
// it still runs.
func TestMalformed(t *testing.T) {
	const good = `{"name": "good", "op": "count", "in": {"x": []}, "out": {"n": 0}}`
	for text, says := range map[string]string{
		`5`:               `case 0: is not an object`,
		`{"op": "count"}`: `case 0: needs "name" and "op"`,
		`{"name": "c", "op": "count", "in": {"x": {"shape": [2], "data": [1]}}, "out": {"n": 1}}`:                        `case "c": in: x: an array of shape [2] has 1 elements`,
		`{"name": "c", "op": "count", "in": {"x": {"shape": [4294967296, 4294967296], "data": []}}, "out": {"n": 1}}`:    `has 0 elements`,
		`{"name": "c", "op": "count", "in": {"x": {"shape": [-1, -1], "data": [1]}}, "out": {"n": 1}}`:                   `shape holds -1`,
		`{"name": "c", "op": "count", "in": {"x": {"shape": [1], "data": ["a"]}}, "out": {"n": 1}}`:                      `element 0 of an array is not a number`,
		`{"name": "c", "op": "count", "in": {"x": []}, "out": {}}`:                                                       `records no output`,
		`{"name": "c", "op": "count", "in": {"x": []}, "out": ["n"]}`:                                                    `output "n" is not recorded`,
		`{"name": "c", "op": "count", "in": {"x": []}, "out": {"n": 0}, "tol": {"abs": -1}}`:                             `case "c": tol: a tolerance is`,
		`{"name": "c", "op": "count", "in": {"x": []}, "out": {"n": 0}, "tols": {"n": "small"}}`:                         `case "c": tols.n: a tolerance is`,
		`{"name": "c", "op": "count", "in": ` + strings.Repeat("[", 9990) + strings.Repeat("]", 9990) + `, "out": [[]]}`: `case "c": "out" holds what is not a name`,
	} {
		r := runFamily(t, text+","+good)
		if len(r.Errors) != 1 || !strings.Contains(r.Errors[0], says) || !strings.Contains(r.Errors[0], "toys.json: ") || r.Passed != 1 {
			t.Errorf("%.80s: passed %d, errors %q, want %q", text, r.Passed, r.Errors, says)
		}
	}
	if r := runFamily(t, `{"name":`); len(r.Errors) != 1 || !strings.Contains(r.Errors[0], "toys.json") {
		t.Errorf("torn file: %q", r.Errors)
	}
}

func TestSkippedAndUnknown(t *testing.T) {
	r := runFamily(t, `{"name": "a", "op": "engine", "out": {"y": 1}}, {"name": "b", "op": "nosuch", "out": {"y": 1}}`)
	if r.Cases != 1 || r.Unsupported != 1 || r.Skipped != 1 || len(r.Skips) != 1 || r.Skips[0].What != "no engine here" {
		t.Errorf("%+v", r)
	}
}

// TestWorst: the fraction is of the tolerance, and JSON can hold it.
func TestWorst(t *testing.T) {
	r := runFamily(t, `{"name": "a", "op": "double", "in": {"x": [1, 2]}, "out": {"y": [2.25, 4]}, "tol": {"abs": 1}},
		{"name": "b", "op": "first", "in": {"x": ["a"]}, "out": {"y": 1}}`)
	if w := r.Ops[0].Worst; w != 0.25 {
		t.Errorf("worst %v, want 0.25", w)
	}
	if w := r.Ops[1].Worst; !math.IsInf(float64(w), 1) {
		t.Errorf("worst %v, want +Inf", w)
	}
	if text, err := json.Marshal(r); err != nil || !strings.Contains(string(text), `"worst":null`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestFolders: a folder case beside a family beside JSON of other kinds.
func TestFolders(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("family.json", `{"cases": [{"name": "f", "op": "count", "in": {"x": []}, "out": {"n": 0}}]}`)
	write("list.json", `[1, 2]`)
	write("vocab.json", `{"cases": 17}`)
	write("notes.txt", `{"cases": [1]}`)
	write("deep/case/case.json", `{"name": "t", "op": "double", "args": {"unused": null}, "in": ["x"], "out": ["y"], "tols": {"y": {"abs": 1e-6}}}`)
	write("deep/case/cases.json", `{"cases": [5]}`) // belongs to the case
	write("deep/table/case.json", `{"name": "w", "op": "echo", "in": ["x"], "out": ["y"], "table": [{"x": "a", "y": "a"}, {"x": "b", "y": "b"}]}`)
	x := safetensors.Tensor{Name: "x", DType: safetensors.I64, Shape: []int{1}, Data: []byte{3, 0, 0, 0, 0, 0, 0, 0}}
	y := safetensors.Tensor{Name: "y", DType: safetensors.F32, Shape: []int{1}, Data: []byte{0, 0, 0xc0, 0x40}} // 6
	if err := safetensors.Write(filepath.Join(root, "deep/case/tensors.safetensors"), []safetensors.Tensor{x, y}, nil); err != nil {
		t.Fatal(err)
	}
	pack := func(text string) string {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		w.Write([]byte(text))
		w.Close()
		return packed.String()
	}
	family := pack(`{"cases": [{"name": "g", "op": "count", "in": {"x": [1]}, "out": {"n": 1}}]}`)
	stored, err := os.ReadFile(filepath.Join(root, "deep/case/tensors.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	write("family.json.gz", family)
	write("small/case.json", `{"name": "p", "op": "double", "in": ["x"], "out": ["y"], "tols": {"y": {"abs": 1e-6}}}`)
	write("small/tensors.safetensors.gz", pack(string(stored)))
	files := filepath.Join(root, "files.zip")
	err = golden.Pack(fstest.MapFS{
		"case.json":       {Data: []byte(`{"name": "r", "op": "reads", "in": {"name": "inner/words.txt"}, "out": {"text": "a b"}}`)},
		"inner/words.txt": {Data: []byte("a b")},
	}, files)
	if err != nil {
		t.Fatal(err)
	}
	r, err := run(context.Background(), []string{root}, Options{}, toys)
	if err != nil || r.Passed != 6 || r.Cases != 6 || len(r.Errors) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := os.Truncate(files, 100); err != nil {
		t.Fatal(err)
	}
	write("family.json.gz", family[:40])
	write("small/tensors.safetensors.gz", pack(string(stored))[:40])
	r, err = run(context.Background(), []string{root}, Options{}, toys)
	if err != nil || r.Passed != 3 || len(r.Errors) != 3 || !strings.Contains(r.Errors[0], "family.json.gz") || !strings.Contains(r.Errors[1], "files.zip: unpacking") ||
		!strings.Contains(r.Errors[2], "tensors.safetensors.gz") {
		t.Errorf("torn files: %+v, %v", r, err)
	}
	r, err = run(context.Background(), []string{filepath.Join(root, "deep/case/case.json")}, Options{Op: "dou*"}, toys)
	if err != nil || r.Passed != 1 {
		t.Errorf("one case: %+v, %v", r, err)
	}
}

// FuzzCases: no file makes the frame panic.
func FuzzCases(f *testing.F) {
	f.Add(`{"cases": [{"name": "a", "op": "nested", "in": {"updates": [{"config": {"lr": 1}}]}, "out": {"total": {"shape": [], "data": [1]}}, "tol": {"abs": 0}}]}`)
	f.Add(`{"cases": [{"name": "a", "op": "echo", "in": {"x": [[1], [true]]}, "out": {"y": [[null], []]}, "tols": {"y": 1}}]}`)
	f.Add(`{"cases": [{"name": "a", "op": "double", "in": {"x": {"shape": [0, 3], "data": []}}, "out": {"y": [[1]]}}]}`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(dir, "f.json")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := run(context.Background(), []string{file}, Options{}, toys); err != nil {
			t.Fatal(err)
		}
	})
}
