package limiter

import (
	"maps"
	"sync"
	"sync/atomic"
)

// pathMap finds paths by their ticket without a lock and without an allocation:
// shards of maps that are copied when something is added.
type pathMap struct {
	adding sync.Mutex
	shards [pathShards]atomic.Pointer[map[Ticket]*path]
}

const (
	pathShards = 1024
	// maxShard bounds a shard; at the bound it is emptied, and its paths are
	// resolved again. Clients can make up names, so there has to be a bound.
	maxShard = 256
)

// shard is the low bits of FNV-1a over what tells tickets apart most: keys are
// hexadecimal digests, so eight of their characters are enough.
func (m *pathMap) shard(t *Ticket) *atomic.Pointer[map[Ticket]*path] {
	h := uint32(2166136261)
	for i := range min(len(t.Key), 8) {
		h = (h ^ uint32(t.Key[len(t.Key)-1-i])) * 16777619
	}
	for i := range min(len(t.Model), 8) {
		h = (h ^ uint32(t.Model[len(t.Model)-1-i])) * 16777619
	}
	return &m.shards[(h^h>>16)%pathShards]
}

func (m *pathMap) get(t *Ticket) *path {
	if s := m.shard(t).Load(); s != nil {
		return (*s)[*t]
	}
	return nil
}

func (m *pathMap) put(p *path) {
	m.adding.Lock()
	defer m.adding.Unlock()
	at := m.shard(&p.ticket)
	next := map[Ticket]*path{}
	if s := at.Load(); s != nil && len(*s) < maxShard {
		next = maps.Clone(*s)
	}
	next[p.ticket] = p
	at.Store(&next)
}

func (m *pathMap) clear() {
	m.adding.Lock()
	defer m.adding.Unlock()
	for i := range m.shards {
		m.shards[i].Store(nil)
	}
}
