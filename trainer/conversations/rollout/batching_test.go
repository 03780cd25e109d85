package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/sampling"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/tools/program"
)

// TestBatchingChangesNoBit: however many episodes are under way at once, each is the same, to
// the last bit of its log-probabilities, and so are its pictures. They end at different times.
func TestBatchingChangesNoBit(t *testing.T) {
	p := policy(t, false, ".*")
	all := append(keys(0), keys(1)[2:7]...)
	play := func(parallel, abreast int, repetition float64) []trainer.Sample {
		p.Parallel, p.PrefillTokens, p.Sampling.Repetition = parallel, abreast, repetition
		var done []int
		p.Progress = func(n, of int) {
			if of != len(all) {
				t.Errorf("a roll of %d says that it is of %d", len(all), of)
			}
			done = append(done, n)
		}
		samples := rolled(t, p, all)
		for i, n := range done {
			if n != i+1 {
				t.Fatalf("the roll said that it was so far: %v", done)
			}
		}
		if len(done) != len(all) {
			t.Errorf("the roll said %d times how far it was, for %d episodes", len(done), len(all))
		}
		return samples
	}
	for repetition, hows := range map[float64][][2]int{1: {{3, 0}, {8, 0}, {8, 1}, {100, 60}}, 1.3: {{4, 0}}} {
		want := play(1, 0, repetition)
		lengths := map[int]bool{}
		for _, s := range want {
			lengths[len(s.Decisions.Step)] = true
		}
		if len(lengths) < 4 {
			t.Fatalf("episodes have lengths %v: too alike to end at different times", lengths)
		}
		for _, how := range hows {
			sameSamples(t, fmt.Sprintf("%d under way, %d tokens read together", how[0], how[1]), want, play(how[0], how[1], repetition))
		}
	}
	sameSamples(t, "as many under way as nobody said", play(3, 0, 1), play(0, 0, 1))
}

