package report

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
)

// A Reader reads one run's folder again and again, as a server does while the run writes to it: it reads the new part
// of growing files, and evaluates the settings once.
type Reader struct {
	dir            string
	ledger, timing folder.Tail
	fleet          folder.Tail
	shares         ledger.Shares
	book           ledger.Book
	broken         error // the first line of the ledger that cannot be read
	seconds        map[int]map[string]float64
	samples        *Samples
	settings       Settings
}

// NewReader is a reader that has read nothing yet.
func NewReader(dir string) *Reader {
	at := func(name string) folder.Tail { return folder.Tail{Path: filepath.Join(dir, name)} }
	return &Reader{dir: dir, ledger: at("ledger.jsonl"), timing: at("timing.jsonl"), fleet: at(ledger.FleetFile), seconds: map[int]map[string]float64{}, samples: NewSamples(dir)}
}

// Document is all of the run as its folder is now.
func (r *Reader) Document(source Source) (*Document, error) {
	if _, err := r.timing.Next(func() { clear(r.seconds) }, r.second); err != nil {
		return nil, err
	}
	_, err := r.ledger.Next(func() { r.book, r.broken = ledger.Book{}, nil }, r.book.AddText)
	if r.broken == nil {
		r.broken = err
	}
	if r.broken != nil {
		return nil, r.broken
	}
	if _, err := r.samples.Read(); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(r.dir, "samples.jsonl"), err)
	}
	run, err := ReadWith(r.dir, r.book, r.seconds, &r.settings)
	if err != nil {
		return nil, err
	}
	if _, err := r.fleet.Next(func() { r.shares = ledger.Shares{} }, func(line []byte) error { return r.shares.Add(line) }); err != nil {
		return nil, err
	}
	d, err := NewDocument(run, r.samples, source, Whole)
	if all := r.shares.All(); err == nil && len(all) > 0 {
		d.Workers = all
	}
	return d, err
}

// second takes a line of timing.jsonl; one that cannot be read is left out, as no number of the run depends on it.
func (r *Reader) second(text []byte) error {
	var l ledger.TimingLine
	if json.Unmarshal(text, &l) == nil && l.Seconds != nil {
		r.seconds[l.Iteration] = l.Seconds
	}
	return nil
}
