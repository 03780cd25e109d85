package flow

import "errors"

// OpenCV is Farneback's flow by OpenCV itself, in programs that were built with the tag gocv:
// for comparison, or where one flow for all programs is wanted. Threads, Start and Watch are
// not for it.
type OpenCV struct{ Farneback }

// ErrNoOpenCV says that the program was built without it.
var ErrNoOpenCV = errors.New("this program was built without OpenCV: go build -tags gocv, with OpenCV installed (Debian: libopencv-dev)")
