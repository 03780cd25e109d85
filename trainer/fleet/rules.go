package fleet

import "time"

// Rules say when a job is offered again.
type Rules struct {
	Lease time.Duration // a worker that is not heard of for so long has lost its job
	Hedge float64       // a job that takes so many times the median is given to an idle worker, too; 0: never
	// Silence is how long jobs may wait beside idle workers before they are offered again: whoever carried them has
	// lost them.
	Silence time.Duration
	Tries   int // a job that was begun so often, and not done, is done by the trainer itself
	// Hang is how many times the median a worker may be at a job before the trainer does it, too, idle workers or not:
	// a device that hangs does not keep its process from saying that it is there. Unknown is that of a job of which no
	// other of its kind was finished. 0: as long as it likes.
	Hang    float64
	Unknown time.Duration
}

// Usual are those of a fleet that nothing is known of.
func Usual() Rules {
	return Rules{Lease: 30 * time.Second, Hedge: 1.5, Silence: 20 * time.Second, Tries: 5, Hang: 10, Unknown: 10 * time.Minute}
}

// Beats is how often a worker says that it is still there: four may be lost.
func (r Rules) Beats() time.Duration { return r.Lease / 5 }
