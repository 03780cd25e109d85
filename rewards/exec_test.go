package rewards

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/rewards/call"
)

// rewardProgram is the reward program of the tests.
func rewardProgram(mode string) {
	in := bufio.NewReader(os.Stdin)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		items, err := decodeItems(context.Background(), line, 1<<25)
		if err != nil {
			fmt.Println(`{"error": "bad request"}`)
			continue
		}
		if mode == "talks first" && n == 1 {
			fmt.Println("loading the model\n1000\ntrue\n[INFO] ready")
		}
		switch {
		case mode == "dies":
			fmt.Fprintln(os.Stderr, "no memory\nleft")
			os.Exit(3)
		case mode == "dies later" && n > 1:
			os.Exit(3)
		case mode == "hangs":
			time.Sleep(time.Minute)
		case mode == "half":
			fmt.Print(`{"scores": [`)
			os.Exit(0)
		case mode == "floods":
			for {
				fmt.Print(strings.Repeat("x", 1<<16))
			}
		case strings.HasPrefix(mode, "{"), strings.HasPrefix(mode, "["), strings.HasPrefix(mode, "Loading"):
			fmt.Println(mode)
		case mode == "environment":
			fmt.Printf(`{"scores": [{"missing": %q}]}`+"\n", os.Getenv("SECRET_TOKEN")+"|"+os.Getenv("NAMED")+"|"+os.Getenv("PATH"))
		default:
			reply, _ := encodeResults(Each(brightness, 1).Judge(context.Background(), items))
			if strings.HasPrefix(mode, "numbered") {
				var asked struct{ N int }
				_ = json.Unmarshal(line, &asked)
				reply = append(fmt.Appendf(nil, `{"n": %d,`, asked.N), reply[1:]...)
			}
			if strings.HasSuffix(mode, "twice") {
				reply = bytes.Join([][]byte{reply, reply}, []byte("\n"))
			}
			fmt.Println(string(reply))
		}
	}
}

func testProgram(t *testing.T, mode string, p call.Policy) *Exec {
	t.Helper()
	e, err := NewExec([]string{os.Args[0], "program", mode}, 2, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestExec(t *testing.T) {
	p := patient()
	p.Tries = 6 // each may meet one that is about to die
	for _, mode := range []string{"well", "dies later", "numbered", "talks first"} {
		e := testProgram(t, mode, p)
		for range 3 {
			expectThree(t, mode, e.Judge(t.Context(), threeItems))
		}
	}
	e := testProgram(t, "well", p)
	if s, err := e.Score(t.Context(), threeItems[2]); err != nil || s.Value != 9 {
		t.Error(s, err)
	}
	_ = e.Close()
	if _, err := e.Score(t.Context(), threeItems[2]); !errors.Is(err, call.ErrClosed) {
		t.Error(err)
	}
	for _, argv := range [][]string{nil, {""}, {"no such program anywhere"}} {
		if e, err := NewExec(argv, 1, p, nil); err == nil {
			t.Errorf("%q: %v", argv, e)
		}
	}
}

func TestExecBroken(t *testing.T) {
	for _, c := range []struct{ mode, said string }{
		{"dies", "it wrote:\n  | no memory\n  | left"},
		{"[1, 1]", "no JSON of the protocol"},
		{`[NaN, 1]`, "no JSON of the protocol"},
		{"Loading... {\"scores\": [1, 1]}", "no JSON of the protocol"},
		{"half", "ended in the middle"},
		{"floods", "longer than 10000 bytes"},
		{"hangs", "no answer in time"},
		{`{"scores": [1]}`, "1 scores for 2 items"},
	} {
		p := patient()
		if c.mode == "hangs" {
			p = impatient()
		}
		start := time.Now()
		expectLie(t, c.mode, testProgram(t, c.mode, p).Judge(t.Context(), threeItems[1:]), c.said, c.said)
		if d := time.Since(start); d > 15*time.Second {
			t.Errorf("%s: took %v", c.mode, d)
		}
	}
}

// A program that hangs does not outlive the context.
func TestExecStops(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	start := time.Now()
	got := testProgram(t, "hangs", call.Policy{Timeout: time.Minute}).Judge(ctx, threeItems)
	if !errors.Is(got[0].Missing, context.DeadlineExceeded) || time.Since(start) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(start), got[0].Missing)
	}
}

// TestExecSurplus: a program that writes a line too many gives no sample the score of another: its score is right or
// missing, and the reason names the line.
func TestExecSurplus(t *testing.T) {
	for mode, said := range map[string]string{
		"twice": "nobody asked for", "numbered twice": "one line that is a JSON object",
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

// TestExecEnvironment: a program gets no secrets, but the variables that it needs and those that are named.
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
