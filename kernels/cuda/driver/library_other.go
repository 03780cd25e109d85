//go:build nocuda || !linux || !(amd64 || arm64)

package driver

import "errors"

// Library stands where the program is built without CUDA.
type Library struct{ Path string }

var errBuilt = errors.New("this program was built without CUDA (the tag nocuda, or a system other than Linux)")

func OpenLibrary() (*Library, error) { return nil, errBuilt }

func OpenNamed(variable, what string, places []string) (*Library, error) { return nil, errBuilt }

func (l *Library) Call(string, ...uintptr) (int32, error) { return 0, errBuilt }

func (l *Library) Pointer(string, ...uintptr) (uintptr, error) { return 0, errBuilt }

func (l *Library) Find(string) error { return errBuilt }
