package run

import "time"

// A Part is a part of an iteration: roll, score, train or evaluate. Some come several times.
type Part struct {
	Name         string
	Began, Ended time.Time
}

// part measures one until what it returns is called.
func (t *training) part(name string) (done func()) {
	began := time.Now()
	return func() { t.took(name, began) }
}

// took adds to what a part has taken.
func (t *training) took(name string, began time.Time) {
	if t.now.seconds == nil { // before the first iteration
		return
	}
	p := Part{name, began, time.Now()}
	t.now.seconds[name] += p.Ended.Sub(began).Seconds()
	t.now.busy = p.Ended
	if t.Part != nil {
		t.Part(p)
	}
}