// sameSamples fails where samples differ in anything, pictures included.
func sameSamples(t *testing.T, what string, want, have []trainer.Sample) {
	t.Helper()
	if len(want) != len(have) {
		t.Fatalf("%s: %d samples, not %d", what, len(have), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(want[i], have[i]) {
			t.Errorf("%s: sample %d differs:\n%+v\n%+v", what, i, rollout.EpisodeOf(have[i]).Transcript, rollout.EpisodeOf(want[i]).Transcript)
		}
	}
}

// calm fails where goroutines are left that were not there before.
func calm(t *testing.T, before int) {
	t.Helper()
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("there were %d goroutines, and now there are %d", before, runtime.NumGoroutine())
}

// TestBatchingErrors: the error is that of the first key that has one, however many are under way,
// though another was seen earlier; nobody is left behind.
func TestBatchingErrors(t *testing.T) {
	p := policy(t, false, ".*")
	asked, crop := p.Prompts, p.Protocol.Tools[0].Plan
	for name, break_ := range map[string]func(){
		"a prompt": func() {
			p.Prompts = func(n int) (chat.Prompt, error) {
				if n == 1 {
					return chat.Prompt{}, errors.New("no such prompt")
				}
				return asked(n)
			}
		},
		"a picture": func() { // that cannot be made: of most episodes, in some turn
			p.Protocol.Tools[0].Plan = func(s *tools.State, args any) (tools.Plan, error) {
				if len(args.(string))%3 == 0 {
					return tools.Plan{Ops: []tools.Op{{Kind: "impossible", Picture: len(args.(string))}}}, nil
				}
				return crop(s, args)
			}
		},
		"every draw": func() { p.VLM.Banned = []int{-1} },
	} {
		banned := p.VLM.Banned
		break_()
		said := map[string]bool{}
		for _, parallel := range []int{1, 3, 8} {
			before := runtime.NumGoroutine()
			p.Parallel = parallel
			_, err := p.Roll(trainer.Current, keys(0))
			if err == nil {
				t.Fatalf("%s: no error", name)
			}
			said[err.Error()] = true
			calm(t, before)
		}
		if len(said) != 1 {
			t.Errorf("%s: which error depends on how many are under way: %v", name, said)
		}
		p.Prompts, p.Protocol.Tools[0].Plan, p.VLM.Banned = asked, crop, banned
	}
	if _, err := p.Roll(trainer.Current, nil); err != nil {
		t.Errorf("nothing to play: %v", err)
	}
}

// TestBatchingCancelled: a roll that is cancelled ends soon, and leaves nobody waiting.
func TestBatchingCancelled(t *testing.T) {
	p := policy(t, false, ".*")
	for _, parallel := range []int{1, 3, 8} {
		for _, after := range []int{0, 2} {
			t.Run(fmt.Sprint(parallel, " under way, ", after, " done"), func(t *testing.T) {
				before := runtime.NumGoroutine()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				p.Parallel, p.Context = parallel, ctx
				p.Progress = func(done, _ int) {
					if done == after {
						cancel()
					}
				}
				if after == 0 { // in the middle of the first
					plan := p.Protocol.Tools[0].Plan
					defer func() { p.Protocol.Tools[0].Plan = plan }()
					p.Protocol.Tools[0].Plan = func(s *tools.State, args any) (tools.Plan, error) {
						cancel()
						return plan(s, args)
					}
				}
				if _, err := p.Roll(trainer.Current, slices.Concat(keys(0), keys(1))); !errors.Is(err, context.Canceled) {
					t.Errorf("it ended with %v", err)
				}
				calm(t, before)
			})
		}
	}
}

// BenchmarkRoll: tokens a second of a model with 64 MB of weights, one episode after another and
// eight at once.
func BenchmarkRoll(b *testing.B) {
	p := sized(b, 768, 6, true)
	p.TurnTokens, p.VLM.Banned = 120, append(p.VLM.Banned, int(p.VLM.End))
	for _, parallel := range []int{1, 4, 8} {
		b.Run(fmt.Sprint(parallel), func(b *testing.B) {
			p.Parallel = parallel
			tokens := 0
			for b.Loop() {
				samples, err := p.Roll(trainer.Current, keys(0))
				if err != nil {
					b.Fatal(err)
				}
				for _, s := range samples {
					tokens += len(s.Decisions.Step)
				}
			}
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// TestProtocolsTogether: prompts of one roll that are asked by protocols of their own are played by these, beside each
// other, and are the episodes that they are alone.
func TestProtocolsTogether(t *testing.T) {
	p := policy(t, true)
	plain := p.Prompts
	own := &experiment.Episode{}
	own.SetDefaults()
	own.Protocol = "vrag"
	p.Prompts = func(n int) (chat.Prompt, error) {
		q, err := plain(n)
		if n == 1 {
			q.Episode = own
		}
		return q, err
	}
	of := keys(0)
	together, err := p.Roll(trainer.Current, of)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range together {
		want := []string{"darkroom", "vrag"}[of[i].Prompt]
		if e := rollout.EpisodeOf(s); e.Protocol != want || (len(e.Album.Pictures) > 1) != (want == "darkroom") {
			t.Errorf("sample %d is played by %s, with %d pictures; %s was asked for", i, e.Protocol, len(e.Album.Pictures), want)
		}
		alone, err := p.Roll(trainer.Current, of[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		if a, b := rollout.EpisodeOf(alone[0]), rollout.EpisodeOf(s); !slices.Equal(a.Tokens, b.Tokens) {
			t.Errorf("sample %d has other tokens alone", i)
		}
	}
}

// TestSlowTool: an episode whose tool is slow holds no other one up, and all have the bytes that they have with quick
// tools. The first call of the roll is answered when all other episodes have ended.
func TestSlowTool(t *testing.T) {
	p := policy(t, false, ".*")
	p.Parallel = 4
	all := keys(0)[:4]
	want := rolled(t, p, all)
	others := make(chan struct{})
	p.Progress = func(done, of int) {
		if done == of-1 {
			close(others)
		}
	}
	var calls atomic.Int32
	crop := p.Protocol.Tools[0].Plan
	p.Protocol.Tools[0].Plan = func(s *tools.State, args any) (tools.Plan, error) {
		if calls.Add(1) == 1 {
			select {
			case <-others:
			case <-time.After(20 * time.Second):
				t.Error("three episodes wait for the tool of a fourth")
			}
		}
		return crop(s, args)
	}
	sameSamples(t, "with a slow tool", want, rolled(t, p, all))
}

// TestSpareRows: while the tools of all episodes under way are slow, others take spare rows, and all have the bytes
// that they have with quick tools. The first calls are answered when all other episodes have ended.
func TestSpareRows(t *testing.T) {
	p := policy(t, false, ".*")
	p.Parallel, p.Spare = 2, 2
	all := keys(0)
	want := rolled(t, p, all)
	others := make(chan struct{})
	p.Progress = func(done, of int) {
		if done == of-2 {
			close(others)
		}
	}
	var calls atomic.Int32
	crop := p.Protocol.Tools[0].Plan
	p.Protocol.Tools[0].Plan = func(s *tools.State, args any) (tools.Plan, error) {
		if calls.Add(1) <= 2 {
			select {
			case <-others:
			case <-time.After(20 * time.Second):
				t.Error("two episodes with slow tools keep the others from beginning")
			}
		}
		return crop(s, args)
	}
	sameSamples(t, "beside two slow tools", want, rolled(t, p, all))
}

// BenchmarkSlowTools: a roll without waiting, and with a tool that sleeps 5 s for a fifth of the episodes, with as many
// spare rows as are under way and with those that memory has: go test -bench SlowTools -benchtime 1x.
func BenchmarkSlowTools(b *testing.B) {
	const asleep = 5 * time.Second
	p := policy(b, false, ".*")
	p.Limits.Tokens = 1024 // more than any episode has
	var all []trainer.Key
	for i := range 480 {
		all = append(all, keys(i)...)
	}
	crop := p.Protocol.Tools[0].Plan
	for _, slow := range []bool{false, true} {
		for _, spare := range []int{p.AtOnce(), p.RowsToSpare()} {
			b.Run(fmt.Sprintf("%d episodes, slow %v, %d spare", len(all), slow, spare), func(b *testing.B) {
				p.Spare = spare
				var calls, slept atomic.Int32
				p.Protocol.Tools[0].Plan = func(s *tools.State, args any) (tools.Plan, error) {
					if calls.Add(1)%3 == 0 && slow && int(slept.Add(1)) <= len(all)/5 {
						time.Sleep(asleep)
					}
					return crop(s, args)
				}
				for b.Loop() {
					calls.Store(0)
					slept.Store(0)
					if _, err := p.Roll(trainer.Current, all); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(calls.Load()), "calls")
				b.ReportMetric(float64(min(int(slept.Load()), len(all)/5)), "slow")
			})
		}
	}
}

// TestAtOnce: how many episodes are under way follows from the device, unless somebody says it.
func TestAtOnce(t *testing.T) {
	p := policy(t, false, ".*")
	if n := p.AtOnce(); n != 8 {
		t.Errorf("%d on a CPU", n)
	}
	token := p.VLM.Model.Text.RowBytes(2, p.VLM.Arithmetic(false).DType) / 3 // 1.5 times two of them
	for tokens, want := range map[int]int{100: 248, 1 << 28 / token * 2 / 3 / 20: 20, 1 << 28 / token: 8} {
		if p.Limits.Tokens = tokens; p.RowsToSpare() != want {
			t.Errorf("%d spare rows of %d tokens, not %d", p.RowsToSpare(), tokens, want)
		}
	}
	p.VLM.Options.Pool = tensor.NewPool(card{ref.Backend{}})
	if n := p.AtOnce(); n != 32 {
		t.Errorf("%d on a graphics card", n)
	}
	if p.Parallel = 3; p.AtOnce() != 3 {
		t.Errorf("%d where 3 are asked for", p.AtOnce())
	}
}

// card has the name of a graphics card.
type card struct{ ref.Backend }

func (card) Name() string { return "cuda:0/exact" }

// TestTellsGroups: each is called for a group when its last episode ends, while those of other groups are under way,
// and its error ends the roll.
func TestTellsGroups(t *testing.T) {
	p := policy(t, false, ".*")
	p.Parallel = 3
	all := append(keys(0), keys(1)...)
	done, told := 0, map[int]int{} // how many episodes had ended, by the group's first
	p.Progress = func(n, _ int) { done = n }
	samples, err := p.RollEach(trainer.Current, all, func(first int, of []trainer.Sample) error {
		for i, s := range of {
			if s.Key != all[first+i] || rollout.EpisodeOf(s) == nil {
				t.Errorf("sample %d is %+v", first+i, s.Key)
			}
		}
		told[first] = done
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var firsts, times []int
	for i, k := range all {
		if i == 0 || all[i-1].Prompt != k.Prompt {
			firsts, times = append(firsts, i), append(times, told[i])
		}
	}
	if len(firsts) < 2 || len(told) != len(firsts) || times[0] > len(all)/2 || slices.Max(times) != len(all)-1 {
		t.Errorf("groups were told of after so many of %d episodes: %v", len(all), told)
	}
	p.Progress = nil
	sameSamples(t, "told of", rolled(t, p, all), samples)
	broken := errors.New("it cannot be judged")
	if _, err := p.RollEach(trainer.Current, all, func(int, []trainer.Sample) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestArithmetics: in float64 on the host episodes have the same tokens as on the device, and nearly the same numbers.
func TestArithmetics(t *testing.T) {
	p := policy(t, false, ".*")
	for name, change := range map[string]func(*sampling.Options){
		"plain": func(*sampling.Options) {}, "top_p": func(o *sampling.Options) { o.TopP = 0.9 }, "top_k, seen": func(o *sampling.Options) { o.TopK, o.Repetition = 30, 1.3 },
		"min_p": func(o *sampling.Options) { o.MinP = 0.3 },
	} {
		p.Sampling = sampling.Options{Temperature: 4, TopP: 1, Repetition: 1}
		change(&p.Sampling)
		play := func(arithmetic string) []trainer.Sample {
			p.Sampling.Arithmetic = arithmetic
			return rolled(t, p, keys(3))
		}
		host, device := play(sampling.Float64), play(sampling.Float32)
		for i := range host {
			a, b := rollout.EpisodeOf(host[i]), rollout.EpisodeOf(device[i])
			if !slices.Equal(a.Tokens, b.Tokens) || math.Abs(a.Entropy-b.Entropy) > 1e-5*float64(len(a.Tokens)) {
				t.Errorf("%s: sample %d: %v with entropy %g on the host, %v with %g on the device", name, i, a.Tokens, a.Entropy, b.Tokens, b.Entropy)
				continue
			}
			for at, l := range a.LogProb {
				if math.Abs(l-b.LogProb[at]) > 1e-5 || a.ModelLogProb[at] != b.ModelLogProb[at] {
					t.Fatalf("%s: sample %d, token %d: %g and %g on the host, %g and %g on the device", name, i, at, l, a.ModelLogProb[at], b.LogProb[at], b.ModelLogProb[at])
				}
			}
		}
	}
}

// narrow is a device of few bytes.
type narrow struct {
	kernels.Backend
	now, most int
}

// full is its failure.
type full struct{}

func (full) Error() string     { return "no memory is left" }
func (full) OnDevice() string  { return "narrow" }
func (full) MemoryIsOut() bool { return true }

func (n *narrow) Alloc(bytes int) *kernels.Buffer {
	if n.most > 0 && n.now+bytes > n.most {
		panic(full{})
	}
	n.now += bytes
	return n.Backend.Alloc(bytes)
}

func (n *narrow) Free(b *kernels.Buffer) {
	n.now -= b.Bytes
	n.Backend.Free(b)
}

// TestMemoryRunsOut: where memory runs out in a roll, fewer episodes are under way at once, those that have ended stay,
// and all have the same bytes. Where one alone has too little, the roll ends. Nobody is left waiting.
func TestMemoryRunsOut(t *testing.T) {
	p := policy(t, false, ".*")
	device := &narrow{Backend: p.VLM.Options.Pool.Backend()}
	p.VLM.Options.Pool = tensor.NewPool(device)
	var said []string
	p.Logf = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	all := append(keys(0), keys(1)...)
	told := map[int]int{}
	roll := func(parallel, most int) ([]trainer.Sample, error) {
		p.VLM.Options.Pool.Trim()
		p.Parallel, p.PrefillTokens, device.most, said = parallel, 0, most, nil
		clear(told)
		return p.RollEach(trainer.Current, all, func(first int, _ []trainer.Sample) error {
			told[first]++
			return nil
		})
	}
	lent := func(parallel int) (samples []trainer.Sample, most int) {
		p.VLM.Options.Pool.ResetPeak()
		samples, err := roll(parallel, 0)
		if err != nil {
			t.Fatal(err)
		}
		return samples, p.VLM.Options.Pool.Stats().Peak
	}
	want, wide := lent(8)
	_, least := lent(1)
	for _, part := range []int{10, 50, 80} {
		before := runtime.NumGoroutine()
		samples, err := roll(8, least+(wide-least)*part/100)
		if err != nil || len(said) == 0 || !strings.Contains(said[0], "memory ran out in a pass: 4 episodes at once from now on") {
			t.Fatalf("%d %% of the memory of seven of eight episodes: %q, %v", part, said, err)
		}
		sameSamples(t, fmt.Sprintf("%d %% of the memory of seven of eight episodes", part), want, samples)
		for first, times := range told {
			if times != 1 {
				t.Errorf("the group of sample %d was told of %d times", first, times)
			}
		}
		calm(t, before)
	}
	before := runtime.NumGoroutine()
	if _, err := roll(8, least/2); !errors.Is(err, full{}) {
		t.Errorf("half of one episode's memory: %v", err)
	}
	calm(t, before)
	sameSamples(t, "with all memory again", want, func() []trainer.Sample { s, _ := roll(8, 0); return s }())
	p.VLM.Options.Pool.Trim()
	if device.now != 0 {
		t.Errorf("%d bytes are left", device.now)
	}
}

// blocked is a tool whose first calls wait until they are released.
func blocked(t *testing.T, p *rollout.Policy, first int32) (release func()) {
	crop, open := p.Protocol.Tools[0].Plan, make(chan struct{})
	t.Cleanup(func() { p.Protocol.Tools[0].Plan = crop })
	var calls atomic.Int32
	p.Protocol.Tools[0].Plan = func(s *tools.State, args any) (tools.Plan, error) {
		if calls.Add(1) <= first {
			select {
			case <-open:
			case <-time.After(20 * time.Second):
				t.Error("nobody released a call")
			}
		}
		return crop(s, args)
	}
	return func() { close(open) }
}

// TestMemoryRunsOutLate: where few episodes are left, later rolls have half of the rows that were too many. A second
// failure changes this roll alone.
func TestMemoryRunsOutLate(t *testing.T) {
	p := policy(t, false, ".*")
	all := keys(0)
	p.Parallel = len(all)
	want := rolled(t, p, all)
	var said []string
	p.Logf = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	release, fails := blocked(t, p, 2), 2
	p.Progress = func(done, of int) {
		if fails > 0 && done == of-fails {
			release()
			if fails--; fails == 1 {
				release = blocked(t, p, 1)
			}
			panic(full{})
		}
	}
	sameSamples(t, "after two failures", want, rolled(t, p, all))
	half := len(all) / 2
	if len(said) != 2 || !strings.Contains(said[0], fmt.Sprintf("%d episodes at once from now on", half)) || !strings.Contains(said[1], "one episode at once in this roll") || p.Parallel != half {
		t.Errorf("%d at once from now on: %q", p.Parallel, said)
	}
}

// TestMemoryRunsOutOfSpareRows: rows for the time of slow tools are given up before any others.
func TestMemoryRunsOutOfSpareRows(t *testing.T) {
	p := policy(t, false, ".*")
	all := keys(0)
	want := rolled(t, p, all)
	p.Parallel, p.Spare = 2, 20
	fails := true
	p.Progress = func(done, _ int) {
		if fails && done == 1 {
			fails = false
			panic(full{})
		}
	}
	sameSamples(t, "after a failure", want, rolled(t, p, all))
	if fails || p.Parallel != 2 || p.Spare != 0 {
		t.Errorf("failed %t; %d at once and %d spare rows from now on", !fails, p.Parallel, p.Spare)
	}
}

// TestMemoryRunsOutInGroups: a group whose report fails for memory is reported again, the last one too.
func TestMemoryRunsOutInGroups(t *testing.T) {
	p := policy(t, false, ".*")
	all := append(keys(0)[:4], keys(1)[:4]...)
	want := rolled(t, p, all)
	told, failed := map[int]int{}, map[int]bool{}
	samples, err := p.RollEach(trainer.Current, all, func(first int, _ []trainer.Sample) error {
		if !failed[first] {
			failed[first] = true
			panic(full{})
		}
		told[first]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sameSamples(t, "after failures in reports", want, samples)
	for first := range failed {
		if told[first] != 1 {
			t.Errorf("groups were told of %v times", told)
		}
	}
}

// TestMemoryRunsOutAfterError: the first key's error is the roll's, though memory ran out after another was seen.
func TestMemoryRunsOutAfterError(t *testing.T) {
	p := policy(t, false, ".*")
	asked := p.Prompts
	p.Prompts = func(n int) (chat.Prompt, error) {
		if n == 1 {
			return chat.Prompt{}, errors.New("no such prompt")
		}
		return asked(n)
	}
	all := []trainer.Key{{Prompt: 0}, {Prompt: 0, Sample: 1}, {Prompt: 1}}
	release := blocked(t, p, 1)
	p.Progress = func(int, int) {
		release()
		p.Protocol.Tools[0].Plan = func(*tools.State, any) (tools.Plan, error) {
			return tools.Plan{Ops: []tools.Op{{Kind: "impossible"}}}, nil
		}
		panic(full{})
	}
	if _, err := p.Roll(trainer.Current, all); err == nil || !strings.Contains(err.Error(), "of prompt 0: ") {
		t.Errorf("the error is %v", err)
	}
}

// TestMemoryRunsOutBesideTool: where memory runs out, nobody waits for a tool, and its episode begins again.
func TestMemoryRunsOutBesideTool(t *testing.T) {
	p := policy(t, false, ".*")
	p.Protocol = tools.PyVision(0.1)
	p.Protocol.Read = func(text string) tools.Reading {
		return tools.Reading{Calls: []tools.Call{{Name: "python", Args: text}}}
	}
	p.Exec = &program.Options{}
	p.Exec.SetDefaults()
	p.Exec.Command = []string{"/bin/sh", "-c", counting}
	all := keys(0)[:2]
	want := rolled(t, p, all)
	asleep := fmt.Sprintf("[ $n = 2 ] && mkdir '%s/first' 2>/dev/null && exec sleep 30; echo", t.TempDir())
	p.Exec.Command[2] = strings.Replace(counting, "echo", asleep, 1)
	p.Exec.Timeout = 30
	failed := false
	p.Progress = func(int, int) {
		if !failed {
			failed = true
			panic(full{})
		}
	}
	begun := time.Now()
	have := rolled(t, p, all)
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("a roll waits %v for a tool", took)
	}
	for i := range want {
		if !slices.Equal(rollout.EpisodeOf(have[i]).Tokens, rollout.EpisodeOf(want[i]).Tokens) {
			t.Errorf("sample %d differs", i)
		}
	}
}

// TestMemoryRunsOutAtEnd: an episode that has ended when memory runs out is not played again. Two equal ones end
// together.
func TestMemoryRunsOutAtEnd(t *testing.T) {
	p := policy(t, false, ".*")
	again := true
	p.Logf = func(string, ...any) { again = true }
	for try := 0; again && try < 20; try++ {
		again = false
		p.Parallel = 2
		p.Progress = func(done, _ int) {
			if done == 1 {
				time.Sleep(10 * time.Millisecond)
				panic(full{})
			}
		}
		same := rolled(t, p, []trainer.Key{{}, {}})
		sameSamples(t, "its twin", same[:1], same[1:])
	}
	if again {
		t.Error("an episode that has ended is always played again")
	}
}
