package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
)

// TestInterrupted: an interrupted command ends with 130, not with 1.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	code := execute(ctx, []string{"bench", "gemm", "--threads", "1", "--json"}, strings.NewReader(""), &out, &errs)
	if code != exits.Interrupted || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

// TestOutputFails: a failed print is a failure.
func TestOutputFails(t *testing.T) {
	for _, args := range [][]string{{"list"}, {"list", "--json"}, {"version"}} {
		var errs bytes.Buffer
		code := execute(context.Background(), args, strings.NewReader(""), full{}, &errs)
		if code != exits.Failed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: exit code %d, %q", args, code, errs.String())
		}
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestPanics: a mistake in the program is a failure, not the user's usage.
func TestPanics(t *testing.T) {
	var errs bytes.Buffer
	code := execute(context.Background(), []string{"version"}, strings.NewReader(""), broken{}, &errs)
	if code != exits.Failed || !strings.Contains(errs.String(), "a mistake in the program: out of order") {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { panic("out of order") }
