package darkroom_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

// Math's elementary functions have other bits on other machines: Exp on x86-64 with and without fused multiply-adds,
// all of them on arm64 and in builds with GOAMD64=v3. Package portable has the same bits everywhere.

// exact are the functions of package math that IEEE 754 defines to the last bit, or that only look at bits.
var exact = map[string]bool{
	"Abs": true, "Ceil": true, "Copysign": true, "FMA": true, "Float32bits": true, "Float32frombits": true, "Float64bits": true,
	"Float64frombits": true, "Floor": true, "Frexp": true, "Inf": true, "IsInf": true, "IsNaN": true, "Ldexp": true, "Max": true,
	"Min": true, "Mod": true, "Modf": true, "NaN": true, "Nextafter": true, "Nextafter32": true, "Remainder": true, "Round": true,
	"RoundToEven": true, "Signbit": true, "Sqrt": true, "Trunc": true,
}

// inexact says where other functions of package math may be used, and why no result depends on their last bits.
var inexact = map[string]string{
	"portable":           "hands constants and special values through; its own arithmetic is tested",
	"kernels/kerneltest": "formulas that kernels are compared with by a tolerance",
	"sde/sdetest":        "problems whose solutions tests compare by a tolerance",
	"view/report":        "axes and shades of a page",
	"cmd":                "means of timings, pictures that flow is timed on",
	"internal":           "tools for measurements",
}

func TestArithmetic(t *testing.T) {
	wrong, files := inexactCalls(os.DirFS("."))
	for _, w := range wrong {
		t.Error(w)
	}
	if files < 400 {
		t.Errorf("only %d files were read: the walk is broken", files)
	}
}

// inexactCalls reads every .go file that becomes part of the program, whatever its build tags.
func inexactCalls(root fs.FS) (wrong []string, files int) {
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (name == "testdata" || name == "gen" || strings.ContainsAny(name[:1], "._")):
			return fs.SkipDir
		case d.IsDir() || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		files++
		for folder := range inexact {
			if within(path.Dir(file), []string{folder}) {
				return nil
			}
		}
		src, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		found, err := inexactIn(file, src)
		wrong = append(wrong, found...)
		return err
	})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	return wrong, files
}

func inexactIn(file string, src []byte) (wrong []string, err error) {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := s.X.(*ast.Ident)
		if !ok || x.Name != "math" || exact[s.Sel.Name] || constant(s.Sel.Name) {
			return true
		}
		wrong = append(wrong, fmt.Sprintf("%s: math.%s differs from machine to machine; portable.%[2]s does not "+
			"(or say in arithmetic_test.go why this place may)", set.Position(s.Pos()), s.Sel.Name))
		return true
	})
	return wrong, nil
}

// constant reports whether a name of package math is one of its constants.
func constant(name string) bool {
	for _, start := range []string{"Max", "Min", "Smallest", "Sqrt", "Ln"} {
		if strings.HasPrefix(name, start) {
			return true
		}
	}
	return name == "E" || name == "Pi" || name == "Phi" || name == "Log2E" || name == "Log10E"
}

func TestArithmeticFails(t *testing.T) {
	for name, c := range map[string]struct {
		file, code string
		wrong      int
	}{
		"a call":      {"trainer/loss/a.go", "math.Exp(1)", 1},
		"a value":     {"sde/a.go", "math.Log1p", 1},
		"both":        {"kernels/cpu/a.go", "math.Tanh(math.Pow(2, 3))", 2},
		"exact":       {"sde/a.go", "math.Sqrt(math.Pi * math.Ln2 * math.MaxFloat64)", 0},
		"of the list": {"view/report/a.go", "math.Exp(1)", 0},
		"a test":      {"sde/a_test.go", "math.Exp(1)", 0},
		"ours":        {"sde/a.go", "portable.Exp(1)", 0},
	} {
		wrong, _ := inexactCalls(fstest.MapFS{c.file: {Data: []byte("package p\n\nvar x = " + c.code + "\n")}})
		if len(wrong) != c.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}
