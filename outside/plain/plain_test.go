package plain

import (
	"bytes"
	"encoding/json"
	"testing"
)

// TestText: sequences that a terminal would obey are shown; other text is unchanged.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünï\tcödé 漢字 🙂\n":   "plain, ünï\tcödé 漢字 🙂\n",
		"a\x1b]0;pwn\x07b":          `a\u001b]0;pwn\u0007b`,
		"\r\x7f\u009b31m":           `\u000d\u007f\u009b31m`,
		"abc\u202edcba\u2066\u200f": `abc\u202edcba\u2066\u200f`,
		"\u2028\ufeff":              `\u2028\ufeff`,
		"\x9b31m \xff":              `\x9b31m \xff`,
		"\ufffd":                    "\ufffd",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %q, not %q", in, got, want)
		}
	}
}

// TestWriter: bold type passes, other sequences do not; JSON has the same content afterwards.
func TestWriter(t *testing.T) {
	var b bytes.Buffer
	if n, err := (Writer{&b}).Write([]byte(Bold + "FILE\x1b[2J" + Normal + "\x1b")); n != 17 || err != nil {
		t.Error(n, err)
	}
	if want := Bold + `FILE\u001b[2J` + Normal + `\u001b`; b.String() != want {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	const said = "\x1b\u009b\u202ex"
	if err := json.NewEncoder(Writer{&b}).Encode(said); err != nil {
		t.Fatal(err)
	}
	got := ""
	if err := json.Unmarshal(b.Bytes(), &got); got != said || err != nil || bytes.ContainsAny(b.Bytes(), said[:len(said)-1]) {
		t.Errorf("%q, %v of %q", got, err, b.String())
	}
}
