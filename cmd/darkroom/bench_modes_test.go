//go:build !nocuda && linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest/bench"
)

// TestBenchModes: a device is opened in every mode before it is timed in the first, and its rows say which is whose.
func TestBenchModes(t *testing.T) {
	double.New(t).Set(13000, 1, 90, 1<<30)
	timed := func(want int, args ...string) (out, errs string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := execute(context.Background(), append([]string{"bench"}, args...), nil, &stdout, &stderr); code != want {
			t.Errorf("%v: exit code %d, want %d\n%s", args, code, want, stderr.String())
		}
		return stdout.String(), stderr.String()
	}
	for says, args := range map[string][]string{
		"fast":            {"--device", "cuda:0", "--mode", "own", "--mode", "fast"},
		"--device cuda:0": {"--mode", "own"},
		"write M,N,K":     {"--product", "3,x,4"},
		"2^30":            {"--product", "1000000,1000000,4"},
		"at most":         {"--product", "3,4,5,6"},
	} {
		if _, got := timed(exits.Wrong, args...); !strings.Contains(got, says) {
			t.Errorf("%v: %q; want %q in it", args, got, says)
		}
	}
	var report struct{ Rows []bench.Row }
	text, _ := timed(exits.Done, "--device", "cuda:0", "--mode", "own,mma", "--mode", "own", "--product", "3,66,72", "--repeat", "1", "--json")
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	rows := map[string]int{}
	for _, r := range report.Rows {
		rows[r.Mode+fmt.Sprint(r.Shape)]++
	}
	if rows["own,mma[3 66 72]"] != 8 || rows["own[3 66 72]"] != 8 || len(rows) != 2 {
		t.Errorf("%v", rows)
	}
}
