package experiment

import (
	"fmt"
	"strings"
	"time"
)

// Devices are the names in run.device, one a rank: "cuda:0,cuda:1" has two. With another number of ranks
// gradients are added up in another order, so a run goes on with as many as it was begun with; which
// they are may change, and two may lie on one device.
func (run Run) Devices() []string {
	names := strings.Split(run.Device, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

// Patience is run.rank_limit.
func (run Run) Patience() time.Duration { return time.Duration(run.RankLimit * float64(time.Second)) }

// checkDevices reports names that are none, and ranks that cannot work together.
func (run Run) checkDevices(r report) {
	names := run.Devices()
	for _, d := range names {
		switch {
		case d != "auto" && d != "cpu" && !strings.HasPrefix(d, "cuda:"):
			r("run.device", fmt.Sprintf("%q is no device", d), `write "auto", "cpu", or "cuda:0"; several train together: "cuda:0,cuda:1"`)
		case d == "auto" && len(names) > 1:
			r("run.device", `"auto" stands for one device, and here are several`, `name each: "cuda:0,cuda:1", or "cpu,cpu"`)
		case (d == "cpu") != (names[0] == "cpu") && names[0] != "auto":
			r("run.device", fmt.Sprintf("%q and %q cannot train together: what one samples, another trains on, and their bits differ", names[0], d), "name devices of one kind")
		default:
			continue
		}
		return
	}
}
