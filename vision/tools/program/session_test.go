package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// session is one of the test's interpreter, about one picture.
func session(t *testing.T, o *Options) *Session {
	t.Helper()
	s := Begin(t.Context(), o, Episode{Pictures: []*vision.Image{vision.New(4, 3)}})
	t.Cleanup(s.Close)
	return s
}

func ran(t *testing.T, s *Session, code string) tools.Execution {
	t.Helper()
	e, err := s.Run(code)
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	return e
}

// TestBlocks: the result of each kind of block, and the session goes on after it.
func TestBlocks(t *testing.T) {
	o := options("says")
	o.Output, o.Pictures = 9, 2
	s := session(t, o)
	for _, c := range []struct {
		code    string
		seconds float64
		want    string
		drawn   int
	}{
		{code: "print 42", want: "42"},
		{code: "many 4", want: "éééé"},
		{code: "many 5", want: "éééé\n[cut: 9 bytes is the limit]"},
		{code: "raise x", want: "failed: x"},
		{code: "raise 0123456789", want: "failed: 012345678\n[cut: 9 bytes is the limit]"},
		{code: "show 1 2 2", want: "; 2 figures", drawn: 1},
		{code: "show 3 2 2", want: "\n[1 more pictures are not shown: 2 is the limit]; 5 figures", drawn: 2},
		{code: "spoil", want: "spoiled: it is no \n[cut: 9 bytes is the limit]"},
		{code: "spoil GIF89a", want: "spoiled: it is no \n[cut: 9 bytes is the limit]"},
		{code: "leave", want: "failed: the interpreter ended (exit status 3); variables are lost"},
		{code: "show 1 2 2", want: "; 6 figures", drawn: 1}, // counted on over the new one, which counts from 1
		{code: "hang", seconds: 0.2, want: "failed: Execution timeout: more than 0.2 seconds; variables are lost"},
		{code: "garbage", want: `failed: the interpreter was stopped: it wrote what is no reply: "Segmentation fault"; variables are lost`},
		{code: "forge", want: "forged"},
		{code: "print 1", want: "failed: the interpreter was stopped: it answered request 3 with a reply to 2; variables are lost"},
		{code: "print 2", want: "2"},
	} {
		o.Timeout = 60
		if c.seconds > 0 {
			o.Timeout = c.seconds
		}
		e := ran(t, s, c.code)
		got := e.Text
		switch {
		case e.Failed:
			got = "failed: " + e.Error
		case e.Spoiled:
			got = "spoiled: " + e.Error
		case strings.HasPrefix(c.code, "show"):
			got += fmt.Sprintf("; %d figures", e.Figures)
		}
		if got != c.want || len(e.Drawn) != c.drawn || e.NoOutput {
			t.Errorf("%s: %q with %d pictures, want %q with %d", c.code, got, len(e.Drawn), c.want, c.drawn)
		}
	}
	if s.Err() != nil {
		t.Errorf("blame: %v", s.Err())
	}
	o = options("says")
	o.Pictures = 0 // so that a reply is soon too long
	if e := ran(t, session(t, o), "flood"); e.Error != "the interpreter was stopped: its reply is too long; variables are lost" {
		t.Errorf("%+v", e)
	}
}

// TestPictureSizes: a picture that cannot be shown is reported, not made.
func TestPictureSizes(t *testing.T) {
	o := options("says")
	s := Begin(t.Context(), o, Episode{Fits: func(w, h int) error {
		if w > 200*h {
			return errors.New("too flat")
		}
		return nil
	}})
	defer s.Close()
	for code, want := range map[string]string{"show 1 1000000 1": "too flat", "huge 5000": "more than the 16777216 that are allowed", "show 1 1000 1000": ""} {
		e := ran(t, s, code)
		if e.Spoiled != (want != "") || !strings.Contains(e.Error, want) || e.Spoiled == (len(e.Drawn) == 1) {
			t.Errorf("%s: %v, %q, %d pictures", code, e.Spoiled, e.Error, len(e.Drawn))
		}
	}
}

