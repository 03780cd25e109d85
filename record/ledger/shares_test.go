package ledger

import (
	"os"
	"path/filepath"
	"testing"
)

// TestShares: jobs are added up by worker, a dismissal does not count, and a torn last line is left out.
func TestShares(t *testing.T) {
	path := filepath.Join(t.TempDir(), FleetFile)
	text := `{"job":"a","worker":"one","seconds":2,"bytes":1000,"tries":1,"at":10}
{"job":"b","worker":"two","seconds":4,"bytes":500,"tries":1,"audited":true,"at":11}
{"job":"c","worker":"one","seconds":6,"bytes":1000,"tries":2,"at":12}
{"job":"d","worker":"one","seconds":3,"bytes":1000,"tries":1,"at":13}
{"worker":"two","dismissed":"other bits","at":14}
{"job":"e","wor`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := ReadShares(path)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	if s := all[0]; s != (Share{Worker: "one", Jobs: 3, Median: 3, Bytes: 3000, Last: "1970-01-01T00:00:13Z"}) {
		t.Errorf("%+v", s)
	}
	if s := all[1]; s != (Share{Worker: "two", Jobs: 1, Median: 4, Bytes: 500, Audited: 1, Last: "1970-01-01T00:00:14Z", Dismissed: "other bits"}) {
		t.Errorf("%+v", s)
	}
}
