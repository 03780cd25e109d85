package fleet

import "time"

// A Timeline says when each thing happened to a job, by the trainer's clock. Traces show it.
type Timeline struct {
	Offered   time.Time // zero: its result was kept
	Published time.Time // when whatever carries jobs had it
	Leases    []Lease   // in the order of their events
	Done      time.Time
}

// A Lease is a worker at a job.
type Lease struct {
	Worker       string
	Begun, Ended time.Time
	Failed       string // why it came to nothing; "": it did not
}

// published notes that a job was offered, from a time on until now; only the first offer counts.
func (c *Timeline) published(began time.Time) {
	if c.Published.IsZero() {
		c.Offered, c.Published = began, time.Now()
	}
}

// leased notes that a worker has begun.
func (c *Timeline) leased(by string) {
	for _, l := range c.Leases {
		if l.Worker == by && l.Ended.IsZero() {
			return // the worker said so twice
		}
	}
	c.Leases = append(c.Leases, Lease{Worker: by, Begun: time.Now()})
}

// failed notes that a worker's try came to nothing.
func (c *Timeline) failed(by, why string) {
	for i := range c.Leases {
		if l := &c.Leases[i]; l.Worker == by && l.Ended.IsZero() {
			l.Ended, l.Failed = time.Now(), why
		}
	}
}

// done notes whose result counts. The tries of others came to nothing.
func (c *Timeline) done(by string) {
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
