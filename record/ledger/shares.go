package ledger

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/darkroom-rl/darkroom/record/folder"
)

// FleetFile has a line a job of a fleet: who did it.
const FleetFile = "fleet.jsonl"

// A Share is one worker's part of a run.
type Share struct {
	Worker    string  `json:"worker"`
	Jobs      int     `json:"jobs"`
	Median    float64 `json:"median_seconds"` // of a job
	Bytes     int64   `json:"bytes"`
	Audited   int     `json:"audited"` // that were done by the trainer as well, with the same bits
	Last      string  `json:"last"`    // when its last result was taken
	Dismissed string  `json:"dismissed,omitempty"`
}

// Shares adds up the lines of a run's fleet.jsonl, by worker. Its zero value has none.
type Shares struct {
	by      map[string]*Share
	seconds map[string][]float64
}

// Add takes a line.
func (s *Shares) Add(line []byte) error {
	var e struct { // the fields read of fleet.Entry
		Worker    string  `json:"worker"`
		Seconds   float64 `json:"seconds"`
		Bytes     int     `json:"bytes"`
		Audited   bool    `json:"audited"`
		At        float64 `json:"at"`
		Dismissed string  `json:"dismissed"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	if s.by == nil {
		s.by, s.seconds = map[string]*Share{}, map[string][]float64{}
	}
	one := s.by[e.Worker]
	if one == nil {
		one = &Share{Worker: e.Worker}
		s.by[e.Worker] = one
	}
	one.Last = time.UnixMilli(int64(1000 * e.At)).UTC().Format(time.RFC3339)
	if e.Dismissed != "" {
		one.Dismissed = e.Dismissed
		return nil
	}
	one.Jobs++
	one.Bytes += int64(e.Bytes)
	if e.Audited {
		one.Audited++
	}
	s.seconds[e.Worker] = append(s.seconds[e.Worker], e.Seconds)
	return nil
}

// All are the shares; who did most comes first.
func (s *Shares) All() []Share {
	all := []Share{}
	for name, one := range s.by {
		if x := s.seconds[name]; len(x) > 0 {
			slices.Sort(x)
			one.Median = x[len(x)/2]
		}
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b Share) int { return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Worker, b.Worker)) })
	return all
}

// ReadShares reads a run's fleet.jsonl.
func ReadShares(path string) ([]Share, error) {
	var s Shares
	if err := folder.ReadLines(path, s.Add); err != nil {
		return nil, err
	}
	return s.All(), nil
}
