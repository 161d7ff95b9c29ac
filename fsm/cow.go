package fsm

import "maps"

// cowShards is a compromise: one write copies 1/1024 of the map and the table
// of shards, a few microseconds at 100 000 entries, and no reader ever waits.
const cowShards = 1024

// cow is a map that never changes once it is shared. edit gives a copy that
// can be written; it copies only the shards that are touched. The nil cow is
// an empty map.
type cow[V any] struct {
	shards [cowShards]map[string]V
	n      int
}

func (c *cow[V]) get(key string) (V, bool) {
	if c == nil {
		var zero V
		return zero, false
	}
	v, ok := c.shards[shardOf(key)][key]
	return v, ok
}

func (c *cow[V]) len() int {
	if c == nil {
		return 0
	}
	return c.n
}

// all calls yield for every entry, in no particular order.
func (c *cow[V]) all(yield func(string, V) bool) {
	if c == nil {
		return
	}
	for _, shard := range c.shards {
		for k, v := range shard {
			if !yield(k, v) {
				return
			}
		}
	}
}

// edit returns an editor of a copy. The editor belongs to one goroutine.
func (c *cow[V]) edit() *cowEdit[V] {
	e := &cowEdit[V]{next: &cow[V]{}}
	if c != nil {
		*e.next = *c
	}
	return e
}

// with returns a copy that holds v at key.
func (c *cow[V]) with(key string, v V) *cow[V] {
	e := c.edit()
	e.set(key, v)
	return e.done()
}

// without returns a copy that lacks key.
func (c *cow[V]) without(key string) *cow[V] {
	e := c.edit()
	e.remove(key)
	return e.done()
}

type cowEdit[V any] struct {
	next  *cow[V]
	owned [cowShards]bool
}

func (e *cowEdit[V]) own(i int) map[string]V {
	if e.owned[i] {
		return e.next.shards[i]
	}
	fresh := maps.Clone(e.next.shards[i]) // copies the table without hashing its keys again
	if fresh == nil {
		fresh = map[string]V{}
	}
	e.next.shards[i], e.owned[i] = fresh, true
	return fresh
}

func (e *cowEdit[V]) set(key string, v V) {
	shard := e.own(shardOf(key))
	before := len(shard)
	shard[key] = v
	e.next.n += len(shard) - before
}

func (e *cowEdit[V]) remove(key string) {
	i := shardOf(key)
	if _, ok := e.next.shards[i][key]; !ok {
		return
	}
	delete(e.own(i), key)
	e.next.n--
}

// done returns the finished map. The editor must not be used afterwards.
func (e *cowEdit[V]) done() *cow[V] { return e.next }

// shardOf is FNV-1a, folded.
func shardOf(key string) int {
	h := uint32(2166136261)
	for i := 0; i < len(key); i++ {
		h = (h ^ uint32(key[i])) * 16777619
	}
	h ^= h >> 16
	return int((h ^ h>>8) % cowShards)
}
