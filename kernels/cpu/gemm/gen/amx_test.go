package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEncodings lets GNU's assembler read the comments beside the bytes of tile
// instructions: it must write the same bytes, and objdump must read every one of them.
func TestEncodings(t *testing.T) {
	for _, tool := range []string{"as", "objdump"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("encodings are compared with GNU binutils: %v", err)
		}
	}
	f := newFile()
	f.WriteString(amxFile().String())
	// Addresses that the kernels do not use yet.
	for _, base := range []int{regAX, regDI, regR9, regR15} {
		for _, stride := range []int{regSI, regR8, regR15} {
			for i, disp := range []int{0, 64, 128, -128, 4096} {
				f.tileLoad(i, disp, base, stride, i%2 == 0)
				f.tileStore(7-i, disp, base, stride)
			}
		}
	}
	line := regexp.MustCompile(`(?m)^\t(BYTE .*) // ((?:TILE|LDTILE|TDP)\S*)(.*)$`)
	byBytes, byText := "", ""
	count := 0
	for _, m := range line.FindAllStringSubmatch(f.String(), -1) {
		byBytes += strings.ReplaceAll(strings.ReplaceAll(m[1], "BYTE $", ".byte "), "; ", "\n") + "\n"
		byText += strings.ToLower(m[2]) + " " + gnu(m[3]) + "\n"
		count++
	}
	if count == 0 {
		t.Fatal("no tile instructions")
	}
	got, want := assemble(t, byBytes), assemble(t, byText)
	if got != want {
		g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
		for i := range g {
			if i >= len(w) || g[i] != w[i] {
				t.Fatalf("line %d: bytes are %q, the text is %q", i, g[i], append(w, "")[min(i, len(w))])
			}
		}
	}
	if strings.Contains(got, "(bad)") {
		t.Error("objdump does not know some of the bytes")
	}
	t.Logf("%d tile instructions", count)
}

var (
	tileName = regexp.MustCompile(`\bT(\d)`)
	operand  = regexp.MustCompile(`\((\w+)\)(?:\((\w+)\*1\))?`)
	wide     = strings.NewReplacer("AX", "rax", "BX", "rbx", "SI", "rsi", "DI", "rdi", "R8", "r8", "R9", "r9", "R10", "r10", "R15", "r15")
)

// gnu writes operands as GNU's assembler wants them.
func gnu(operands string) string {
	s := operand.ReplaceAllStringFunc(operands, func(o string) string {
		m := operand.FindStringSubmatch(o)
		if m[2] == "" {
			return "(%" + wide.Replace(m[1]) + ")"
		}
		return "(%" + wide.Replace(m[1]) + ",%" + wide.Replace(m[2]) + ",1)"
	})
	return tileName.ReplaceAllString(s, "%tmm$1")
}

// assemble returns a disassembly of as's output for text.
func assemble(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	source, object := filepath.Join(dir, "x.s"), filepath.Join(dir, "x.o")
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("as", "--64", "-o", object, source).CombinedOutput(); err != nil {
		if strings.Contains(string(out), "no such instruction") {
			t.Skipf("GNU as is too old for tile instructions: %v", err)
		}
		t.Fatalf("as: %v\n%s", err, out)
	}
	out, err := exec.Command("objdump", "-dw", object).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(out), "<.text>:\n")
	return code
}
