package limiter

import "time"

// Outlook is what a replica says of a ticket: what limits it, what is used, and
// when the windows end. Nothing is decided.
type Outlook struct {
	Standings [NumScopes]Standing
	EndsIn    [NumScopes]time.Duration // until the scope's window ends; 0 where none runs
	Pool      string                   // "" is the default pool
	Model     *ModelPolicy             // nil if the model has none
	Rules     Rules
}

// Look reports what the Ledger knows of the ticket at now, changing nothing.
func (l *Ledger) Look(now Time, t *Ticket, p Policy) Outlook {
	var d Decision
	mp, rules := p.Model(t.Model), p.Rules()
	window := rules.Window
	d.look(l, now, t, p, mp, window)
	o := Outlook{Standings: d.Standings, Pool: d.Pool, Model: mp, Rules: rules}
	for s := range o.Standings {
		if start := o.Standings[s].Start; start != NoWindow {
			o.EndsIn[s] = start.Add(window).Sub(now)
		}
	}
	return o
}
