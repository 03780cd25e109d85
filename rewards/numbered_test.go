package rewards

import (
	"strings"
	"testing"
)

// TestExecSurplus: a program that writes a line too many gives no sample the score of another: what it
// says is right or missing, and the reason names the line.
func TestExecSurplus(t *testing.T) {
	for mode, said := range map[string]string{
		"twice": "nobody asked for", "talks first": "no JSON of the protocol", "numbered twice": "prints what else it has to say",
	} {
		e := testProgram(t, mode, patient())
		seen := ""
		for i := range 8 {
			item := threeItems[i%2]
			want, missing := brightness.Score(t.Context(), item)
			got, err := e.Score(t.Context(), item)
			switch {
			case err != nil:
				seen += err.Error()
			case missing != nil || got.Value != want.Value:
				t.Errorf("%s: item %d has the score %v, not %v", mode, i, got.Value, want.Value)
			}
		}
		if !strings.Contains(seen, said) {
			t.Errorf("%s: the surplus was not told: %s", mode, seen)
		}
	}
	e := testProgram(t, `{"n": 7, "scores": [1]}`, patient())
	if s, err := e.Score(t.Context(), threeItems[0]); err == nil || !strings.Contains(err.Error(), "carries n = 7") {
		t.Error(s, err)
	}
}

// TestExecEnvironment: a program is not shown secrets, but what it needs and what is named.
func TestExecEnvironment(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "hush")
	t.Setenv("NAMED", "given")
	e := testProgram(t, "environment", patient())
	if err := e.Pass("NO_SUCH_VARIABLE"); err == nil {
		t.Error("a variable that is not set is passed on")
	}
	if err := e.Pass("NAMED"); err != nil {
		t.Fatal(err)
	}
	_, err := e.Score(t.Context(), threeItems[0])
	if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "|given|/") {
		t.Error(err)
	}
}
