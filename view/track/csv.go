package track

import (
	"bytes"
	"encoding/csv"
	"strconv"
)

// openCSV opens the file metrics.csv. A missing value is an empty cell.
func openCSV(dir string, _ *Run, s state) (Target, error) {
	return openTable(dir, "metrics.csv", s, encodeCSV)
}

func encodeCSV(columns []string, rows []row) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	if err := w.Write(append([]string{"iteration", "time"}, columns...)); err != nil {
		return nil, err
	}
	for _, r := range rows {
		line := []string{strconv.Itoa(r.iteration), strconv.FormatFloat(r.time, 'f', -1, 64)}
		for _, name := range columns {
			cell := ""
			if v, ok := r.values[name]; ok {
				cell = strconv.FormatFloat(v, 'g', -1, 64)
			}
			line = append(line, cell)
		}
		if err := w.Write(line); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return out.Bytes(), w.Error()
}
