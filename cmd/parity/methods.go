package main

import "github.com/darkroom-rl/darkroom/trainer/advantage"

// Methods whose cases are made by testdata/oracle/methods.py.

var methodOps = map[string]Op{
	"methods.adv_bnpo":   methodAdvantages,
	"methods.adv_maxatk": methodAdvantages,
}

func methodAdvantages(c *Case) error {
	e := advantage.Estimator{Rule: "beta", Options: advantage.Options{Scale: "none"}}
	if c.Op == "methods.adv_maxatk" {
		e.Rule, e.K = "max-at-k", int(c.Float("k"))
	} else {
		e.Range = [2]float64{c.Float("low"), c.Float("high")}
	}
	a, _, err := e.Advantages(advantage.Batch{Groups: c.Ints("group"), Rewards: [][]float64{c.Floats("rewards")}})
	c.Put("advantages", a)
	return err
}
