package ledger

import (
	"encoding/json"
	"math"
	"strconv"
)

// An overview of many runs needs little of each line, and reading the rest is most of the work. So lines are walked
// field by field (fields.go), and a field that nobody needs is skipped.

// AddBrief takes the next line's iteration, samples, mean total, held-out measures, monitors and rollback alone.
// Skipped fields are not checked either.
func (b *Book) AddBrief(text []byte) error {
	var l Line
	ok := eachField(text, func(name, value []byte) bool {
		switch string(name) {
		case "iteration":
			return integer(value, &l.Iteration)
		case "samples":
			return integer(value, &l.Samples)
		case "total":
			return l.Total.brief(value)
		case "heldout":
			return json.Unmarshal(value, &l.HeldOut) == nil
		case "monitors":
			return json.Unmarshal(value, &l.Fired) == nil
		case "rollback":
			return json.Unmarshal(value, &l.Rollback) == nil
		}
		return true
	})
	if !ok { // the whole line, for a reason in the words of those who read it whole
		l = Line{}
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
	}
	if err := l.possible(); err != nil {
		return err
	}
	b.Add(l)
	return nil
}

// brief takes the mean, which may be null, and how many are missing.
func (s *Spread) brief(text []byte) (ok bool) {
	s.Mean = math.NaN()
	return eachField(text, func(name, value []byte) bool {
		switch string(name) {
		case "mean":
			return string(value) == "null" || number(value, &s.Mean)
		case "missing":
			return integer(value, &s.Missing)
		}
		return true
	})
}

// number reads a number as JSON has it.
func number(text []byte, into *float64) bool {
	v, err := strconv.ParseFloat(string(text), 64)
	*into = v
	return err == nil && (text[0] == '-' || text[0] >= '0' && text[0] <= '9')
}

func integer(text []byte, into *int) bool {
	v, err := strconv.Atoi(string(text))
	*into = v
	return err == nil
}

// BriefTiming is a line of timing.jsonl with the seconds of the whole iteration alone.
func BriefTiming(text []byte) (l TimingLine, ok bool) {
	ok = eachField(text, func(name, value []byte) bool {
		switch string(name) {
		case "iteration":
			return integer(value, &l.Iteration)
		case "seconds":
			return eachField(value, func(part, seconds []byte) bool {
				var all float64
				if string(part) != "all" {
					return true
				}
				ok := number(seconds, &all)
				l.Seconds = map[string]float64{"all": all}
				return ok
			})
		}
		return true
	})
	return l, ok && l.Seconds != nil
}
