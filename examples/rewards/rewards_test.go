// Package rewards_test runs the two rewards that people copy.
package rewards_test

import (
	"bufio"
	"context"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/vision"
)

// python is the interpreter's path; without one the test is skipped.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to run the examples with")
	}
	return path
}

// items are pictures with a known share of red, noise around it, and an item that cannot be judged.
func items() (all []rewards.Item, want []float64) {
	for n, share := range []int{0, 3, 8} {
		m := vision.New(16, 8)
		for y := range m.Height {
			for x := range m.Width {
				p := m.Pix[(y*m.Width+x)*3:]
				p[0], p[1], p[2] = byte(x*9), byte(y*31), byte(x*y+97*(n+1))
				if y < share {
					p[0], p[1], p[2] = byte(200+x), byte(x), byte(y)
				} else if p[0] > 128 {
					p[1] = 200
				}
			}
		}
		all, want = append(all, rewards.Item{Prompt: "a red cup", Image: m}), append(want, float64(share)/8)
	}
	return append(all, rewards.Item{Prompt: "a blue cup", Image: vision.New(4, 4)}), append(want, math.NaN())
}

func check(t *testing.T, judge rewards.Judge) {
	t.Helper()
	all, want := items()
	for range 2 { // the second request is another one to the same program
		for i, r := range judge.Judge(context.Background(), all) {
			switch {
			case math.IsNaN(want[i]):
				if r.Missing == nil || !strings.Contains(r.Missing.Error(), "asks for no red") {
					t.Errorf("item %d: %v, missing %v", i, r.Value, r.Missing)
				}
			case r.Missing != nil || r.Value != want[i] || r.Parts["red"] != want[i]:
				t.Errorf("item %d: %v (missing: %v), want %v", i, r.Value, r.Missing, want[i])
			}
		}
	}
}

func TestProgram(t *testing.T) {
	r, err := rewards.NewExec([]string{python(t), "reward.py"}, 3, call.Policy{Timeout: 30 * time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	check(t, r)
}

func TestServer(t *testing.T) {
	cmd := exec.Command(python(t), "server.py", "--port", "0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, url, found := strings.Cut(strings.TrimSpace(line), "listening on ")
	if err != nil || !found {
		t.Fatalf("the server printed %q, %v", line, err)
	}
	check(t, rewards.HTTP(url, "", 3, call.Policy{Timeout: 30 * time.Second}, nil))
}
