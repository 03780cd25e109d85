package fleet

import "time"

// A Course is when what happened to a job, by the trainer's clock, for traces.
type Course struct {
	Offered   time.Time // zero: its result was kept
	Published time.Time // when whatever carries jobs had it
	Leases    []Lease   // in the order in which they were heard of
	Done      time.Time
}

// A Lease is a worker at a job.
type Lease struct {
	Worker       string
	Begun, Ended time.Time
	Failed       string // why it came to nothing; "": it did not
}

// published is told when a job was offered.
func (c *Course) published(began time.Time) {
	if c.Published.IsZero() {
		c.Offered, c.Published = began, time.Now()
	}
}

// leased is told that a worker has begun.
func (c *Course) leased(by string) {
	for _, l := range c.Leases {
		if l.Worker == by && l.Ended.IsZero() {
			return // said twice
		}
	}
	c.Leases = append(c.Leases, Lease{Worker: by, Begun: time.Now()})
}

// failed is told that a worker could not do it.
func (c *Course) failed(by, why string) {
	for i := range c.Leases {
		if l := &c.Leases[i]; l.Worker == by && l.Ended.IsZero() {
			l.Ended, l.Failed = time.Now(), why
		}
	}
}

// done is told whose result counts. What others were at came to nothing.
func (c *Course) done(by string) {
	c.Done = time.Now()
	for i := range c.Leases {
		if l := &c.Leases[i]; l.Ended.IsZero() {
			l.Ended = c.Done
			if l.Worker != by {
				l.Failed = "another was quicker, or it fell silent"
			}
		}
	}
}
