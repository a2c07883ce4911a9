package life

import "github.com/goshmem/goshmem/internal/ending"

// PE is the state of one PE's life. The zero PE has been started a moment ago: nothing is known of it yet.
type PE struct {
	own        own
	number     number
	watch      watch
	membership membership
	member     Member
	failed     bool // the verdict
}

// own is what has been told of the end of the PE's own process.
type own uint8

const (
	alive own = iota
	diedWell
	diedBadly
)

// number says whether the number of the own process may be used.
type number uint8

const (
	held   number = iota // the process runs, or is a zombie that nobody reaps yet
	ended                // the process has ended, and may be reaped any time: the number may be somebody else's
	reaped               // the process has been reaped
)

// watch says whether a watch looks after the own process.
type watch uint8

const (
	unwatched watch = iota
	watched         // a watch will say when the process may be reaped
	seen            // the watch has seen that its memory is freed: it is a zombie
	blind           // no watch will see its end: it may be reaped as soon as it has ended
)

// membership says whether the PE is in its job.
type membership uint8

const (
	outside membership = iota // it has never joined
	inside                    // it has joined
	left                      // it has left by a farewell, or the step has put it out
	lost                      // its connection has ended without a farewell
)

// Member says which process has joined for a PE last.
type Member uint8

// The members.
const (
	UnknownMember Member = iota // none has, or nobody knows which
	OwnMember                   // the PE's own process
	OtherMember                 // another process, whose end no watch will tell
	WatchedMember               // another process, whose end a watch will tell
)

// Outcome is what an input asks the step to do, in this order.
type Outcome struct {
	// KillRest asks to kill what is left of the PE: its own process died badly, and its program may go on.
	KillRest bool
	// Fails asks to make the PE's failure known to everybody. At most one outcome of a PE does.
	Fails bool
	// ByOwn is about a failure: its cause is the end of the PE's own process, as first told. If ByOwn is false, the cause is
	// the end that came with the input.
	ByOwn bool
	// Unfinished is about a failure: the PE was unfinished (PE.Unfinished).
	Unfinished bool
	// Well asks to tell the servers that the PE has ended well. Only Conclude does.
	Well bool
}

// Join notes that a process has joined the job for the PE. It says whether it is the first one of the PE.
func (l *PE) Join() (first bool) {
	first = l.membership == outside
	l.membership = inside
	return first
}

// Leave notes that the PE has left the job, by a farewell or because the step has put it out. It says whether the PE was
// inside until now.
func (l *PE) Leave() (was bool) {
	if l.membership != inside {
		return false
	}
	l.membership = left
	return true
}

// Lose notes that the connection of the PE has ended without a farewell. It says whether the PE was inside until now. A PE
// that the step has put out before counts as lost, too: it has said no farewell.
func (l *PE) Lose() (was bool) {
	was = l.membership == inside
	if l.membership != outside {
		l.membership = lost
	}
	return was
}

// SetMember notes which process has joined for the PE.
func (l *PE) SetMember(m Member) { l.member = m }

// Watch notes that a watch looks after the own process from now on.
func (l *PE) Watch() {
	if l.watch == unwatched {
		l.watch = watched
	}
}

// Free notes that the watch has seen the memory of the own process freed. It says whether the process may be reaped
// because of this.
func (l *PE) Free() bool { return l.release(seen) }

// LoseSight notes that no watch will see the end of the own process. It says whether the process may be reaped because of
// this, when it has ended.
func (l *PE) LoseSight() bool { return l.release(blind) }

func (l *PE) release(to watch) bool {
	if l.watch != watched {
		return false
	}
	l.watch = to
	return true
}

// End notes that the own process has ended and may be reaped any time.
func (l *PE) End() {
	if l.number == held {
		l.number = ended
	}
}

// Reap notes that the own process has been reaped.
func (l *PE) Reap() { l.number = reaped }

