package device

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// A Verification is the conformance suite on a card, kept by card, driver and program: 'darkroom doctor --verify'.
type Verification struct {
	Card    string `json:"card"` // its name and compute capability
	Driver  string `json:"driver"`
	Program string `json:"program"` // its version and a hash of its kernels

	At    time.Time `json:"at"`
	Modes []Mode    `json:"modes"`
}

// A Mode is the suite in one mode of DARKROOM_CUDA.
type Mode struct {
	Name    string   `json:"name"`
	Cases   int      `json:"cases"`
	Seconds float64  `json:"seconds"`
	Failed  []string `json:"failed,omitempty"`  // cases, and how they failed
	Missing string   `json:"missing,omitempty"` // why the mode cannot be opened: no failure of the card's
}

// Passed reports whether all cases of all modes that opened passed.
func (v Verification) Passed() bool {
	cases := 0
	for _, m := range v.Modes {
		if len(m.Failed) > 0 {
			return false
		}
		cases += m.Cases
	}
	return cases > 0
}

// Verify runs the suite on a card in each mode: exact, whose results have the bits of package ref, and those of
// tensor cores, whose results are near. It does not end early; progress is called after each case.
func Verify(d driver.Device, driverVersion string, cases []kerneltest.Case, progress func(done, all int)) (Verification, error) {
	v, err := verification(d, driverVersion)
	if err != nil {
		return v, err
	}
	v.At = time.Now().UTC().Truncate(time.Second)
	modes := []string{"exact", "own,mma", "lt"}
	if d.Hopper() {
		modes = append(modes, "own")
	}
	done, all := 0, 0
	plans := make([][]kerneltest.Case, len(modes))
	for i, mode := range modes {
		for _, c := range cases {
			if near(mode, c) >= 0 {
				plans[i] = append(plans[i], c)
			}
		}
		all += len(plans[i])
	}
	for i, mode := range modes {
		v.Modes = append(v.Modes, verify(d, mode, plans[i], func() { done++; progress(done, all) }))
	}
	return v, nil
}

// near is how near to ref a case's results are in a mode; below 0: the case is left out.
func near(mode string, c kerneltest.Case) float64 {
	if mode == "exact" {
		return 0
	}
	return kerneltest.TensorCores(c)
}

// verify runs cases in one mode. A device that fails in one is lost to those after it.
func verify(d driver.Device, mode string, cases []kerneltest.Case, after func()) (m Mode) {
	m.Name = mode
	begin := time.Now()
	defer func() { m.Seconds = time.Since(begin).Seconds() }()
	b, err := cuda.OpenAs(d.Index, mode)
	if err != nil {
		if mode == "lt" { // the library is an option
			m.Missing = err.Error()
		} else {
			m.Failed = append(m.Failed, err.Error())
		}
		return m
	}
	defer b.Close()
	for _, c := range cases {
		err, lost := held(c, b, near(mode, c))
		m.Cases++
		if err != nil {
			m.Failed = append(m.Failed, fmt.Sprintf("%s/%s: %v", c.Op, c.Name, err))
		}
		if lost {
			return m
		}
		after()
	}
	return m
}

// held is kerneltest.Hold, and whether the device failed.
func held(c kerneltest.Case, b kernels.Backend, near float64) (err error, lost bool) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case kernels.DeviceError:
			err, lost = r, true
		case runtime.Error:
			panic(r)
		default:
			err = fmt.Errorf("%v", r)
		}
	}()
	return kerneltest.Hold(c, b, near), false
}

// verification is an empty one of this card, driver and program.
func verification(d driver.Device, driverVersion string) (Verification, error) {
	hash, err := cuda.KernelsHash()
	if err != nil {
		return Verification{}, err
	}
	build := version.Read()
	return Verification{
		Card:    fmt.Sprintf("%s, compute capability %d.%d", d.Name, d.Major, d.Minor),
		Driver:  driverVersion,
		Program: fmt.Sprintf("%s %s, kernels %s", build.Version, build.Revision, hash),
	}, nil
}

func (v Verification) same(w Verification) bool {
	return v.Card == w.Card && v.Driver == w.Driver && v.Program == w.Program
}

// Verified is the last verification of this card by this program under this driver. A file that cannot be read counts
// as missing.
func Verified(d driver.Device, driverVersion string) (last Verification, ok bool) {
	path, err := verifiedFile()
	if err != nil {
		return last, false
	}
	f, err := os.Open(path)
	if err != nil {
		return last, false
	}
	defer f.Close()
	of, err := verification(d, driverVersion)
	if err != nil {
		return last, false
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v Verification
		if json.Unmarshal(lines.Bytes(), &v) == nil && v.same(of) {
			last, ok = v, true
		}
	}
	return last, ok
}

// Keep adds a verification to those of this machine.
func (v Verification) Keep() (path string, err error) {
	if path, err = verifiedFile(); err != nil {
		return "", err
	}
	line, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(append(line, '\n'))
	return path, errors.Join(err, f.Close())
}

// verifiedFile lists verifications, a line of JSON each.
func verifiedFile() (string, error) {
	root, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return filepath.Join(root, "darkroom", "verified.jsonl"), nil
}
