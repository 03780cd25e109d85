package onnx_test

import (
	"archive/zip"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/vision/onnx"
	"github.com/darkroom-rl/darkroom/vision/onnx/nodetest"
)

var nodes = flag.String("nodes", "", "folder or zip of ONNX's official node tests")

// unsupported are the reasons why an official case is not one of the runner's. Others are failures.
var unsupported = []string{
	"the runner has no operator", "the runner has float, uint8", "is not supported", "are not supported", "inference alone", "not a tensor", "opset 8 has no Scan",
}

// TestNodes runs the official tests of operators: make nodes writes them from the installed package onnx.
func TestNodes(t *testing.T) {
	where := *nodes
	if where == "" {
		t.Skip("-nodes names no folder or zip of official node tests: make nodes")
	}
	root := os.DirFS(where)
	if strings.HasSuffix(where, ".zip") {
		z, err := zip.OpenReader(where)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = z.Close() }()
		root = z
	}
	cases, err := fs.Glob(root, "*/model.onnx")
	if err != nil || len(cases) == 0 {
		t.Fatalf("%s: %d cases, %v", where, len(cases), err)
	}
	b, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	passed, refused, ops := map[string]int{}, map[string]int{}, map[string]bool{}
	total, failed := 0, 0
	for _, name := range cases {
		dir := path.Dir(name)
		op, err := nodeCase(root, dir, b)
		if strings.HasSuffix(dir, "_expanded") || strings.Contains(dir, "_expanded_ver") {
			op += ", expanded"
		}
		total++
		switch {
		case err == nil:
			passed[op]++
			ops[op] = true
		case slices.ContainsFunc(unsupported, func(why string) bool { return strings.Contains(err.Error(), why) }):
			refused[op]++
		default:
			failed++
			t.Errorf("%s (%s): %v", dir, op, err)
		}
	}
	count, names := 0, 0
	for op, n := range passed {
		if count += n; !strings.Contains(op, ",") {
			names++
		}
	}
	t.Logf("%d of %d cases pass, of %d operators; %d fail; refused: %v", count, total, names, failed, refused)
	var not []string
	for op := range refused {
		if passed[op] == 0 {
			not = append(not, op)
		}
	}
	slices.Sort(not)
	t.Logf("operators without a case that passes: %v", not)
}

// nodeCase runs one case and compares its outputs.
func nodeCase(root fs.FS, dir string, b onnx.Backend) (op string, err error) {
	c, err := nodetest.Open(root, dir, b)
	if err != nil {
		return c.Op, err
	}
	allowed := nodetest.Usual
	if text, err := fs.ReadFile(root, dir+"/tolerance"); err == nil {
		if _, err := fmt.Sscan(string(text), &allowed.Rel, &allowed.Abs); err != nil {
			return c.Op, err
		}
	}
	_, err = c.Run(context.Background(), allowed)
	return c.Op, err
}
