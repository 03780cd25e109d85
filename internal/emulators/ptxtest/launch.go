package ptxtest

import "fmt"

// A launch is a kernel's start.
type launch struct {
	p       *program
	grid    [2]int
	threads int
	shared  int
	args    []byte
}

func (in *instruction) at() string { return fmt.Sprintf("line %d (%s)", in.line, in.op) }

// run runs a launch's blocks one after another.
func (g *deviceMemory) run(l launch) (err error) {
	order := arrangement(l.p.launches % int(arrangements))
	l.p.launches++
	b := &block{p: l.p, global: g, launched: g.era + 1, args: l.args, shared: make([]byte, l.shared), threads: l.threads,
		grid: l.grid}
	for i := range (l.threads + lanes - 1) / lanes {
		b.warps = append(b.warps, newWarp(l.p, b, i))
	}
	defer func() {
		switch f := recover().(type) {
		case nil:
		case fault:
			err = b.explain(f)
		default:
			panic(f)
		}
	}()
	for b.y = range l.grid[1] {
		for b.x = range l.grid[0] {
			unset(b.shared)
			b.run(order)
		}
	}
	return nil
}

// explain says where a launch ended.
func (b *block) explain(f fault) error {
	where := fmt.Sprintf("%s, block %d,%d", b.p.name, b.x, b.y)
	if b.running != nil {
		where += fmt.Sprintf(", warp %d", b.running.id)
	}
	if f.lane >= 0 {
		where += fmt.Sprintf(", lane %d", f.lane)
	}
	if b.running != nil && b.place != nil {
		where += ", " + b.place.at()
	}
	return fmt.Errorf("%s: %s", where, f.text)
}
