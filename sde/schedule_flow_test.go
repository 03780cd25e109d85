package sde

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

// TestSchedulesFP32: sigmas and times are equal, bit for bit, to those of diffusers 0.42.1's schedulers, and to
// DanceGRPO's grid in PyTorch 2.15.
func TestSchedulesFP32(t *testing.T) {
	data, err := os.ReadFile("testdata/schedules.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Kind      string  `json:"kind"`
		Shift     float64 `json:"shift"`
		Mu        float64 `json:"mu"`
		Steps     int     `json:"steps"`
		Linear    bool    `json:"linear"`
		Terminal  float64 `json:"terminal"`
		Sigmas    string  `json:"sigmas"` // fp32, little endian
		Timesteps string  `json:"timesteps"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		o := DefaultFlow()
		o.Shift = c.Shift
		var got Schedule
		switch c.Kind {
		case "shifted", "karras", "exponential", "beta":
			o.Karras, o.Exponential, o.Beta = c.Kind == "karras", c.Kind == "exponential", c.Kind == "beta"
			got, err = FlowFP32(o, c.Steps, nil, 0)
		case "linspace32":
			var base []float64
			for _, v := range Linspace32(1, float32(1/float64(c.Steps)), c.Steps) {
				base = append(base, float64(v))
			}
			got, err = FlowFP32(o, c.Steps, base, 0)
		case "dynamic", "dynamic grid":
			var base []float64
			if c.Kind == "dynamic" {
				base = DownFromOne(c.Steps)
			}
			o.Shift, o.Dynamic, o.Linear, o.Terminal = 1, true, c.Linear, c.Terminal
			got, err = FlowFP32(o, c.Steps, base, c.Mu)
		case "heun":
			got = HeunFP32(c.Shift, c.Steps)
		case "unipc":
			got = UniPCFP32(c.Shift, c.Steps, false)
		case "dpm":
			got = DPMFP32(c.Shift, c.Steps, false)
		case "static":
			got = StaticFP32(c.Shift, c.Steps)
		default:
			t.Fatalf("a schedule %q", c.Kind)
		}
		name := fmt.Sprintf("%s, shift %v, mu %v, terminal %v, %d steps", c.Kind, c.Shift, c.Mu, c.Terminal, c.Steps)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		equalBits(t, name+": sigma", got.Sigmas, c.Sigmas)
		equalBits(t, name+": time", got.Timesteps, c.Timesteps)
	}
}

func equalBits(t *testing.T, name string, got []float64, recorded string) {
	t.Helper()
	bytes, err := base64.StdEncoding.DecodeString(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(bytes)/4 {
		t.Errorf("%ss are %d, recorded %d", name, len(got), len(bytes)/4)
		return
	}
	for i, v := range got {
		if want := float64(math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*i:]))); v != want {
			t.Errorf("%s %d is %v, recorded %v", name, i, v, want)
			return
		}
	}
}
