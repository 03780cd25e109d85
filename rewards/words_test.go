package rewards

import (
	"slices"
	"testing"
)

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"python3 reward.py --fast":        {"python3", "reward.py", "--fast"},
		"  a\t b\n":                       {"a", "b"},
		`'my program' "x y" z\ w`:         {"my program", "x y", "z w"},
		`a"b c"'d e'f`:                    {"ab cd ef"},
		`"say \"hi\" \n" '\n' "" ''`:      {`say "hi" \n`, `\n`, "", ""},
		`$HOME *.py ~ $(id) ; | > # "$X"`: {"$HOME", "*.py", "~", "$(id)", ";", "|", ">", "#", "$X"},
		"":                                nil,
		`C:\\rewards\\score.exe`:          {`C:\rewards\score.exe`},
	} {
		if got, err := Words(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`a "b`, `a 'b`, `a \`} {
		if got, err := Words(text); err == nil {
			t.Errorf("%s: %q", text, got)
		}
	}
}
