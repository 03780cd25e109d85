package rewards

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/vision"
)

// detecting is a server that always answers the same, and the last request that it was sent.
func detecting(t *testing.T, reply string) (address string, asked *string) {
	asked = new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = r.Header.Get("Authorization") + string(body)
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func detect(t *testing.T, reply string, o DetectorOptions, labels ...string) ([]Detection, string, error) {
	t.Helper()
	address, asked := detecting(t, reply)
	d := NewDetectionServer(address, "a key", o, call.Policy{Timeout: time.Minute, Tries: 1}, nil)
	found, err := d.Detect(t.Context(), vision.New(200, 100), labels)
	return found, *asked, err
}

// TestDetectionServer: one box in every form is one box; labels are sent.
func TestDetectionServer(t *testing.T) {
	want := boxes.Box{20, 10, 60, 30}
	for form, numbers := range map[string]string{"xyxy": "[20, 10, 60, 30]", "xywh": "[20, 10, 40, 20]", "cxcywh": "[40, 20, 40, 20]"} {
		found, asked, err := detect(t, `{"detections": [{"label": "dog", "box": `+numbers+`, "score": 0.9, "color": "red"}]}`, DetectorOptions{Box: form, Overlap: 1}, "dog", "cat")
		if err != nil || len(found) != 1 || !reflect.DeepEqual(found[0], Detection{Class: "dog", Color: "red", Box: want, Score: 0.9}) {
			t.Errorf("%s: %+v, %v", form, found, err)
		}
		if !strings.Contains(asked, `"labels":["dog","cat"]`) || !strings.HasPrefix(asked, "Bearer a key{") {
			t.Errorf("asked %.200s", asked)
		}
	}
	found, _, err := detect(t, `{"detections": [{"label": "dog", "box": [0.1, 0.1, 0.3, 0.3], "score": 1}]}`, DetectorOptions{Box: "xyxy", Relative: true, Overlap: 1})
	if err != nil || len(found) != 1 || !near(found[0].Box[2], 60) || !near(found[0].Box[3], 30) {
		t.Errorf("shares: %+v, %v", found, err)
	}
	if found, _, err := detect(t, `{"detections": []}`, DetectorOptions{Box: "xyxy", Overlap: 1}); err != nil || len(found) != 0 {
		t.Errorf("nothing: %+v, %v", found, err)
	}
}

// TestDetectionsSuppressed: of boxes of one label that overlap, the surest stays; unsure ones go.
func TestDetectionsSuppressed(t *testing.T) {
	reply := `{"detections": [{"label": "dog", "box": [0, 0, 10, 10], "score": 0.5}, {"label": "cat", "box": [0, 0, 10, 10], "score": 0.4},
		{"label": "dog", "box": [0, 0, 10, 9], "score": 0.8}, {"label": "dog", "box": [50, 0, 60, 10], "score": 0.2}]}`
	for _, c := range []struct {
		overlap, least float64
		scores         []float64
	}{{1, 0, []float64{0.5, 0.4, 0.8, 0.2}}, {0.5, 0, []float64{0.4, 0.8, 0.2}}, {0.5, 0.4, []float64{0.8}}, {0.95, 0, []float64{0.5, 0.4, 0.8, 0.2}}} {
		found, _, err := detect(t, reply, DetectorOptions{Box: "xyxy", Overlap: c.overlap, Least: c.least})
		var got []float64
		for _, f := range found {
			got = append(got, f.Score)
		}
		if a, b := mustJSON(t, got), mustJSON(t, c.scores); err != nil || a != b {
			t.Errorf("overlap %v, least %v: %s, want %s, %v", c.overlap, c.least, a, b, err)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDetectionsUnread: an invalid reply has no score, and does not count as an empty picture.
func TestDetectionsUnread(t *testing.T) {
	for _, reply := range []string{"", "[]", "{}", `{"detections": null}`, `{"detections": [{"label": "dog", "box": [1, 2, 3], "score": 1}]}`, `{"detections": [{"box": [1, 2, 3, 4]}]}`, `{"detections": []} x`} {
		if found, _, err := detect(t, reply, DetectorOptions{Box: "xyxy", Overlap: 1}); err == nil {
			t.Errorf("%q: %+v", reply, found)
		}
	}
}
