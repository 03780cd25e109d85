package natsio

import (
	"crypto/tls"
	"testing"
	"time"
)

// TestWrongClocks: trainer and workers whose clocks are decades off trust the run's certificate all the same, and no
// other one.
func TestWrongClocks(t *testing.T) {
	var ids [2]identity
	for i := range ids {
		var err error
		if ids[i], err = newIdentity(); err != nil {
			t.Fatal(err)
		}
	}
	for _, year := range []int{1971, 2009, 2300} {
		for i, trusted := range ids {
			serves, err := ids[0].serves()
			if err != nil {
				t.Fatal(err)
			}
			trusts, err := trusts(trusted.Certificate)
			if err != nil {
				t.Fatal(err)
			}
			trusts.Time = func() time.Time { return time.Date(year, 3, 1, 0, 0, 0, 0, time.UTC) }
			l, err := tls.Listen("tcp", "127.0.0.1:0", serves)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if c, err := l.Accept(); err == nil {
					_ = c.(*tls.Conn).Handshake() // who connects says how it ended
					c.Close()
				}
			}()
			c, err := tls.Dial("tcp", l.Addr().String(), trusts)
			if (err == nil) != (i == 0) {
				t.Errorf("in %d, by the certificate of trainer %d: %v", year, i, err)
			}
			if err == nil {
				c.Close()
			}
			l.Close()
		}
	}
}
