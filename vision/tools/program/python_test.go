package program

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/vision"
)

var pythonName = flag.String("python", "", "a Python; none: /usr/bin/python3, or the first one on PATH")

// python is the real thing, alone (-S: it starts without other installed modules); the test is skipped without one.
func python(t *testing.T) *Options {
	t.Helper()
	path := *pythonName
	if path == "" {
		path = "/usr/bin/python3" // an earlier python3 on PATH may be a slow script
		if _, err := os.Stat(path); err != nil {
			path = "python3"
		}
	}
	path, err := exec.LookPath(path)
	if err != nil {
		t.Skipf("there is no Python: %v (-python names one)", err)
	}
	t.Parallel()
	o := options("")
	o.Command = []string{path, "-S", "-"}
	return o
}

// TestPython: the blocks that PyVision-RL's interpreter is asked for, in Python.
func TestPython(t *testing.T) {
	o := python(t)
	o.Output = 100
	s := session(t, o)
	for _, c := range []struct{ code, text, failed string }{
		{code: "x = 6\nprint(x*7)", text: "42"},
		{code: "print(x)", text: "6"},
		{code: "def f(n):\n    return n + x\nprint([f(i) for i in range(3)])", text: "[6, 7, 8]"},
		{code: "print('  a\\n\\n')", text: "a"},
		{code: "x = 1", text: ""},
		{code: "1/0", failed: "division by zero"},
		{code: "print('lost'); {}['k']", failed: "'k'"},
		{code: "if", failed: "invalid syntax (<string>, line 1)"},
		{code: "assert False", failed: ""},
		{code: "import sys; sys.stdin.close(); sys.exit(3)", failed: "SystemExit: 3"}, // as exit() does, which has to be installed
		{code: "import os; os.system('ls')", failed: "Forbidden function calls detected"},
		{code: "print(input('? '))", failed: "Forbidden function calls detected"},
		{code: "import sys; print(repr(sys.stdin.read()))", text: "''"},
		{code: "import os; n = os.write(1, b'{\"n\": 1}\\n'); print(x)", text: "1"},
		{code: "print('x'*1000)", text: strings.Repeat("x", 100) + "\n[cut: 100 bytes is the limit]"},
		{code: "raise ValueError('y'*1000)", failed: strings.Repeat("y", 100)},
		{code: "print('\\ud800')", text: "\ufffd"},
		{code: "_captured_figures.append('no picture')\nprint(1)", text: "spoiled"},
		{code: "import os; os._exit(4)", failed: "the interpreter ended (exit status 4); variables are lost"},
		{code: "print(x)", failed: "name 'x' is not defined"},
		{code: "import json; json.dumps = json.loads = None; print(1)", text: "1"},
		{code: "print(2)", text: "2"},
		{code: "_captured_figures = None", failed: "object of type 'NoneType' has no len()"}, // and so on to the end, as upstream
		{code: "_captured_figures = []", failed: "object of type 'NoneType' has no len()"},
	} {
		e := ran(t, s, c.code)
		if e.Spoiled {
			e.Text = "spoiled"
		}
		if failed := e.Failed; failed && e.Error != c.failed || !failed && (e.Text != c.text || c.failed != "") {
			t.Errorf("%s:\n%+v", c.code, e)
		}
	}
}

// TestSameAgain: random numbers and orders of sets are the episode's.
func TestSameAgain(t *testing.T) {
	o := python(t)
	said := map[uint32][]string{}
	for _, seed := range []uint32{1, 1, 2} {
		s := Begin(t.Context(), o, Episode{Seed: seed})
		said[seed] = append(said[seed], ran(t, s, "import random; print(random.random(), {'a', 'b', 'c', 'd'})").Text)
		s.Close()
	}
	if said[1][0] != said[1][1] || said[1][0] == said[2][0] {
		t.Errorf("%v", said)
	}
}

