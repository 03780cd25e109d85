package judges

import (
	"context"

	"github.com/darkroom-rl/darkroom/rewards"
)

// Through is the reward asked by somebody else, who may ask it itself.
func (o Opened) Through(ask func(ctx context.Context, items []rewards.Item, own rewards.Judge) []rewards.Result) Opened {
	o.judge = through{o.judge, ask}
	return o
}

type through struct {
	own rewards.Judge
	ask func(ctx context.Context, items []rewards.Item, own rewards.Judge) []rewards.Result
}

func (t through) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return t.ask(ctx, items, t.own)
}
