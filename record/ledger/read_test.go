package ledger

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// briefly returns the fields of an overview from a line read whole.
func briefly(l Line) Line {
	return Line{Iteration: l.Iteration, Samples: l.Samples, Total: Spread{Mean: l.Total.Mean, Missing: l.Total.Missing}, HeldOut: l.HeldOut, Fired: l.Fired, Rollback: l.Rollback}
}

// TestBrief: the fields of an overview are the same, however the line is read; text may hold brackets and quotes.
func TestBrief(t *testing.T) {
	full := lineOf()
	full.Iteration, full.Fired, full.Rollback = 7, []string{`heldout "a" fell } ] \`, "b,\n"}, nil
	full.Passed = `a quote " and a bracket { [ \\" }`
	back := &Line{Iteration: 3, Rollback: &Rollback{From: 9, To: 99, Why: "}"}}
	nothing := &Line{Iteration: 4, Total: SpreadOf([]float64{nan(), nan()})}
	for _, l := range []*Line{full, back, nothing, {}} {
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		spaced, err := json.MarshalIndent(l, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{text, spaced, append([]byte(" "), append(text, " \n"...)...)} {
			var whole, brief Book
			if err := whole.AddText(text); err != nil {
				t.Fatal(err)
			}
			if err := brief.AddBrief(text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			same(t, string(text), append(brief.Kept, brief.Abandoned...), append(whole.Kept, whole.Abandoned...))
		}
	}
}

// same compares lines read briefly with lines read whole, as JSON, which has null for a missing number.
func same(t *testing.T, text string, brief, whole []Line) {
	t.Helper()
	var want []Line
	for _, l := range whole {
		want = append(want, briefly(l))
	}
	got, errGot := json.Marshal(brief)
	expected, errWant := json.Marshal(want)
	if errGot != nil || errWant != nil || string(got) != string(expected) {
		t.Errorf("%s: %s (%v), not %s (%v)", text, got, errGot, expected, errWant)
	}
}

// TestBriefBroken: an invalid line has the same error as when it is read whole.
func TestBriefBroken(t *testing.T) {
	for _, text := range []string{"", "{", "{no json}", `{"iteration":1`, `{"iteration":1} 2`, `{"iteration":"1"}`, `{"iteration":1.5}`, `{"iteration" 1}`, `{"total":{"mean":"1"}}`,
		`{"text":"\"}`, `{"a":[1}`, `{"iteration":1,}`, `{"iteration":}`, `[1]`, `{"total":{"mean":+1}}`, `{"monitors":"one"}`, `{"iteration":4600000000000000000}`, `{"iteration":-1}`,
		`{"text":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}"} {
		var whole, brief Book
		want, got := whole.AddText([]byte(text)), brief.AddBrief([]byte(text))
		if want == nil || got == nil || want.Error() != got.Error() {
			t.Errorf("%q: %v, not %v", text, got, want)
		}
	}
	if _, ok := BriefTiming([]byte(`{"iteration":1,"seconds":{"roll":2}}`)); ok {
		t.Error("a line without the whole iteration's seconds")
	}
	if l, ok := BriefTiming([]byte(`{"iteration":4,"at":1.5,"seconds":{"roll":2,"all":3.25e0}}`)); !ok || !reflect.DeepEqual(l, TimingLine{Iteration: 4, Seconds: map[string]float64{"all": 3.25}}) {
		t.Errorf("%+v, %v", l, ok)
	}
}

// FuzzBrief: a line that can be read whole is read briefly to the same numbers.
func FuzzBrief(f *testing.F) {
	f.Add(`{"iteration":1,"total":{"mean":null},"monitors":["}"],"x":{"y":[1,"\\\""]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var whole, brief Book
		if whole.AddText([]byte(text)) != nil {
			return
		}
		if err := brief.AddBrief([]byte(text)); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if strings.Count(strings.ToLower(text), `"iteration"`) != 1 || strings.Contains(text, `\u`) || len(whole.Abandoned) > 0 {
			return // written otherwise than we write
		}
		for i := range whole.Kept {
			if whole.Kept[i].Iteration != brief.Kept[i].Iteration {
				t.Fatalf("%q: %+v", text, brief.Kept[i])
			}
		}
	})
}

func nan() float64 { var z float64; return z / z }