// TestFigures: the prompt's picture is there, and pictures of plt.show come back.
func TestFigures(t *testing.T) {
	o := python(t)
	command := []string{o.Command[0], "-"}
	o.SetDefaults()
	o.Command = command
	m := vision.New(40, 30)
	m.Pix[0] = 200
	s := Begin(t.Context(), o, Episode{Pictures: []*vision.Image{m, vision.New(7, 5)}})
	defer s.Close()
	if _, err := s.start(); err != nil && strings.Contains(err.Error(), "cannot import") {
		t.Skipf("this Python has not the modules (-python names one that has): %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	e := ran(t, s, "print(image_clue_0.size, image_clue_0.getpixel((0, 0)), image_clue_1.size)\nplt.figure(figsize=(2, 1), dpi=50)\nplt.imshow(image_clue_0)\nplt.show()\nplt.figure(figsize=(1, 1), dpi=30)\nplt.show()")
	if e.Text != "(40, 30) (200, 0, 0) (7, 5)" || len(e.Drawn) != 2 || e.Figures != 4 {
		t.Fatalf("%+v", e)
	}
	if a, b := e.Drawn[0], e.Drawn[1]; a.Width != 100 || a.Height != 50 || b.Width != 30 || b.Height != 30 {
		t.Errorf("%d x %d, %d x %d", a.Width, a.Height, b.Width, b.Height)
	}
	if e := ran(t, s, "plt.figure(figsize=(100, 0.1)); plt.show()"); e.Error != "Image aspect ratio too extreme: 1000.00 (must be < 200)" {
		t.Errorf("%+v", e)
	}
	if e := ran(t, s, "print(np.random.rand() == np.random.RandomState(0).rand())"); e.Text != "True" {
		t.Errorf("%+v", e)
	}
}

// TestExample: the command that hints show works, and holds: no network, no files of others.
func TestExample(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("there is no bwrap on PATH (Debian: bubblewrap)")
	}
	if out, err := exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "/usr/bin/python3", "-c", "").CombinedOutput(); err != nil {
		t.Skipf("bwrap cannot make a sandbox with Python here: %v, %s", err, out)
	}
	t.Parallel()
	o := options("")
	text := strings.TrimPrefix(Example[:strings.LastIndex(Example, " (")], "write ")
	doc := config.Parse("example.toml", []byte(text))
	doc.Decode("", o)
	if err := doc.Err(); err != nil {
		t.Fatal(err)
	}
	if o.Command[0] != "bwrap" {
		t.Fatalf("%q", o.Command)
	}
	secret := t.TempDir() + "/secret"
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := session(t, o)
	for code, want := range map[string]string{
		"open('kept', 'w').write('ours'); print(open('kept').read())":                "ours",
		"print(open('" + secret + "').read())":                                       "No such file",
		"open('/usr/x', 'w')":                                                        "Read-only",
		"import socket; socket.create_connection(('127.0.0.1', 22), 1)":              "",
		"import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]) < 5)": "True",
	} {
		e := ran(t, s, code)
		if !strings.Contains(e.Text+e.Error, want) || want == "" && !e.Failed {
			t.Errorf("%s: %+v", code, e)
		}
	}
	if err := exec.Command("/usr/bin/python3", "-c", "import PIL, numpy, matplotlib").Run(); err == nil {
		whole := &Options{}
		whole.SetDefaults()
		whole.Command = o.Command
		shows := session(t, whole)
		if e := ran(t, shows, "plt.imshow(image_clue_0); plt.show()"); len(e.Drawn) != 1 {
			t.Errorf("with its modules: %+v", e)
		}
	} else {
		t.Logf("left out: modules in the sandbox; /usr/bin/python3 has not PIL, numpy and matplotlib: %v", err)
	}
	if kept, err := os.ReadFile(filepath.Join(s.home, "work", "kept")); string(kept) != "ours" || err != nil {
		t.Errorf("%q, %v", kept, err)
	}
	o.Timeout = 0.2
	if e := ran(t, s, "while True: pass"); !e.Failed {
		t.Errorf("%+v", e)
	}
	s.Close()
	if _, err := os.Stat(s.home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was left behind: %v", err)
	}
}
