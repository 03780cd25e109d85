package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Card: a program's answers come in one stream, so a line too many would shift every later answer to
// another request. Requests to programs are therefore numbered, {"n": 7, "protocol": 1, ...}, and a
// reply that carries "n" must carry the request's. A reply without it, of a program that does not know
// of numbers, counts as long as the program wrote nothing else: no line before the request, and none in
// the moment after the reply. Whatever breaks this is a failure of the request with its name, and the
// program is started anew, so that its next reply belongs to its next request.
//
// Invariant (tests): no answer is ever that to another request.

// numbered is a request as a line, with its number.
func numbered(body []byte, n int) []byte {
	line := append([]byte(`{"n":`), strconv.Itoa(n)...)
	if len(body) > 2 { // not {} alone
		line = append(line, ',')
	}
	return append(append(line, body[1:]...), '\n')
}

// moment is how long a program without numbers is listened to after its reply.
const moment = 10 * time.Millisecond

// fits reports what is wrong with a reply as the one to the last request.
func (p *program) fits(reply []byte, valid func(reply []byte) error) error {
	var r struct {
		N *int `json:"n"`
	}
	if err := Alone(reply, &r); err != nil || r.N == nil {
		if err := valid(reply); err != nil {
			return err // perhaps this was no reply at all, and the reply still comes
		}
		return p.surplus(moment)
	}
	if *r.N != p.asked {
		return fmt.Errorf("the reply to request %d carries n = %d: %s", p.asked, *r.N, manners)
	}
	return nil
}

// manners is what the author of a program has to know.
const manners = "a program answers each request with one line, and prints what else it has to say to its standard error"

// surplus reports a line that nobody asked for, and which came within this time. That the program
// ended is no surplus: the next request meets it.
func (p *program) surplus(within time.Duration) error {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case l := <-p.lines:
		return p.unasked(l)
	case <-late.C:
	}
	select { // both may have been ready
	case l := <-p.lines:
		return p.unasked(l)
	default:
		return nil
	}
}

func (p *program) unasked(l line) error {
	if l.err != nil {
		p.lines <- l // its last: there is room
		return nil
	}
	return fmt.Errorf("it wrote a line that nobody asked for, so its answers may be those to other requests: %s; %s", Shown(l.text), manners)
}

// Alone decodes JSON that nothing follows.
func Alone(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON")
	}
	return nil
}
