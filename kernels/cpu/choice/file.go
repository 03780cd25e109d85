package choice

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Kept is a table with the machine and the program that it was measured by.
type Kept struct {
	CPU       string    `json:"cpu"`
	Microcode string    `json:"microcode,omitempty"`
	Program   string    `json:"program"` // as Program returns it
	At        time.Time `json:"at"`
	MS        float64   `json:"ms"` // that the measurement took
	Table     Table     `json:"table"`
}

// Take measures for a machine and a program.
func (k Kept) Take() Kept {
	begin := time.Now()
	k.Table = Measure()
	k.At, k.MS = begin.UTC().Truncate(time.Second), float64(time.Since(begin).Microseconds())/1e3
	return k
}

// A File keeps tables of machines and programs, a line of JSON each, the newest last.
type File string

// most is the number of lines: programs that are built again and again do not fill a disk.
const most = 32

// Find is the table of a machine and a program. A file that cannot be read, and a line that is not JSON, count as
// missing.
func (f File) Find(k Kept) (found Kept, ok bool) {
	for _, l := range f.lines() {
		if l.of(k) {
			found, ok = l, true
		}
	}
	return found, ok
}

func (k Kept) of(other Kept) bool {
	return k.CPU == other.CPU && k.Microcode == other.Microcode && k.Program == other.Program
}

func (f File) lines() (all []Kept) {
	text, err := os.ReadFile(string(f))
	if err != nil {
		return nil
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var k Kept
		if json.Unmarshal(lines.Bytes(), &k) == nil {
			all = append(all, k)
		}
	}
	return all
}

// Keep adds a table, in place of an earlier one of the same machine and program. Two programs that keep theirs at one
// time may lose one, which is then measured again.
func (f File) Keep(k Kept) error {
	var text bytes.Buffer
	lines := f.lines()
	for _, l := range append(lines[max(0, len(lines)-most+1):], k) {
		if l.of(k) && !l.At.Equal(k.At) {
			continue
		}
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	dir := filepath.Dir(string(f))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	t, err := os.CreateTemp(dir, ".paths-*")
	if err != nil {
		return err
	}
	_, err = t.Write(text.Bytes())
	if err = errors.Join(err, t.Close()); err == nil {
		err = os.Rename(t.Name(), string(f))
	}
	if err != nil {
		_ = os.Remove(t.Name()) // it may be gone
	}
	return err
}

// Program identifies the running program by the start of its file, which holds the linker's hash of its contents, and
// by its size.
func Program() (string, error) {
	name, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyN(h, f, 32<<10); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	fmt.Fprint(h, info.Size())
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