// TestEnvironment: code gets the documented environment, and works in its folder.
func TestEnvironment(t *testing.T) {
	t.Setenv("DARKROOM_SECRET", "a key")
	o := options("says")
	o.Command = append(o.Command, "{folder}")
	a, b := session(t, o), session(t, o)
	text := ran(t, a, "environment").Text
	work := filepath.Join(a.home, "work")
	if got, _, _ := strings.Cut(text, "\n"); !same(got, work) {
		t.Errorf("it works in %s, not in %s", got, work)
	}
	for _, want := range []string{"HOME=" + work, "TMPDIR=" + work, "PYTHONHASHSEED=0", "PATH=" + os.Getenv("PATH")} {
		if !strings.Contains(text, "\n"+want+"\n") && !strings.HasSuffix(text, "\n"+want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "SECRET") {
		t.Errorf("it hears of the environment:\n%s", text)
	}
	if c := o.command("/x"); c.Args[len(c.Args)-1] != "/x" {
		t.Errorf("arguments %q", c.Args)
	}
	if ran(t, b, "environment").Text == text {
		t.Error("two episodes have one folder")
	}
	if err := os.Mkdir(filepath.Join(work, "shut"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(work, "shut", "x"), nil, 0o600), os.Chmod(filepath.Join(work, "shut"), 0)); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if _, err := os.Stat(filepath.Dir(work)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was left behind: %v", err)
	}
}

func same(a, b string) bool { // folders, one of them by a link
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// TestStart: a command that does not start is an error of the run that names the remedy, with the command's output.
func TestStart(t *testing.T) {
	missing := options("")
	missing.Command = []string{"no-such-sandbox"}
	for want, o := range map[string]*Options{
		`"no-such-sandbox" runs no code here`: missing,
		"exit status 7":                       options("dies"),
		"it wrote: no such sandbox":           options("dies"),
		"it does not say that it is ready":    options("silent"),
		"cannot import PIL, numpy":            options("lacks"),
		"its time is up":                      options("mute"),
	} {
		s := session(t, o)
		s.patience = 5 * time.Second
		if o.Command[len(o.Command)-1] == "mute" {
			s.patience = 50 * time.Millisecond
		}
		_, err := s.Run("print 1")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "bwrap") || !errors.Is(s.Err(), err) {
			t.Errorf("%v: %v, and %v; want %q", o.Command, err, s.Err(), want)
		}
		if _, err := s.Run("print 1"); err == nil {
			t.Error("it runs code all the same")
		}
	}
	if ready, err := Probe(t.Context(), options("says")); ready != "test" || err != nil {
		t.Errorf("%q, %v", ready, err)
	}
}

// TestCancelled: an interrupted run does not wait, and blames nobody.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := Begin(ctx, options("says"), Episode{})
	defer s.Close()
	ran(t, s, "print 1")
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := s.Run("hang"); !errors.Is(err, context.Canceled) || !errors.Is(s.Err(), context.Canceled) {
		t.Errorf("%v, %v", err, s.Err())
	}
	unbegun := Begin(ctx, options("says"), Episode{})
	if _, err := unbegun.Run("print 1"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	unbegun.Close()
}

// TestCheck: a command has to be there.
func TestCheck(t *testing.T) {
	for _, o := range []Options{{}, {Command: []string{""}}} {
		said := ""
		o.Check(func(key, _, hint string) { said = key + hint })
		if !strings.Contains(said, "command") || !strings.Contains(said, "bwrap") {
			t.Errorf("%q: %q", o.Command, said)
		}
	}
	if o := options("says"); o.Bare() || !(&Options{Command: []string{"/usr/bin/python3.12"}}).Bare() {
		t.Error("which command is bare")
	}
}

// TestPNGAlone: code that shows a picture of another form than the protocol's reads so, however much work the form
// could make.
func TestPNGAlone(t *testing.T) {
	s := session(t, options("says"))
	for _, head := range []string{"\xff\xd8\xff\xe0", "GIF89a", "RIFF....WEBP"} {
		if _, err := s.picture([]byte(head)); err == nil || !strings.Contains(err.Error(), "no PNG") {
			t.Errorf("%q: %v", head, err)
		}
	}
}
