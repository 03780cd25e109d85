package answers

import "testing"

// TestNamed: every name is there once within its kind, has a card and makes a reward.
func TestNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range All() {
		found, ok := Find(r.Name, r.Form)
		if seen[r.Name] || r.Card == "" || r.New() == nil || !ok || found.Card != r.Card {
			t.Errorf("%+v", r)
		}
		seen[r.Name] = true
	}
	if r, ok := Find("", true); !ok || r.Name != Names(true)[0] {
		t.Errorf("the default form is %+v", r)
	}
	if r, ok := Find("no such rule", false); ok {
		t.Errorf("%+v", r)
	}
}
