package upstream

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Request is one request as it arrived. Values that Requests returns are
// copies; changing them changes nothing.
type Request struct {
	Seq        int64       `json:"seq"`  // 1 for the first of this server
	Conn       int64       `json:"conn"` // connection it came on
	At         time.Time   `json:"at"`   // when its body had arrived
	Method     string      `json:"method"`
	Path       string      `json:"path"`
	Query      string      `json:"query,omitempty"`
	Model      string      `json:"model"`
	Stream     bool        `json:"stream"`
	Credential string      `json:"credential"` // bearer token, or the value of api-key or x-api-key
	Header     http.Header `json:"header"`
	Body       []byte      `json:"body"` // as sent, after transfer framing; base64 in JSON
	Raw        []byte      `json:"raw"`  // every byte of the request as it was on the wire
	Status     int         `json:"status"`
	DoneAt     time.Time   `json:"done_at,omitzero"`        // when the answer was finished or given up
	PeerClosed time.Time   `json:"peer_closed_at,omitzero"` // when the peer closed the connection, if it has
}

// record is a Request that still changes.
type record struct {
	Request
	conn *conn
}

// journal keeps the newest requests and counts all. Safe for any number of goroutines.
type journal struct {
	keep    int // requests kept, 0 none
	mu      sync.Mutex
	seq     int64
	records []*record
	counts  map[string]int64
}

func (j *journal) add(r *record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq++
	r.Seq = j.seq
	if j.counts == nil {
		j.counts = make(map[string]int64)
	}
	j.counts[r.Model]++
	if j.keep == 0 {
		return
	}
	if len(j.records) >= 2*j.keep {
		j.records = slices.Clone(j.records[len(j.records)-j.keep:])
	}
	j.records = append(j.records, r)
}

func (j *journal) done(r *record, status int, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Status, r.DoneAt = status, at
}

// requests returns copies of what is kept, oldest first; model "" means all.
func (j *journal) requests(model string) []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	records := j.records[max(len(j.records)-j.keep, 0):]
	list := make([]Request, 0, len(records))
	for _, r := range records {
		if model != "" && r.Model != model {
			continue
		}
		q := r.Request
		q.Header = r.Header.Clone()
		q.PeerClosed = r.conn.peerClosed()
		list = append(list, q)
	}
	return list
}

func (j *journal) count(model string) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if model != "" {
		return j.counts[model]
	}
	total := int64(0)
	for n := range maps.Values(j.counts) {
		total += n
	}
	return total
}

func (j *journal) clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records, j.counts = nil, nil
}
