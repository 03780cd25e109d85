package pull

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// unfinished ends the name of a file whose bytes are not all there, or not yet compared.
const unfinished = ".unfinished"

// download is one file on its way.
type download struct {
	*server
	commit string
	file   File
	dir    string
	count  func(n int64, came bool) // bytes that are there now; negative ones were thrown away

	path string // of the unfinished file
	at   int64  // bytes in it
	far  int64  // the most bytes that were ever in it, when progress was last counted
	sum  hash.Hash
	anew int // how often it was begun anew because its hash was wrong
}

// run fetches the file and compares its hash. A file that exists is compared, not fetched.
func (d *download) run(ctx context.Context) error {
	to := filepath.Join(d.dir, filepath.FromSlash(d.file.Path))
	d.path = to + unfinished
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Rename(to, d.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := os.OpenFile(d.path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := d.there(ctx, out); err != nil {
		return d.wrapped(err)
	}
	if err := d.tried(ctx, func() (bool, error) { return d.once(ctx, out) }); err != nil {
		return d.wrapped(err)
	}
	if err := errors.Join(out.Sync(), out.Close()); err != nil {
		return d.wrapped(err)
	}
	return os.Rename(d.path, to)
}

func (d *download) wrapped(err error) error { return fmt.Errorf("fetching %s: %w", d.file.Path, err) }

// there takes up the beginning of an earlier pull.
func (d *download) there(ctx context.Context, out *os.File) error {
	d.sum = d.file.sum()
	info, err := out.Stat()
	if err != nil {
		return err
	}
	if info.Size() > d.file.Size {
		return d.empty(out)
	}
	n, err := io.Copy(d.sum, reader(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return out.Read(p)
	}))
	d.at, d.far = n, n
	d.count(n, false)
	return err
}

type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// empty begins the file anew.
func (d *download) empty(out *os.File) error {
	d.count(-d.at, false)
	d.at, d.sum = 0, d.file.sum()
	_, err := out.Seek(0, io.SeekStart)
	return errors.Join(err, out.Truncate(0))
}

// once asks for the bytes that are missing, and reads as many as come.
func (d *download) once(ctx context.Context, out *os.File) (moved bool, err error) {
	if d.at < d.file.Size {
		if moved, err = d.more(ctx, out); err != nil {
			return moved, err
		}
	}
	if d.file.holds(d.sum) {
		return true, nil
	}
	if err := d.empty(out); err != nil {
		return false, final{err}
	}
	d.far = 0
	wrong := fmt.Errorf("the %d bytes that came do not have the hash of the hub's list", d.file.Size)
	if d.anew++; d.anew >= 2 {
		return false, final{fmt.Errorf("%w, twice\nhint: something between here and the hub changes files; check HF_ENDPOINT and proxies", wrong)}
	}
	return false, wrong
}

// more reads from a new connection until the file is complete.
func (d *download) more(ctx context.Context, out *os.File) (moved bool, err error) {
	a, err := d.get(ctx, d.resolve(d.commit, d.file.Path), d.at)
	if errors.Is(err, errRange) {
		return false, errors.Join(err, d.empty(out))
	}
	if err != nil {
		return false, err
	}
	defer a.Body.Close()
	if err := d.place(a, out); err != nil {
		return false, err
	}
	buffer := make([]byte, 1<<20)
	for {
		n, err := a.Body.Read(buffer)
		if int64(n) > d.file.Size-d.at {
			return false, final{fmt.Errorf("the server sent more than the %d bytes of the hub's list", d.file.Size)}
		}
		if n > 0 {
			if _, err := out.Write(buffer[:n]); err != nil {
				return false, final{fmt.Errorf("%w\nhint: the disk may be full", err)}
			}
			d.sum.Write(buffer[:n])
			d.at += int64(n)
			d.count(int64(n), true)
			moved = d.further() || moved
		}
		switch {
		case err == io.EOF && d.at == d.file.Size:
			return true, nil
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			return moved, fmt.Errorf("the connection ended after %d of %d bytes%s", d.at, d.file.Size, fromStart(a))
		case err != nil:
			return moved, err
		}
	}
}

// further reports whether the file has come a ten-thousandth further than it ever was: a server that cuts and knows no
// ranges sends the same bytes again and again, and one that sends two bytes a try never ends.
func (d *download) further() bool {
	if d.at-d.far <= d.file.Size/10000 {
		return false
	}
	d.far = d.at
	return true
}

// fromStart says so where an answer began at the file's start although a range was asked for.
func fromStart(a *answer) string {
	if a.StatusCode == http.StatusOK && a.Request.Header.Get("Range") != "" {
		return ", and the server sends every try from the start (it knows no ranges)"
	}
	return ""
}

// place checks where an answer's bytes belong. A server without ranges sends the file from its start.
func (d *download) place(a *answer, out *os.File) error {
	if a.StatusCode == http.StatusOK {
		if d.at > 0 {
			return d.empty(out)
		}
		return nil
	}
	from := fmt.Sprintf("bytes %d-", d.at)
	if said := a.Header.Get("Content-Range"); !strings.HasPrefix(said, from) {
		return errors.Join(fmt.Errorf("bytes from %d on were asked for, and %.60q came", d.at, printable(said)), d.empty(out))
	}
	return nil
}
