package proxy

import (
	"net/http"
	"sync"
)

// maxSearches is how many responses a key may have looked for at a time, on one
// node. Each can cost calls of maxOwners accounts, and no limit counts them.
const maxSearches = 4

// searches counts the searches that run. Any goroutine may use it.
type searches struct {
	mu      sync.Mutex
	running map[string]int // by key; none is 0
}

// begin begins a search of a key's, unless it has too many.
func (s *searches) begin(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[key] >= maxSearches {
		return false
	}
	if s.running == nil {
		s.running = make(map[string]int)
	}
	s.running[key]++
	return true
}

func (s *searches) end(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[key]--; s.running[key] <= 0 {
		delete(s.running, key)
	}
}

// search begins the search for a response among several accounts. The master key
// has no limits. The caller calls end; the error is an *Error.
func (x *exchange) search() (end func(), err error) {
	if x.id.Master {
		return func() {}, nil
	}
	key := x.id.keyID()
	if !x.p.searches.begin(key) {
		return nil, &Error{
			Status: http.StatusTooManyRequests, Type: typeThrottled, LimitedBy: "key", RetryAfter: 1,
			Message: "Too many responses are being looked for with this key, as this node does not know who made them. Try again in 1 s.",
		}
	}
	return func() { x.p.searches.end(key) }, nil
}
