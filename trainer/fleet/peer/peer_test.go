package peer

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

func opened(t *testing.T, most int) *Store {
	t.Helper()
	s, err := Open("127.0.0.1", 0, most)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestStore: a held blob is served by its hash, an expected one can be brought, and nothing else.
func TestStore(t *testing.T) {
	ctx := t.Context()
	a, b := opened(t, 0), opened(t, 2)
	data := bytes.Repeat([]byte("weights "), 1<<17)
	name, err := a.Put(ctx, data)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Fetch(ctx, a.Place, name); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := Fetch(ctx, a.Place, fleet.Blob{Hash: fleet.Hash{1}, Size: 1}); !errors.Is(err, fleet.ErrNoBlob) {
		t.Errorf("what is not there: %v", err)
	}
	if _, err := Fetch(ctx, Place{At: a.Place.At, Print: b.Place.Print}, name); err == nil {
		t.Error("somebody with another certificate was believed")
	}
	if err := Bring(ctx, a.Place, []byte("unasked")); err == nil {
		t.Error("what nobody waits for was taken")
	}
	brought := []byte("a result")
	for size, taken := range map[int64]bool{3: false, int64(len(brought)): true} {
		if err := a.Expect(fleet.HashOf(brought), size); err != nil {
			t.Fatal(err)
		}
		if err := Bring(ctx, a.Place, brought); (err == nil) != taken {
			t.Errorf("of %d bytes: %v", size, err)
		}
	}
	if got, err := a.Get(ctx, fleet.BlobOf(brought)); err != nil || !bytes.Equal(got, brought) {
		t.Errorf("%q, %v", got, err)
	}
	if err := a.Expect(fleet.HashOf([]byte("abc")), 3); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://"+a.Place.At+"/"+fleet.HashOf([]byte("abc")).String(), bytes.NewReader([]byte("abd")))
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := client(a.Place, stalls).Do(r); err != nil || reply.StatusCode != http.StatusBadRequest {
		t.Errorf("another content: %v, %v", reply, err)
	}
	if a.Expect(fleet.Hash{}, mostBytes+1) == nil {
		t.Error("a blob may be of any size")
	}
	var names []fleet.Blob
	for i := range 3 {
		name, _ := b.Put(ctx, []byte{byte(i)})
		names = append(names, name)
	}
	if _, err := b.Get(ctx, names[0]); err == nil {
		t.Error("a store of two holds three")
	}
	if err := a.Drop(ctx, name.Hash); err != nil {
		t.Fatal(err)
	}
	if _, err := Fetch(ctx, a.Place, name); !errors.Is(err, fleet.ErrNoBlob) {
		t.Errorf("what was dropped: %v", err)
	}
}

// TestBrokenOff: a transfer that breaks off goes on where it did.
func TestBrokenOff(t *testing.T) {
	s := opened(t, 0)
	data := bytes.Repeat([]byte("0123456789"), 1<<18)
	name, err := s.Put(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer cut.Close()
	passed := make(chan int, 9)
	go func() { // passes connections on, and cuts the first one off half-way
		for n := 0; ; n++ {
			in, err := cut.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", s.Place.At)
			if err != nil {
				return
			}
			go func() {
				buffer := make([]byte, 1<<14)
				for {
					k, err := in.Read(buffer)
					if _, bad := out.Write(buffer[:k]); err != nil || bad != nil {
						return
					}
				}
			}()
			go func() {
				buffer, sum := make([]byte, 1<<14), 0
				for {
					k, err := out.Read(buffer)
					sum += k
					if _, bad := in.Write(buffer[:k]); err != nil || bad != nil || n == 0 && sum > len(data)/2 {
						break
					}
				}
				in.Close()
				out.Close()
				passed <- sum
			}()
		}
	}()
	if got, err := Fetch(t.Context(), Place{At: cut.Addr().String(), Print: s.Place.Print}, name); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if first, second := <-passed, <-passed; second > len(data)*3/4 {
		t.Errorf("%d bytes, and then %d of %d", first, second, len(data))
	}
}

// TestTracker: nobody serves more than two at once, holders that fail are asked no more, and 40 workers have a blob
// after as many rounds as a tree has levels.
func TestTracker(t *testing.T) {
	now := time.Unix(0, 0)
	tr := NewTracker(2)
	tr.now = func() time.Time { return now }
	name, home := fleet.Hash{1}, Place{At: "trainer"}
	if _, known, _ := tr.Where(name, Place{At: "w"}); known {
		t.Error("a blob that nobody has")
	}
	tr.Holds(name, home)
	has, rounds := map[string]bool{}, 0
	for ; len(has) < 40; rounds++ {
		from := map[string][]Place{}
		for i := range 40 {
			who := Place{At: fmt.Sprint("w", i)}
			if has[who.At] {
				continue
			}
			if at, known, free := tr.Where(name, who); !known {
				t.Fatal("it is not known any more")
			} else if free {
				from[at.At] = append(from[at.At], who)
			}
		}
		for at, all := range from {
			if len(all) > 2 || at != home.At && !has[at] {
				t.Fatalf("%s serves %v", at, all)
			}
			for _, who := range all {
				tr.Got(name, who, Place{At: at})
				has[who.At] = true
			}
		}
	}
	if rounds > 4 { // 2, 2+6, 8+18, ...
		t.Errorf("%d rounds", rounds)
	}
	tr.Got(name, Place{At: "liar"}, home)
	for i := range 40 { // all die
		tr.Failed(name, Place{At: "liar"}, Place{At: fmt.Sprint("w", i)})
	}
	if n := len(tr.blobs[name]); n != 41 {
		t.Errorf("%d have it by the word of somebody who was not sent for it, want 41", n)
	}
	for n := 0; len(tr.blobs[name]) > 1 && n < 100; n++ {
		who := Place{At: fmt.Sprint("x", n)}
		at, _, _ := tr.Where(name, who)
		if at != home || n > 1 { // the first two keep the trainer busy
			tr.Failed(name, who, at)
		}
	}
	now = now.Add(2 * forgotten)
	for range 2 {
		if at, _, free := tr.Where(name, Place{At: fmt.Sprint(now)}); at != home || !free {
			t.Errorf("from %v", at)
		}
		now = now.Add(time.Second)
	}
	if _, known, free := tr.Where(name, Place{At: "third"}); !known || free {
		t.Error("the trainer serves three")
	}
	now = now.Add(2 * forgotten)
	if _, _, free := tr.Where(name, Place{At: "third"}); !free {
		t.Error("who never says what came of it counts for ever")
	}
	tr.Failed(name, Place{At: "third"}, home)
	if at, _, _ := tr.Where(name, Place{At: "third"}); at != home {
		t.Error("the trainer has it no more")
	}
	tr.Drop(name)
	if _, known, _ := tr.Where(name, Place{At: "w"}); known {
		t.Error("it was dropped")
	}
}

// TestClosed: a store that was closed has left its port, however soon it was.
func TestClosed(t *testing.T) {
	const begun = 50
	for port := 21000; port < 21100; port++ { // of which systems hand out none, so that nobody takes it meanwhile
		s, err := Open("127.0.0.1", port, 0)
		if err != nil {
			continue // it is somebody's
		}
		for range begun {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = Open("127.0.0.1", port, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no port of a hundred is free")
}
