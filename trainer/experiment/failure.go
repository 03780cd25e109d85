package experiment

// Failure is what a run does about samples that a [[reward]] has no score for: a server is gone,
// a program died, an answer is no number. They are missing, and never 0. How often and how long
// one answer is tried for is rewards/call's; this is about what was not answered then.
type Failure struct {
	OnFailure   string  `toml:"on_failure" enum:"skip,wait,stop" doc:"samples that it has no score for: are left out, asked about again, or stop the run"`
	Tries       int     `toml:"tries" range:"[1,100]" doc:"of one answer, before it is missing"`
	MostMissing float64 `toml:"most_missing" range:"[0,1]" doc:"of skip: the share of an iteration's samples that may be missing; beyond it nothing is learned from that iteration"`
	GiveUp      int     `toml:"give_up" range:"[1,1e6]" doc:"such iterations in a row (skip), or rounds of asking again (wait), after which the run is saved and stops"`
	Pause       float64 `toml:"pause" range:"[0,86400]" doc:"of wait: seconds before asking again"`
}

func defaultFailure() Failure {
	return Failure{OnFailure: "skip", Tries: 4, MostMissing: 0.5, GiveUp: 3, Pause: 10}
}
