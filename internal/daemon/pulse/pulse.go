// Package pulse decides from looks at a PE whether the PE hangs. It is pure: package daemon looks, and does what follows.
//
// A PE hangs if for a given time it neither calls the library nor waits in it for others. Time counts against a PE only if
// the PE could have used it:
//
//	state of the PE                          | time that counts
//	no thread is ready to run                | all
//	a thread is ready to run                 | the processor time that the PE had
//	the PE waits for others, or has called   | none, and the count begins anew
package pulse

// Look is what one look at a PE finds. Times are in nanoseconds.
type Look struct {
	At    int64  // by a clock that never goes back
	Count uint64 // of calls that may wait
	Calls bool   // the PE has made calls that do not wait since the look before
	Waits bool   // the PE waits for others, or has not come through Init yet
	Used  int64  // processor time of the PE's process so far
	Ready bool   // a thread of the PE runs, or would if it had a processor
}

// Pulse is what is remembered of a PE's progress. The zero Pulse has seen nothing.
type Pulse struct {
	count uint64 // as of the latest look
	at    int64  // of the latest look
	used  int64  // as of the latest look
	still int64  // for how long the PE has stood still while it could have called
	seen  bool   // there was a look since the PE could have hung
	hung  bool   // Beat has said so
}

// Stands says whether a look finds that the PE has called nothing since the look before, and does not wait.
func (p *Pulse) Stands(x Look) bool {
	return !x.Waits && !x.Calls && x.Count == p.count && p.seen
}

// IsOld says whether a look was made before the latest look that counted, or before the end of a time that does not count.
func (p *Pulse) IsOld(x Look) bool { return p.seen && x.At < p.at }

// SkipTo lets the time since the latest look not count.
func (p *Pulse) SkipTo(now int64) {
	if p.seen {
		p.at = now
	}
}

// Beat adds a look. Moved says that a PE that was hung goes on, and hung that it is hung from now on: once until it moves.
func (p *Pulse) Beat(x Look, atMost int64) (moved, hung bool) {
	stands, passed, used := p.Stands(x), x.At-p.at, x.Used-p.used
	p.count, p.at, p.used, p.seen = x.Count, x.At, x.Used, true
	if !stands {
		moved, p.hung, p.still = p.hung, false, 0
		return moved, false
	}
	if x.Ready {
		passed = min(passed, max(used, 0))
	}
	p.still += passed
	hung = !p.hung && p.still >= atMost
	p.hung = p.hung || hung
	return false, hung
}
