package rewards

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/darkroom-rl/darkroom/rewards/call"
)

// mostRequest is the size of a request that a server reads: pictures of a batch.
const mostRequest = 256 << 20

// Serve answers the protocol for a judge: what an http reward asks. It is a reference for servers
// of others, too.
func Serve(j Judge) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply, status, err := served(j, r)
		if err != nil {
			reply, _ = json.Marshal(map[string]string{"error": err.Error()}) // a text can be written
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(reply) // who asked may be gone
	})
}

func served(j Judge, r *http.Request) (reply []byte, status int, err error) {
	if r.Method != http.MethodPost {
		return nil, http.StatusMethodNotAllowed, errors.New("items are sent by POST")
	}
	body, err := call.Read(r.Body, mostRequest)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	items, err := decodeItems(body)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	results := j.Judge(r.Context(), items)
	if len(results) != len(items) {
		return nil, http.StatusInternalServerError, fmt.Errorf("the judge gave %d scores for %d items", len(results), len(items))
	}
	if reply, err = encodeResults(results); err != nil {
		return nil, http.StatusInternalServerError, err
	}
	return reply, http.StatusOK, nil
}
