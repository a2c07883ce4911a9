package server

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Bounds on the events that a namespace keeps for handlers that come late. The oldest events make room.
const (
	maxCached     = 512
	maxCachedSize = 4 << 20 // bytes of all of them together
)

// registrations list the events that a connection asked for.
type registrations struct {
	codes map[codec.Status][]filter // codec.StatusMaxErrConstant stands for all events that are not reserved
	size  int                       // number of codes, and of processes that their filters name
}

// filter restricts a registration to events about some processes; an empty one does not restrict.
type filter []codec.Proc

// notice is an event on its way to clients, and to those who register later.
type notice struct {
	codec.Event
	body  []byte              // of the frame, the same for all receivers
	heard map[connID]struct{} // connections that have got the event
	until tick                // the end of its time; zero: never
}

// events serves notifications: registrations of handlers, events that clients and the server raise, and those kept for
// handlers that come late. Registrations are in the state of connections, and kept events in that of namespaces.
type events struct {
	*common
	groups  *groups
	invites *invites
	errands *errands
}

// want reports whether a connection asked for an event.
func (e *registrations) want(ev *codec.Event) bool {
	if passes(e.codes[ev.Status], ev.Affected) {
		return true
	}
	return !ev.NonDefault && passes(e.codes[codec.StatusMaxErrConstant], ev.Affected)
}

func passes(filters []filter, affected []codec.Proc) bool {
	return slices.ContainsFunc(filters, func(f filter) bool {
		return len(f) == 0 || len(affected) == 0 || codec.AnyMatch(f, affected)
	})
}

// register serves a registration. After the answer it also delivers the kept events that the handler wants.
func (es *events) register(at caller, r *codec.RegisterEventsRequest) {
	codes := r.Codes
	if len(codes) == 0 {
		codes = []codec.Status{codec.StatusMaxErrConstant}
	}
	only, err := affected(r.Info)
	if err != nil {
		es.refuse(at, codec.StatusErrBadParam, "register events: "+err.Error())
		return
	}
	l := es.conns[at.conn] // live, because serveFrame has found it
	size := len(codes) * (1 + len(only))
	if l.events.size+size > maxRemembered {
		es.refuse(at, codec.StatusErrOutOfResource, fmt.Sprintf("register events: more than %d codes and processes", maxRemembered))
		return
	}
	l.events.add(codes, only)
	es.reply(at, codec.StatusSuccess)
	for _, n := range at.space.cache {
		if !n.stale(es.now) && es.inRange(&n.Event, at.process) {
			es.deliver(n, l)
		}
	}
}

// affected reads the processes that a handler wants to hear about.
func affected(infos []codec.Info) (filter, error) {
	ev, err := codec.ParseEvent(codec.Notification{Info: infos})
	return ev.Affected, err
}

func (e *registrations) add(codes []codec.Status, only filter) {
	if e.codes == nil {
		e.codes = map[codec.Status][]filter{}
	}
	for _, code := range codes {
		e.codes[code] = append(e.codes[code], only)
		e.size += 1 + len(only)
	}
}

// deregister serves a deregistration, which has no answer. A client sends one for a code when it has no handler left
// for it, however many registrations there were.
func (es *events) deregister(at caller, r *codec.DeregisterEventsRequest) {
	registered := &es.conns[at.conn].events
	for _, code := range r.Codes {
		for _, only := range registered.codes[code] {
			registered.size -= 1 + len(only)
		}
		delete(registered.codes, code)
	}
}

// notify raises an event for a client.
func (es *events) notify(at caller, r *codec.NotifyRequest) {
	ev, err := codec.ParseEvent(codec.Notification{Status: r.Status, Source: at.name, Info: r.Info, Range: r.Range})
	if err == nil {
		err = es.checkRange(at.process, &ev)
	}
	if err != nil {
		es.refuse(at, codec.StatusErrBadParam, "notify event: "+err.Error())
		return
	}
	if status, err := es.invites.recordEvent(at.process, &ev); err != nil {
		es.refuse(at, status, fmt.Sprintf("notify event %v: %v", ev.Status, err))
		return
	}
	if err := es.announce(ev); err != nil {
		es.refuse(at, codec.StatusErrBadParam, "notify event: "+err.Error())
		return
	}
	es.reply(at, codec.StatusSuccess)
}

// checkRange replaces the names of groups in the range of an event by their members.
//
//   - Errors: an invalid range, or one that does not fit the targets.
func (es *events) checkRange(from *process, ev *codec.Event) error {
	switch {
	case ev.Range > codec.RangeProcLocal:
		return fmt.Errorf("range %d, want at most %d", ev.Range, codec.RangeProcLocal)
	case ev.Range == codec.RangeCustom && len(ev.Targets) == 0:
		return fmt.Errorf("range %d without %s, want the target processes", ev.Range, codec.KeyEventCustomRange)
	case ev.Range != codec.RangeCustom && len(ev.Targets) > 0:
		return fmt.Errorf("%s with range %d, want %d", codec.KeyEventCustomRange, ev.Range, codec.RangeCustom)
	}
	ev.Targets = es.groups.expandNames(from, ev.Targets)
	return nil
}

