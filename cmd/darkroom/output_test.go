package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestTable(t *testing.T) {
	tab := table{header: []string{"NAME", ">GB/s"}}
	tab.add("é", "12.5")
	tab.add("longer name", "3")
	var b strings.Builder
	tab.write(&b)
	want := "NAME         GB/s\né            12.5\nlonger name     3\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestFindGPUs(t *testing.T) {
	with := fstest.MapFS{
		"proc/driver/nvidia/gpus/0000:01:00.0/information": {Data: []byte("Model: \t\t NVIDIA H100\nIRQ: 1\n")},
		"usr/lib/x86_64-linux-gnu/libcuda.so.1":            {},
	}
	g := findGPUs(with)
	if got := strings.Join(g.lines(), "|"); got != "NVIDIA H100|/usr/lib/x86_64-linux-gnu/libcuda.so.1" {
		t.Errorf("with a GPU: %s", got)
	}
	delete(with, "usr/lib/x86_64-linux-gnu/libcuda.so.1")
	if got := strings.Join(findGPUs(with).lines(), "|"); !strings.Contains(got, "libcuda.so.1 not found") {
		t.Errorf("without libcuda: %s", got)
	}
	if got := strings.Join(findGPUs(fstest.MapFS{}).lines(), "|"); !strings.Contains(got, "computing on the CPU") {
		t.Errorf("without a GPU: %s", got)
	}
}
