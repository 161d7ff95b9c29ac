package fsm

import (
	"sync"
	"time"

	"sluice/limiter"
)

// clock is this node's estimate of the ledger clock. It runs with the node's
// monotonic time and is only ever raised: by the stamps of applied entries, by
// a live member's answer, and after a full stop of the cluster by the wall
// time that passed. A leader's own estimate therefore does not lose the time
// that its entries take to be committed, which under load would be all of it.
//
// An estimate that is too low makes windows last longer; one that is too high
// would end them early, so nothing that is not known to be right raises it.
type clock struct {
	mono func() time.Duration
	now  func() time.Time

	mu     sync.Mutex
	offset limiter.Time // estimate − mono
	stamp  limiter.Time // of the last applied entry
	wall   int64        // of the last applied entry, nanoseconds since 1970
	byWall bool         // old entries are followed by the wall time that passed
	live   bool         // the estimate is known to be current
	window time.Duration

	proposed bool         // this node has stamped an entry,
	first    limiter.Time // and its first stamp was this
}

func (c *clock) read() limiter.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.estimate()
}

func (c *clock) estimate() limiter.Time { return c.offset + limiter.Time(c.mono()) }

// raise lets the estimate be at least t.
func (c *clock) raise(t limiter.Time) {
	c.offset = max(c.offset, t-limiter.Time(c.mono()))
}

// follow takes the stamp of an entry or a snapshot. Before the first one the
// estimate is the time since this process started, which is nobody's clock but
// that of a cluster's first leader: so another's stamp replaces it, once.
func (c *clock) follow(stamp limiter.Time) {
	own := c.proposed && c.first == stamp
	if c.stamp == 0 && c.wall == 0 && !c.live && !own {
		c.offset = stamp - limiter.Time(c.mono())
		return
	}
	c.raise(stamp)
}

// prepare returns what is noted in front of a new command.
func (c *clock) prepare() (stamp limiter.Time, wall int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamp = min(max(c.estimate(), 0), maxStamp)
	if !c.proposed {
		c.proposed, c.first = true, stamp
	}
	return stamp, c.now().UnixNano()
}

// applied notes an entry. old: it lay in this node's log when the process
// started. window is the longest time that can matter.
func (c *clock) applied(stamp limiter.Time, wall int64, window time.Duration, old bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follow(stamp)
	c.stamp, c.wall, c.window = stamp, wall, window
	if !old {
		c.byWall, c.live = false, true
		return
	}
	c.addDowntime()
}

// restored notes that the state was replaced by one whose last entry had this
// stamp.
func (c *clock) restored(stamp limiter.Time, wall int64, window time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follow(stamp)
	c.stamp, c.wall, c.window = stamp, wall, window
	c.addDowntime()
}

func (c *clock) seed(t limiter.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = true
	c.raise(min(t, maxStamp))
}

func (c *clock) useWall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Not live: raft shows the log's last entries only when there is a leader
	// again, and until then the estimate may lack all that they would add. Who
	// starts at the same time must not take it for the cluster's.
	c.byWall = true
	c.addDowntime()
}

// addDowntime raises the estimate to where the last entry's time and the wall
// time since then lead, but never by more than a window: by then all windows
// are over anyway, and the wall clock may have been set.
func (c *clock) addDowntime() {
	if !c.byWall || c.wall == 0 {
		return
	}
	down := c.now().Sub(time.Unix(0, c.wall))
	c.raise(c.stamp.Add(min(max(down, 0), c.window)))
}

func (c *clock) isLive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live
}

// ClockNow returns this node's estimate of the ledger clock. Any goroutine calls.
func (s *State) ClockNow() limiter.Time { return s.clock.read() }

// ClockLive reports whether ClockNow is worth telling others: an entry that is
// new was applied, or SeedClock was called. Any goroutine calls.
func (s *State) ClockLive() bool { return s.clock.isLive() }

// SeedClock raises the estimate to what a live member answered, never lowers it.
func (s *State) SeedClock(t limiter.Time) { s.clock.seed(t) }

// UseWallClock tells that no member is running that could be asked, so all were
// stopped: the time since the last entry of the log, by the wall clock, counts
// as passed. It holds for what was applied before and for entries up to
// Options.ReplayEnd that are applied from now on.
func (s *State) UseWallClock() { s.clock.useWall() }

// Prepare puts the ledger's and the wall's time in front of a command. The
// leader calls it, on any goroutine, as it proposes the command.
func (s *State) Prepare(cmd []byte) []byte {
	stamp, wall := s.clock.prepare()
	return appendEntry(stamp, wall, cmd)
}
