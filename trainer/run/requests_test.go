package run

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/judges"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
)

// portioned is a model whose portions are chosen, and whose rolls are counted.
type portioned struct {
	*colours
	portion int
	hears   func()
}

func (m *portioned) Portion() int { return m.portion }

func (m *portioned) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	m.hears()
	return m.colours.Roll(w, keys)
}

// tells is a model that tells of groups while it rolls others: the last ones first.
type tells struct {
	*portioned
	rolls *atomic.Int64
}

func (m *tells) RollEach(w trainer.Weights, keys []trainer.Key, each func(first int, samples []trainer.Sample) error) ([]trainer.Sample, error) {
	m.rolls.Add(1)
	all := make([]trainer.Sample, len(keys))
	for to := len(keys); to > 0; {
		from := to - 1
		for from > 0 && keys[from-1].Prompt == keys[from].Prompt {
			from--
		}
		samples, err := m.Roll(w, keys[from:to])
		if err != nil {
			return nil, err
		}
		other, err := m.colours.Roll(w, keys[:to-from]) // a replacement is reported twice
		if err != nil {
			return nil, err
		}
		for _, list := range [][]trainer.Sample{other, samples} {
			if err := each(from, list); err != nil {
				return nil, err
			}
		}
		copy(all[from:], samples)
		to = from
	}
	return all, nil
}

// runPortioned runs three iterations of six groups whose pictures a server judges, and returns the least that one
// waited for scores, in seconds.
func runPortioned(t *testing.T, address, run string, portion int, hears func()) (waited float64) {
	t.Helper()
	return runTold(t, address, run, portion, hears, nil)
}

// runTold is runPortioned, of a model that tells of groups where its rolls are counted.
func runTold(t *testing.T, address, run string, portion int, hears func(), rolls *atomic.Int64) (waited float64) {
	t.Helper()
	m := model.Modality{
		Name:     "colours",
		Prompts:  func(e *experiment.Experiment) ([]prompts.Prompt, error) { return prompts.Open(e.Rollout.Prompts[0]) },
		Ready:    func(context.Context, *experiment.Experiment) (string, error) { return "", nil },
		Possible: func(experiment.Settings) error { return nil },
		Open: func(*experiment.Experiment, model.Options) (model.Model, error) {
			trained, err := newColours(t.TempDir())
			own := &portioned{trained, portion, hears}
			if rolls != nil {
				return &tells{own, rolls}, err
			}
			return own, err
		},
	}
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	e := parse(t, "run.iterations=3", fmt.Sprintf("reward=[{name='http', url=%q}]", address), "evaluate.every=0", "evaluate.prompts=''", "rollout.shared_noise=false",
		"rollout.prompts=embed:scenes", "rollout.prompts_per_iteration=6", "rollout.group=4")
	waited = math.Inf(1)
	result, err := runAs(t.Context(), m, e, Options{Dir: run, Backend: be, Logf: t.Logf, Report: func(_ *ledger.Line, timing *ledger.TimingLine) {
		waited = min(waited, timing.Seconds["score"])
	}})
	if err != nil || result.Status != ledger.Finished {
		t.Fatalf("%+v, %v", result, err)
	}
	return waited
}

// sizes answers a request with the sizes of its pictures, which differ.
func sizes(w http.ResponseWriter, r *http.Request) {
	var q struct{ Items []struct{ Image []byte } }
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var all []string
	for _, item := range q.Items {
		sum := 0
		for _, b := range item.Image {
			sum = (31*sum + int(b)) % 1009
		}
		all = append(all, fmt.Sprint(sum))
	}
	_, _ = io.WriteString(w, `{"scores": [`+strings.Join(all, ",")+`]}`) // who asks tells of a reply that is cut
}

// TestEarly: a group is judged while the next is rolled, and files are the same as where all are rolled first.
func TestEarly(t *testing.T) {
	t.Parallel()
	var overlapped atomic.Int64
	rolls := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select { // the answer waits for the roll of a later group, which the last groups do not see
		case rolls <- struct{}{}:
			overlapped.Add(1)
		case <-time.After(100 * time.Millisecond):
		}
		sizes(w, r)
	}))
	defer server.Close()
	dir, first := t.TempDir(), true
	runPortioned(t, server.URL, filepath.Join(dir, "early"), 4, func() {
		if first {
			first = false
			return
		}
		select { // the roll waits for a request about a group that was rolled before
		case <-rolls:
		case <-time.After(50 * time.Millisecond):
		}
	})
	if overlapped.Load() == 0 {
		t.Error("no group was judged while another was rolled")
	}
	runPortioned(t, server.URL, filepath.Join(dir, "late"), 1000, func() {})
	same(t, "judged early", contents(t, filepath.Join(dir, "late")), contents(t, filepath.Join(dir, "early")))
	overlapped.Store(0)
	first = true
	var whole atomic.Int64
	runTold(t, server.URL, filepath.Join(dir, "told"), 1, func() {
		if first {
			first = false
			return
		}
		select {
		case <-rolls:
		case <-time.After(50 * time.Millisecond):
		}
	}, &whole)
	same(t, "judged as the model told", contents(t, filepath.Join(dir, "late")), contents(t, filepath.Join(dir, "told")))
	if overlapped.Load() == 0 || whole.Load() != 3 {
		t.Errorf("%d groups were judged while another was rolled; three iterations were rolled in %d pieces", overlapped.Load(), whole.Load())
	}
}

