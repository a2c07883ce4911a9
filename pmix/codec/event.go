package codec

import (
	"fmt"
	"slices"
)

// Event is a message to the processes that registered for its code, with the infos that direct its delivery.
type Event struct {
	Status     Status
	Source     Proc
	Range      Range
	Targets    []Proc // the receivers of an event with RangeCustom
	Affected   []Proc // the processes that the event is about
	NonDefault bool   // default handlers do not get the event
	NoCache    bool   // the event is not kept for handlers that register later
	Timeout    uint64 // seconds after which the event has no use; zero: none
	Info       []Info // in an event to send, all other infos; in a parsed event, all infos
}

// Pack returns the infos that travel with the event: Info, and a key for every field that is set.
func (ev *Event) Pack() []Info {
	out := slices.Clip(ev.Info)
	add := func(key string, v Value) { out = append(out, Info{Key: key, Value: v}) }
	if len(ev.Targets) > 0 {
		add(KeyEventCustomRange, ProcsValue(ev.Targets...))
	}
	switch len(ev.Affected) {
	case 0:
	case 1:
		add(KeyEventAffectedProc, ProcValue(ev.Affected[0]))
	default:
		add(KeyEventAffectedProcs, ProcsValue(ev.Affected...))
	}
	if ev.NonDefault {
		add(KeyEventNonDefault, BoolValue(true))
	}
	if ev.NoCache {
		add(KeyEventDoNotCache, BoolValue(true))
	}
	if ev.Timeout > 0 {
		add(KeyEventActionTimeout, IntValue(int32(min(ev.Timeout, 1<<31-1))))
	}
	return out
}

// ParseEvent returns the event that a notification from a peer holds.
//
//   - Errors: a key whose value has the wrong type.
func ParseEvent(n Notification) (Event, error) {
	ev := Event{Status: n.Status, Source: n.Source, Range: n.Range, Info: n.Info}
	for _, info := range n.Info {
		ok, wanted := true, "a process or an array of processes"
		switch info.Key {
		case KeyEventCustomRange:
			ev.Targets, ok = info.Value.Procs()
		case KeyEventAffectedProc, KeyEventAffectedProcs:
			var affected []Proc
			affected, ok = info.Value.Procs()
			ev.Affected = append(ev.Affected, affected...)
		case KeyEventNonDefault:
			ev.NonDefault = info.Value.isSet()
		case KeyEventDoNotCache:
			ev.NoCache = info.Value.isSet()
		case KeyEventActionTimeout:
			wanted = "a number of seconds, 0 or more"
			ev.Timeout, ok = info.Value.Uint64()
		}
		if !ok {
			return Event{}, fmt.Errorf("pmix codec: event %v: %s is %v (type %d), want %s", n.Status, info.Key, info.Value, info.Value.Type, wanted)
		}
	}
	return ev, nil
}

// Has returns the value of a key of the event.
func (ev *Event) Has(key string) (Value, bool) { return Find(ev.Info, key) }

// Notification is an event on its way from a server to a client, in a frame with TagNotify.
type Notification struct {
	Status Status
	Source Proc
	Info   []Info
	Range  Range
}

// Append appends the body of the frame.
//
//   - Errors: a value whose Go type does not match its type number; dst comes back unchanged.
func (n *Notification) Append(dst []byte) ([]byte, error) {
	e := NewEncoder(dst)
	e.Count(1)
	e.Byte(byte(CmdNotify))
	e.Count(1)
	e.Status(n.Status)
	e.Count(1)
	e.Proc(n.Source)
	e.Infos(n.Info)
	e.Count(1)
	e.Byte(byte(n.Range))
	if e.err != nil {
		return dst, e.err
	}
	return e.buf, nil
}

// DecodeNotification reads the body of a frame with TagNotify. An event that a server kept for a late handler may come
// without a range.
func DecodeNotification(b []byte) (Notification, error) {
	d := NewDecoder(b)
	d.Count(1, "command")
	start := d.off
	if cmd := Command(d.Byte()); d.err == nil && cmd != CmdNotify {
		d.fail(start, "notification: command %v, want %v", cmd, CmdNotify)
	}
	d.Count(1, "status")
	n := Notification{Status: d.Status()}
	d.Count(1, "source")
	n.Source = d.Proc()
	n.Info = d.Infos()
	if d.More() {
		d.Count(1, "range")
		n.Range = Range(d.Byte())
	}
	if err := d.End(); err != nil {
		return Notification{}, err
	}
	return n, nil
}

// Matches reports whether two names may mean the same process: a wildcard rank stands for all of a namespace.
func (p Proc) Matches(q Proc) bool {
	return p.Nspace == q.Nspace && (p.Rank == q.Rank || p.Rank == RankWildcard || q.Rank == RankWildcard)
}

// AnyMatch reports whether a process of one list may be one of the other.
func AnyMatch(a, b []Proc) bool {
	for _, p := range a {
		if slices.ContainsFunc(b, p.Matches) {
			return true
		}
	}
	return false
}