// raise delivers an event to every connection of this node that wants it now, and keeps it for those that will. The process
// that the event comes from has handled it already.
func (es *events) raise(ev codec.Event) error {
	if ev.Range == codec.RangeRM || ev.Range == codec.RangeProcLocal {
		return nil
	}
	body, err := packEvent(&ev)
	if err != nil {
		return err
	}
	n := &notice{Event: ev, body: body, heard: map[connID]struct{}{}}
	if ev.Timeout > 0 {
		n.until = es.now + tick(min(ev.Timeout, 1<<31))*es.second
	}
	for _, l := range es.listeners(&ev) {
		es.deliver(n, l)
	}
	if !ev.NoCache {
		es.cacheNotice(n)
	}
	return nil
}

// listeners returns the live connections of processes that an event is for which asked for it, by the names of the
// processes. It looks at the connections alone: a job has many more processes, on other nodes.
func (es *events) listeners(ev *codec.Event) (found []*link) {
	for conn, l := range es.conns {
		if l.hasLink(conn) && es.inRange(ev, l.process) && l.events.want(ev) { // not a connection that is closing
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b *link) int { return cmp.Or(compareProcs(a.name, b.name), cmp.Compare(a.conn, b.conn)) })
	return found
}

// inRange reports whether an event is for a process. A tool sees the events of all jobs.
func (es *events) inRange(ev *codec.Event, p *process) bool {
	switch ev.Range {
	case codec.RangeUndef, codec.RangeSession, codec.RangeGlobal:
		return true
	case codec.RangeLocal:
		return p.local
	case codec.RangeNamespace:
		return p.name.Nspace == ev.Source.Nspace || p.space.tool
	case codec.RangeCustom:
		return codec.AnyMatch(ev.Targets, []codec.Proc{p.name})
	default:
		return false
	}
}

// deliver sends an event on a connection if it is live, wants the event and has not had it.
func (es *events) deliver(n *notice, l *link) {
	if !l.hasLink(l.conn) || l.exited || l.name == n.Source || !l.events.want(&n.Event) {
		return
	}
	if _, heard := n.heard[l.conn]; heard {
		return
	}
	n.heard[l.conn] = struct{}{}
	es.send(l.conn, codec.TagNotify, n.body)
}

// stale reports whether the time of an event is over.
func (n *notice) stale(now tick) bool { return n.until != 0 && n.until <= now }

// cacheNotice keeps an event for processes that register late. The event stays with one of these:
//
//   - the jobs of its targets, if it has targets;
//   - the job that it comes from, whatever its range, since later no other job needs to hear of its troubles;
//   - the jobs of the processes that it affects, if it comes from outside of all jobs.
func (es *events) cacheNotice(n *notice) {
	var homes []codec.Proc
	switch {
	case n.Range == codec.RangeCustom:
		homes = n.Targets
	case es.spaces[n.Source.Nspace] != nil:
		homes = []codec.Proc{n.Source}
	default:
		homes = n.Affected
	}
	kept := map[*nspace]bool{}
	for _, home := range homes {
		if s := es.spaces[home.Nspace]; s != nil && !kept[s] {
			kept[s] = true
			s.cacheNotice(n, es.now)
		}
	}
}

// cacheNotice keeps an event within the bounds. Events that are too old, and the oldest of too many, make room.
func (s *nspace) cacheNotice(n *notice, now tick) {
	if len(n.body) > maxCachedSize {
		return
	}
	s.cache = append(s.cache, n)
	s.cache = slices.DeleteFunc(s.cache, func(n *notice) bool { return n.stale(now) })
	size := 0
	for _, n := range s.cache {
		size += len(n.body)
	}
	drop := 0
	for len(s.cache)-drop > maxCached || size > maxCachedSize {
		size -= len(s.cache[drop].body)
		drop++
	}
	s.cache = slices.Delete(s.cache, 0, drop)
}

// dropCached drops kept events about a group with a status and a source among some processes.
func (es *events) dropCached(status codec.Status, id string, from []codec.Proc) {
	for _, s := range es.spaces {
		s.cache = slices.DeleteFunc(s.cache, func(n *notice) bool {
			if n.Status != status || !codec.AnyMatch(from, []codec.Proc{n.Source}) {
				return false
			}
			of, err := groupID(&n.Event)
			return err == nil && of == id
		})
	}
}

// raiseAbout raises an event about a group and a process at some processes.
func (es *events) raiseAbout(targets []codec.Proc, status codec.Status, id string, about *process) {
	ev := codec.Event{
		Status: status, Source: about.name, Range: codec.RangeCustom, Targets: targets, Affected: []codec.Proc{about.name},
		NonDefault: true, Info: []codec.Info{{Key: codec.KeyGroupID, Value: codec.StringValue(id)}},
	}
	ev.Info = ev.Pack()
	if about.local && about.exited {
		if status, _ := about.describeEnd(about.exit); status == codec.StatusSuccess {
			_ = es.announce(ev) // other nodes hear of failures only; nothing in it fails to pack
			return
		}
	}
	_ = es.raise(ev) // nothing in it fails to pack
}
