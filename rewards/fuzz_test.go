package rewards

import (
	"math"
	"testing"
)

// FuzzReply: whatever a server answers, there is a number or a reason for each item.
func FuzzReply(f *testing.F) {
	for _, c := range lies {
		f.Add([]byte(c.reply))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		got, whole, err := decodeResults(reply, 2)
		if err != nil {
			return
		}
		if len(got) != 2 {
			t.Fatalf("%d results", len(got))
		}
		for _, r := range got {
			if r.Missing == nil && (math.IsNaN(r.Value) || math.IsInf(r.Value, 0)) || whole && r.Missing != nil {
				t.Errorf("%+v, whole %v", r, whole)
			}
		}
		if _, err := encodeResults(got); err != nil {
			t.Errorf("%+v cannot be written: %v", got, err)
		}
	})
}

// FuzzRequest: whatever is asked of a server is judged or refused.
func FuzzRequest(f *testing.F) {
	data, _ := encodeItems(threeItems)
	f.Add(data)
	f.Add([]byte(`{"protocol": 1, "items": [{"frames": [""], "fps": 1e308}, {"turns": []}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if items, err := decodeItems(t.Context(), body, 1<<22); err == nil {
			for _, item := range items {
				if item.Clip != nil && len(item.Clip.Frames) > 0 && item.Clip.Check() != nil {
					t.Errorf("%+v", item.Clip)
				}
			}
		}
	})
}
