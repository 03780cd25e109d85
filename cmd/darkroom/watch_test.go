package main

import (
	"net"
	"testing"
)

// TestWatchAddress: a browser can open the address that is printed.
func TestWatchAddress(t *testing.T) {
	for _, c := range []struct {
		listens, token string
		hosts          []string
		want           string
	}{
		{"127.0.0.1", "", nil, "http://127.0.0.1:7860"},
		{"127.0.0.1", "word", nil, "http://127.0.0.1:7860/?token=word"},
		{"0.0.0.0", "", nil, "http://localhost:7860"},
		{"::", "word", nil, "http://localhost:7860/?token=word"},
		{"::1", "", nil, "http://[::1]:7860"},
		{"0.0.0.0", "", []string{"box.example:7860"}, "http://box.example:7860"},
		{"0.0.0.0", "word", []string{"abc.proxy.example", "other.example"}, "https://abc.proxy.example/?token=word"},
	} {
		o := watchOptions{hosts: c.hosts, token: c.token}
		if got := o.opens(&net.TCPAddr{IP: net.ParseIP(c.listens), Port: 7860}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
