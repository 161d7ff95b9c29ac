package node

import (
	"fmt"
	"sync"
	"time"
)

// A member that is away makes Raft complain of it several times a second for as
// long as it is away. Such a message is shown when it comes up, and now and then
// while it goes on.
const (
	repeatEvery = 30 * time.Second
	// repeatGap is the silence after which the same message is news again.
	repeatGap = 5 * time.Second
	// maxRepeats bounds the messages that are remembered.
	maxRepeats = 256
)

// repeats remembers which messages were shown. Any goroutine calls.
type repeats struct {
	now  func() time.Time
	mu   sync.Mutex
	seen map[string]*repeat
}

type repeat struct {
	shown, last time.Time
	hidden      int // since it was shown
}

func newRepeats() *repeats { return &repeats{now: time.Now, seen: map[string]*repeat{}} }

// show reports whether a message is to be shown, and how many like it were not.
func (r *repeats) show(msg string, args []any) (hidden int, ok bool) {
	key := sameAs(msg, args)
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.seen[key]
	if s != nil && now.Sub(s.last) <= repeatGap && now.Sub(s.shown) < repeatEvery {
		s.last = now
		s.hidden++
		return 0, false
	}
	if s == nil {
		if len(r.seen) >= maxRepeats {
			clear(r.seen) // at worst something is shown once more
		}
		s = &repeat{}
		r.seen[key] = s
	}
	hidden = s.hidden
	*s = repeat{shown: now, last: now}
	return hidden, true
}

// sameAs returns what messages have in common that say the same: text and
// member, or all they say if they name no member. The reason in the words of a
// socket, a backoff and a term differ from one to the next.
func sameAs(msg string, args []any) string {
	for i := 0; i+1 < len(args); i += 2 {
		switch args[i] {
		case "peer", "target", "server-id":
			return fmt.Sprint(msg, "\x00", args[i+1])
		}
	}
	return fmt.Sprint(msg, "\x00", args)
}
