package track

// An Entry is a run's numbers at one moment: at a line of its ledger, or before the first.
type Entry struct {
	Order     int     // counted from 0, and never falls
	Iteration int     // 0: before the first; it falls where a rollback goes back
	Time      float64 // seconds since 1970; since the run began where timing.jsonl does not say
	// Restart is the first iteration that is made again: those from it on do not count any more. 0: none.
	Restart    int
	Scalars    []Scalar
	Histograms []Histogram
	Pictures   []Picture
	Texts      []Text
	Alerts     []Alert
}

// Scalar is a number.
type Scalar struct {
	Name  string
	Value float64
}

// Picture is a PNG file.
type Picture struct {
	Name, Caption string
	Width, Height int
	PNG           []byte
}

// Text is a sample in words.
type Text struct{ Name, Value string }

// Alert is a monitor that fired, or a rollback.
type Alert struct{ Title, Text string }

// Run holds the data common to all entries.
type Run struct {
	Project, Name, ID string
	Began             float64 // as Entry.Time
	Config            []Setting
}

// Setting is a key of the experiment with its value: a number, a text, a bool, or the JSON of others.
type Setting struct {
	Key   string
	Value any
}
