// Package regular opens strangers' files. A named pipe would block its
// reader for ever, a device may never end, and a file may be larger than the memory: all three are
// refused with an error that names the path and the remedy.
//
// Start with Read; Open reads piece by piece.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Open opens a regular file for reading. It checks the path's kind before it opens it, and again afterwards, since the
// path may have been exchanged in between.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := check(path, info); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // no pipe keeps us waiting for its writer
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = check(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ErrIrregular is why a pipe, a device, a socket or a folder was not opened.
var ErrIrregular = errors.New("not a regular file")

func check(path string, info fs.FileInfo) error {
	what := ""
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		what = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	default:
		what = "neither a file nor a folder"
	}
	return fmt.Errorf("%s: %w but %s: name a file", path, ErrIrregular, what)
}

// ErrLarge is why a file was not read whole.
var ErrLarge = errors.New("the file is too large")

// Read reads a regular file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s: %w: it holds %d bytes, and at most %d are read", path, ErrLarge, info.Size(), limit)
	}
	var data bytes.Buffer
	data.Grow(int(info.Size()) + bytes.MinRead)
	_, err = data.ReadFrom(io.LimitReader(f, limit+1)) // it may grow while it is read
	switch {
	case err != nil:
		return nil, err
	case int64(data.Len()) > limit:
		return nil, fmt.Errorf("%s: %w: it holds more than %d bytes", path, ErrLarge, limit)
	}
	return data.Bytes(), nil
}
