package pictures

import (
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// An iteration that computes nothing, phase by phase, for what it holds at most.

// iterate makes one iteration, of as many samples as go through the network at once.
func (c *counting) iterate(turn experiment.Turn) error {
	if err := c.begin(turn); err != nil {
		return err
	}
	keys := make([]trainer.Key, min(c.samples(), max(1, c.perPass(&c.Form), (1<<18)/c.At.Pixels())))
	prompts, err := c.sources.heaviest(len(c.asked.Train))
	if err != nil {
		return err
	}
	for i := range keys { // others than those of its group, as in an iteration
		keys[i] = trainer.Key{Prompt: prompts[i/c.turn.Rollout.Group%len(prompts)], Sample: i}
	}
	c.part() // of what another fit left
	samples, err := c.Policy.Roll(trainer.Current, keys)
	if err != nil {
		return err
	}
	c.phase(&c.need.Sampling)
	if _, err := c.Items(samples); err != nil {
		return err
	}
	c.phase(&c.need.Decoding)
	points := make([]trainer.Point, len(samples))
	for i, s := range samples {
		points[i] = trainer.Point{Key: s.Key, State: s.Item.Final, Time: c.turn.Schedule.Timesteps[0]}
	}
	c.part()
	if c.turn.MeasuresFloor() && c.e.Model.Precision == "bf16" {
		some := points[:min(len(points), mostChecked)]
		if err := c.inF32(func(p *Policy) error {
			return c.each(some, func() error { _, err := p.Eval(trainer.Current, some); return err })
		}); err != nil {
			return err
		}
		c.phase(&c.need.Check)
	}
	// A pass begins beside the gradients of the one before it, and after an update beside the optimiser's state.
	for range 2 {
		for range 2 {
			if err := c.train(points); err != nil {
				return err
			}
		}
		c.Params().Move(1, 0)
	}
	c.phase(&c.need.Training)
	return nil
}

// train is a pass forward and backward of each network: gradients of one lie there while another has its turn.
func (c *counting) train(points []trainer.Point) error {
	return c.each(points, func() error {
		answers, err := c.Eval(trainer.Current, points)
		if err == nil {
			err = answers.Back(answers.Outputs)
		}
		return err
	})
}

// each gives points a time of each network that is trained, one after the other.
func (c *counting) each(points []trainer.Point, ask func() error) error {
	for _, time := range c.timesOf(c.turn) {
		for i := range points {
			points[i].Time = time
		}
		if err := ask(); err != nil {
			return err
		}
	}
	return nil
}
