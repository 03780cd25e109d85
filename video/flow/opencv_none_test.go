//go:build !gocv

package flow

import (
	"errors"
	"testing"
)

func TestWithoutOpenCV(t *testing.T) {
	if _, err := (OpenCV{}).Flow(waves(24, 20, 0, 0), waves(24, 20, 1, 0)); !errors.Is(err, ErrNoOpenCV) {
		t.Error(err)
	}
}