// Die notes how the own process died. Only the first news of it counts. memberGone says whether the member is known to
// have been reaped; it matters only if e is no failure and the member is not the own process.
func (l *PE) Die(e ending.End, memberGone bool) Outcome {
	if l.own != alive {
		return Outcome{}
	}
	bad := isBad(e)
	l.own = diedWell
	if bad {
		l.own = diedBadly
	}
	if l.membership != inside || l.member == OwnMember {
		return l.fail(bad, true)
	}
	switch {
	case bad && l.member == WatchedMember:
		return Outcome{KillRest: true} // the verdict waits for the member's end
	case bad:
		o := l.fail(bad, true)
		o.KillRest = true
		return o
	case memberGone:
		return l.fail(bad, true)
	}
	return Outcome{} // the verdict waits for the program's end
}

// EndMember notes how a member died that was not the own process.
func (l *PE) EndMember(e ending.End) Outcome {
	l.unwatchMember()
	switch {
	case l.own == diedBadly:
		return l.fail(true, true)
	case l.Unfinished() && (l.own == diedWell || isBad(e)):
		return l.fail(isBad(e), false)
	}
	return Outcome{}
}

// LoseSightOfMember notes that no watch will see the end of the member.
func (l *PE) LoseSightOfMember() Outcome {
	l.unwatchMember()
	if l.own == diedBadly {
		return l.fail(true, true)
	}
	return Outcome{}
}

func (l *PE) unwatchMember() {
	if l.member == WatchedMember {
		l.member = OtherMember
	}
}

// Forsake notes the launcher's decision: a PE whose connection was lost will not join again. is says whether the PE's
// connection was lost; otherwise nothing changes.
func (l *PE) Forsake() (is bool, o Outcome) {
	if l.membership != lost {
		return false, Outcome{}
	}
	return true, l.fail(false, false)
}

// Conclude notes that nothing is left of the PE, whose own process has told its end before. It gives the last verdict: the
// PE has failed, or it has ended well.
func (l *PE) Conclude() Outcome {
	o := l.fail(l.own == diedBadly, true)
	o.Well = !l.failed
	return o
}

// fail is the verdict on an end. It is a failure if it is bad or the PE is unfinished. Only the first failure of a PE is an
// Outcome.
func (l *PE) fail(bad, own bool) Outcome {
	unfinished := l.Unfinished()
	if l.failed || !bad && !unfinished {
		return Outcome{}
	}
	l.failed = true
	return Outcome{Fails: true, ByOwn: own, Unfinished: unfinished}
}

// isBad says whether an end is a failure whatever the PE was doing.
func isBad(e ending.End) bool {
	e.Unfinished = false // the PE's membership says that
	return e.Judge() != ending.Well
}

// Failed says whether a failure of the PE has been made known: nothing of it may join any more.
func (l *PE) Failed() bool { return l.failed }

// Dead says whether the end of the own process has been told.
func (l *PE) Dead() bool { return l.own != alive }

// Ended says whether the own process has ended and may have been reaped: its number may be somebody else's.
func (l *PE) Ended() bool { return l.number != held }

// Reaped says whether the own process has been reaped.
func (l *PE) Reaped() bool { return l.number == reaped }

// Watched says whether a watch looks after the own process, or has done so.
func (l *PE) Watched() bool { return l.watch != unwatched }

// Freed says whether the own process may be reaped when it has ended, as far as the watch is concerned.
func (l *PE) Freed() bool { return l.watch == seen || l.watch == blind }

// Seen says whether the watch has seen the memory of the own process freed: the process is a zombie.
func (l *PE) Seen() bool { return l.watch == seen }

// Inside says whether the PE is in its job.
func (l *PE) Inside() bool { return l.membership == inside }

// Left says whether the PE has left its job by a farewell, or was put out, and not joined again.
func (l *PE) Left() bool { return l.membership == left }

// Unfinished says whether the PE has joined its job and left it without a farewell, or not yet.
func (l *PE) Unfinished() bool { return l.membership == inside || l.membership == lost }

// MemberWatched says whether a watch will tell the end of a member that is not the own process.
func (l *PE) MemberWatched() bool { return l.member == WatchedMember }

// GoesOn says whether the PE's program is in the job although the own process has ended.
func (l *PE) GoesOn() bool { return l.Ended() && l.Inside() }

// AwaitsLeave says whether nothing is left of a PE only when it has left the job, too: its own process is reaped, and ended
// well or leaves a member whose end will be told.
func (l *PE) AwaitsLeave(endedWell bool) bool {
	return l.Inside() && !l.failed && (endedWell || l.MemberWatched())
}