// TestSlowServer: six groups at a server that takes half a second for each cost little more than half a second.
func TestSlowServer(t *testing.T) {
	if testing.Short() {
		t.Skip("a server that sleeps: seconds; left out by -short")
	}
	t.Parallel()
	var mu sync.Mutex
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		calls++
		mu.Unlock()
		time.Sleep(500 * time.Millisecond)
		sizes(w, r)
	}))
	defer server.Close()
	best := runPortioned(t, server.URL, filepath.Join(t.TempDir(), "run"), 1000, func() {})
	if calls != 18 || best > 0.7 {
		t.Errorf("%d calls; the fastest iteration waited %.2f s for six groups", calls, best)
	}
	t.Logf("the fastest of three iterations waited %.2f s for six groups", best)
}

// drawn is a model that sees whether something else may compute while it makes pictures.
type drawn struct {
	model.Model
	free func() bool
	seen bool
}

func (m *drawn) Items([]trainer.Sample) ([]rewards.Item, error) {
	m.seen = m.free()
	return nil, nil
}

// TestDevelopedAlone: pictures are made while no network, which a worker left to this process, computes on the device.
func TestDevelopedAlone(t *testing.T) {
	var device sync.Mutex
	m := &drawn{free: device.TryLock}
	r := &rollout{scorer: scorer{model: m, rewards: &rewardSet{}}, device: &device, clock: &clock{}, sent: newRequests(t.Context())}
	if err := r.requestAlone(0, nil); err != nil || m.seen || !device.TryLock() {
		t.Errorf("the device is free meanwhile: %v; %v", m.seen, err)
	}
}

// TestNetworkLost: a device that fails in a goroutine that judges ends the run, and not the program.
func TestNetworkLost(t *testing.T) {
	r := &reward{name: "net", there: func() bool { return true }}
	r.Opened = r.Through(func(context.Context, []rewards.Item, rewards.Judge) []rewards.Result { panic(noMemory{}) })
	item := func(int) rewards.Item { return rewards.Item{} }
	a := newRequests(t.Context())
	a.send(r, item, [][]int{{0}})
	var err error
	func() {
		defer kernels.Recover(&err)
		a.answer(r, item, []int{0})
	}()
	if err != (noMemory{}) {
		t.Error(err)
	}
	a.close()
}

// TestSpreadNetworks: a reward that is a network judges groups on all devices of a run, and gives the scores of one.
func TestSpreadNetworks(t *testing.T) {
	list := parse(t, "reward=[{name='jpeg'}, {name='aesthetic', path='"+experiment.TinyCLIP+"'}]").Rewards
	groups, r := [][]int{{0, 1}, {2}, {3, 4, 5}, {6}}, rand.New(rand.NewPCG(4, 1))
	items := make([]rewards.Item, 7)
	for i := range items {
		items[i] = rewards.Item{Image: vision.New(32, 32)}
		for k := range items[i].Image.Pix {
			items[i].Image.Pix[k] = byte(r.Uint32())
		}
	}
	item := func(i int) rewards.Item { return items[i] }
	var want []rewards.Result
	for _, devices := range []int{1, 2, 3} {
		var on []kernels.Backend
		for range devices {
			be := fastest(t, 1)
			defer be.Close()
			on = append(on, be)
		}
		s := rewardSet{failures: map[string]int{}, ctx: t.Context(), say: t.Logf}
		if err := s.open(list, on...); err != nil {
			t.Fatal(err)
		}
		if len(s.all[0].copies) != 0 || len(s.all[1].copies) != devices-1 {
			t.Fatalf("%d copies of a reward without a network, and %d of one with", len(s.all[0].copies), len(s.all[1].copies))
		}
		asked := make([]atomic.Int32, devices)
		counts := func(o judges.Opened, device int) judges.Opened {
			return o.Through(func(ctx context.Context, items []rewards.Item, own rewards.Judge) []rewards.Result {
				asked[device].Add(1)
				return own.Judge(ctx, items)
			})
		}
		s.all[1].Opened = counts(s.all[1].Opened, 0)
		for i, o := range s.all[1].copies {
			s.all[1].copies[i] = counts(o, i+1)
		}
		sent := newRequests(t.Context())
		got, err := s.answers(sent, &s.all[1], item, groups, len(items))
		sent.close()
		if err != nil {
			t.Fatal(err)
		}
		for i := range asked {
			if n := int(asked[i].Load()); n != (len(groups)+devices-1-i)/devices {
				t.Errorf("of %d devices number %d judged %d groups", devices, i, n)
			}
		}
		if want == nil {
			want = got
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%d devices: %v, want %v", devices, got, want)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}
