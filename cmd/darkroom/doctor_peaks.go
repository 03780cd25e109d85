package main

import (
	"fmt"
	"io"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/cpu/peak"
)

// probePeaks measures the chosen path with one thread and with all.
func probePeaks() []peak.Table {
	path, err := isa.Choose()
	if err != nil {
		return nil // examinePath has reported it
	}
	peaks := []peak.Table{peak.Measure(path, 1)}
	if all := cpu.Threads(); all > 1 {
		peaks = append(peaks, peak.Measure(path, all))
	}
	return peaks
}

func writePeaks(w io.Writer, peaks []peak.Table) {
	if len(peaks) == 0 {
		return
	}
	t := table{header: []string{"AT BEST"}}
	for _, p := range peaks {
		plural := "s"
		if p.Threads == 1 {
			plural = ""
		}
		t.header = append(t.header, fmt.Sprintf(">%d thread%s", p.Threads, plural))
	}
	for _, row := range []struct {
		name, unit string
		of         func(peak.Table) float64
	}{
		{"fp32 multiply-adds", "GF/s", func(p peak.Table) float64 { return p.F32 }},
		{"bf16 products", "GF/s", func(p peak.Table) float64 { return p.BF16 }},
		{"reading L2", "GB/s", func(p peak.Table) float64 { return p.L2 }},
		{"reading L3", "GB/s", func(p peak.Table) float64 { return p.L3 }},
		{"reading memory", "GB/s", func(p peak.Table) float64 { return p.Memory }},
	} {
		cells := []string{row.name}
		for _, p := range peaks {
			cells = append(cells, fmt.Sprintf("%.1f %s", row.of(p), row.unit))
		}
		t.add(cells...)
	}
	fmt.Fprintln(w)
	t.write(w)
}
