package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
)

// TestHero: prompts stand in their order with the pictures of their places, and right pictures differ from wrong ones.
func TestHero(t *testing.T) {
	run := t.TempDir()
	if err := os.Mkdir(filepath.Join(run, "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, iteration := range []int{0, 20} {
		sheet := &vision.Image{Width: 20, Height: 10, Pix: make([]uint8, 600)}
		for p := range 2 {
			at := [4]int{10 * p, 0, 10, 10}
			one := &vision.Image{Width: 10, Height: 10, Pix: bytes.Repeat([]byte{byte(iteration), byte(p), 0}, 100)}
			sheet.Paste(one, at[0], at[1])
			fmt.Fprintf(&lines, `{"iteration":%d,"prompt":%d,"sample":0,"text":"prompt %[2]d","at":[%d,0,10,10],"scores":{"scene":{"parts":{"strict":%d}}}}`+"\n", iteration, p, at[0], iteration/20*p)
		}
		name := "heldout_before.png"
		if iteration > 0 {
			name = "heldout_000020.png"
		}
		var out bytes.Buffer
		if err := vision.EncodePNG(&out, sheet); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(run, "images", name), out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(run, "heldout.jsonl"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(lines.String())
	pairs, says, err := read(run)
	if err != nil {
		t.Fatal(err)
	}
	if says != "everything right: 0 of 2 before, 1 of 2 after iteration 20" {
		t.Error(says)
	}
	for p, of := range pairs {
		if of.text != fmt.Sprint("prompt ", p) || of.before.right || of.after.right != (p == 1) {
			t.Errorf("prompt %d: %q, right %v and %v", p, of.text, of.before.right, of.after.right)
		}
		if b, a := of.before.frames[0].Pix, of.after.frames[0].Pix; b[0] != 0 || a[0] != 20 || int(b[1]) != p || int(a[1]) != p {
			t.Errorf("prompt %d has the pictures of others", p)
		}
	}
	if m, err := draw(pairs); err != nil || len(m) != 1 || m[0].Width != columns*(2*side+gap+margin)+margin {
		t.Errorf("%d pictures, %v", len(m), err)
	}
	for i := range pairs { // of two frames
		for _, s := range []*sample{&pairs[i].before, &pairs[i].after} {
			s.frames = append(s.frames, pairs[0].after.frames[0])
		}
	}
	if m, err := draw(pairs); err != nil || len(m) != 2 || bytes.Equal(m[0].Pix, m[1].Pix) {
		t.Errorf("%d frames, or equal ones, %v", len(m), err)
	}
	first, _, _ := strings.Cut(lines.String(), "\n")
	write(first)
	if _, _, err := read(run); err == nil || !strings.Contains(err.Error(), "no evaluation after training") {
		t.Errorf("a run that was not trained: %v", err)
	}
}

// TestRight: a word that is read whole is right, as is a scene, and nothing less.
func TestRight(t *testing.T) {
	for text, want := range map[string]bool{`{"scores":{"ocr":{"value":1}}}`: true, `{"scores":{"ocr":{"value":0.67}}}`: false, `{"scores":{"scene":{"parts":{"strict":1}}}}`: true, `{}`: false} {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.right() != want {
			t.Errorf("%s is right: %v, %v", text, !want, err)
		}
	}
}
