package program

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/vision"
)

// The interpreter of these tests is the test program itself, run again: it speaks the protocol of worker.py, and
// follows one or two words of its code.

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "interpret" {
		interpret(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// options run the test program in a mode.
func options(mode string) *Options {
	o := &Options{}
	o.SetDefaults()
	o.Command, o.Modules = []string{os.Args[0], "interpret", mode}, nil
	return o
}

func interpret(mode string) {
	switch mode {
	case "sleeps":
		time.Sleep(time.Hour)
	case "dies":
		fmt.Fprintln(os.Stderr, "no such sandbox")
		os.Exit(7)
	case "mute":
		time.Sleep(time.Hour)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	total := 0
	for lines.Scan() {
		var q request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			os.Exit(9)
		}
		if q.Begin != nil {
			total = len(q.Begin.Pictures)
			ready := map[string]string{"says": "test", "silent": "", "lacks": "test"}[mode]
			r := reply{N: q.N, Ready: ready}
			if mode == "lacks" {
				r.Missing = []string{"PIL", "numpy"}
			}
			say(r)
			continue
		}
		r := reply{N: q.N, Figures: total}
		word, rest, _ := strings.Cut(q.Run.Code, " ")
		switch word {
		case "print":
			r.Text = rest
		case "many":
			n, _ := strconv.Atoi(rest)
			r.Text = strings.Repeat("é", n)
		case "raise":
			r.Error = &rest
		case "show": // as many pictures, of one size
			var n, w, h int
			fmt.Sscanf(rest, "%d %d %d", &n, &w, &h)
			var png bytes.Buffer
			if err := vision.EncodePNG(&png, vision.New(w, h)); err != nil {
				os.Exit(9)
			}
			for range n {
				r.Images = append(r.Images, png.Bytes())
			}
			total += n
			r.Figures = total
		case "huge": // a header that promises more than there is
			var png bytes.Buffer
			if err := vision.EncodePNG(&png, vision.New(1, 1)); err != nil {
				os.Exit(9)
			}
			b := png.Bytes()
			side, _ := strconv.Atoi(rest)
			binary.BigEndian.PutUint32(b[16:], uint32(side))
			binary.BigEndian.PutUint32(b[20:], uint32(side))
			binary.BigEndian.PutUint32(b[29:], crc32.ChecksumIEEE(b[12:29]))
			r.Images = [][]byte{b}
		case "spoil":
			r.Images = [][]byte{nil}
			if rest != "" {
				r.Images[0] = []byte(rest)
			}
		case "environment":
			wd, _ := os.Getwd()
			r.Text = wd + "\n" + strings.Join(os.Environ(), "\n")
		case "hang":
			time.Sleep(time.Hour)
		case "child": // which would live on, and holds the pipes
			c := exec.Command(os.Args[0], "interpret", "sleeps")
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
			if err := c.Start(); err != nil {
				os.Exit(9)
			}
			r.Text = strconv.Itoa(c.Process.Pid)
		case "leave":
			os.Exit(3)
		case "garbage":
			fmt.Println("Segmentation fault")
			time.Sleep(time.Hour)
		case "flood":
			for {
				if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<20)); err != nil {
					os.Exit(9)
				}
			}
		case "forge": // a second reply to one request
			say(reply{N: q.N, Text: "forged"})
		}
		say(r)
	}
}

func say(r reply) {
	line, err := json.Marshal(r)
	if err != nil {
		os.Exit(9)
	}
	os.Stdout.Write(append(line, '\n'))
}
