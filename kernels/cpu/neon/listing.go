package neon

import (
	"fmt"
	"strings"
)

// Loop returns the instructions of a kernel's loop, from the label until the branch back to it. Tests count them.
func Loop(text, kernel, label string) ([]string, error) {
	_, text, found := strings.Cut(text, "TEXT ·"+kernel+"(SB)")
	if !found {
		return nil, fmt.Errorf("no kernel %s", kernel)
	}
	text, _, _ = strings.Cut(text, "\nTEXT ")
	_, text, _ = strings.Cut(text, "\n"+label+":\n") // nothing, where there is no such label
	var loop []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasSuffix(line, ":") {
			continue
		}
		loop = append(loop, line)
		if branch, to, _ := strings.Cut(line, " "); to == label && branch[0] == 'B' {
			return loop, nil
		}
	}
	return nil, fmt.Errorf("%s has no loop %s", kernel, label)
}

// Multiplies says whether an instruction multiplies floating-point vectors: FMLA, FMLS or FMUL.
func Multiplies(line string) bool {
	return strings.Contains(line, "// FMLA") || strings.Contains(line, "// FMLS") || strings.Contains(line, "// FMUL")
}
