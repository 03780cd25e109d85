package rewards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func meta(t *testing.T, text string) Meta {
	t.Helper()
	var m Meta
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// An item without a score is missing with its reason, and others keep theirs.
func TestEach(t *testing.T) {
	bad := errors.New("the lamp is out")
	r := Func(func(_ context.Context, item Item) (Score, error) {
		switch item.Prompt {
		case "nan":
			return Score{Value: math.NaN()}, nil
		case "inf":
			return Score{Value: math.Inf(1)}, nil
		case "bad":
			return Score{}, bad
		}
		return Score{Value: 0.5}, nil
	})
	items := []Item{{Prompt: "good"}, {Prompt: "nan"}, {Prompt: "bad"}, {Prompt: "inf"}, {Prompt: "good"}}
	for _, atOnce := range []int{0, 1, 3, 100} {
		got := Each(r, atOnce).Judge(t.Context(), items)
		v := Values(got)
		if v[0] != 0.5 || v[4] != 0.5 || !math.IsNaN(v[1]) || !math.IsNaN(v[2]) || !math.IsNaN(v[3]) {
			t.Errorf("%d at once: %v", atOnce, v)
		}
		if !errors.Is(got[2].Missing, bad) || !errors.Is(got[1].Missing, errNotFinite) || !errors.Is(got[3].Missing, errNotFinite) {
			t.Errorf("reasons: %v, %v, %v", got[1].Missing, got[2].Missing, got[3].Missing)
		}
	}
}

func TestEachStopsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	asked := 0
	r := Func(func(context.Context, Item) (Score, error) {
		asked++
		stop()
		return Score{Value: 1}, nil
	})
	got := Each(r, 1).Judge(ctx, make([]Item, 5))
	if asked > 2 || got[0].Missing != nil || !errors.Is(got[4].Missing, context.Canceled) {
		t.Errorf("%d were judged, the last is %v", asked, got[4].Missing)
	}
}

// Items are judged beside each other.
func TestEachIsConcurrent(t *testing.T) {
	meet := make(chan bool)
	r := Func(func(context.Context, Item) (Score, error) {
		select {
		case meet <- true:
		case <-meet:
		case <-time.After(10 * time.Second):
			return Score{}, errors.New("alone")
		}
		return Score{}, nil
	})
	for _, result := range Each(r, 2).Judge(t.Context(), make([]Item, 2)) {
		if result.Missing != nil {
			t.Error(result.Missing)
		}
	}
}

func TestMeta(t *testing.T) {
	m := meta(t, `{"answer": "four", "also": ["4", "IV"], "count": 4}`)
	if s, err := m.Text("answer"); s != "four" || err != nil {
		t.Error(s, err)
	}
	if s, err := m.Texts("answer"); len(s) != 1 || err != nil {
		t.Error(s, err)
	}
	if s, err := m.Texts("also"); len(s) != 2 || err != nil {
		t.Error(s, err)
	}
	for _, key := range []string{"count", "none"} {
		if s, err := m.Texts(key); err == nil {
			t.Errorf("%s: %v", key, s)
		}
	}
}

// TestTooLarge: a finite number whose square is infinite is missing with its reason, from a reward of ours and from a
// server's reply.
func TestTooLarge(t *testing.T) {
	for value, taken := range map[float64]bool{1e99: true, -1e99: true, 1e101: false, -1e200: false, 1e308: false} {
		here := Each(Func(func(context.Context, Item) (Score, error) { return Score{Value: value}, nil }), 1).Judge(t.Context(), []Item{{}})[0]
		there, _, err := decodeResults(fmt.Appendf(nil, `{"scores": [%v]}`, value), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []Result{here, there[0]} {
			if (got.Missing == nil) != taken || !taken && (!errors.Is(got.Missing, errTooLarge) || !strings.Contains(got.Missing.Error(), "1e+100")) {
				t.Errorf("%v: %v", value, got.Missing)
			}
		}
	}
}
