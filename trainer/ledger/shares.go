package ledger

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/folder"
)

// FleetFile has a line a job of a fleet: who did it.
const FleetFile = "fleet.jsonl"

// A Share is what one worker did for a run.
type Share struct {
	Worker    string  `json:"worker"`
	Jobs      int     `json:"jobs"`
	Median    float64 `json:"median_seconds"` // of a job
	Bytes     int64   `json:"bytes"`
	Audited   int     `json:"audited"` // that were done by the trainer as well, with the same bits
	Last      string  `json:"last"`    // when its last result was taken
	Dismissed string  `json:"dismissed,omitempty"`
}

// ReadShares adds up the lines of a run's fleet.jsonl, by worker; who did most comes first.
func ReadShares(path string) ([]Share, error) {
	by := map[string]*Share{}
	seconds := map[string][]float64{}
	err := folder.ReadLines(path, func(line []byte) error {
		var e struct { // what is read of fleet.Entry
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
		s := by[e.Worker]
		if s == nil {
			s = &Share{Worker: e.Worker}
			by[e.Worker] = s
		}
		s.Last = time.UnixMilli(int64(1000 * e.At)).UTC().Format(time.RFC3339)
		if e.Dismissed != "" {
			s.Dismissed = e.Dismissed
			return nil
		}
		s.Jobs++
		s.Bytes += int64(e.Bytes)
		if e.Audited {
			s.Audited++
		}
		seconds[e.Worker] = append(seconds[e.Worker], e.Seconds)
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := []Share{}
	for name, s := range by {
		if x := seconds[name]; len(x) > 0 {
			slices.Sort(x)
			s.Median = x[len(x)/2]
		}
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Share) int { return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Worker, b.Worker)) })
	return all, nil
}
