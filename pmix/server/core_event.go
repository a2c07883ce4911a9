package server

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Bounds on the events that a namespace keeps for handlers that come late. The oldest make room.
const (
	maxCached     = 512
	maxCachedSize = 4 << 20 // bytes in all of them
)

// registrations are the events that a process asked for.
type registrations struct {
	codes map[wire.Status][]filter // StatusMaxErrConstant stands for all events that are not reserved
	size  int                      // codes and processes that they name
}

// filter restricts a registration to events about some processes; empty: no restriction.
type filter []wire.Proc

// notice is an event on its way to clients, and to those who register later.
type notice struct {
	wire.Event
	body  []byte // of the frame, the same for all
	heard map[connID]struct{}
	until tick // zero: it does not age
}

// want says whether a process asked for an event.
func (e *registrations) want(ev *wire.Event) bool {
	if passes(e.codes[ev.Status], ev.Affected) {
		return true
	}
	return !ev.NonDefault && passes(e.codes[wire.StatusMaxErrConstant], ev.Affected)
}

func passes(filters []filter, affected []wire.Proc) bool {
	return slices.ContainsFunc(filters, func(f filter) bool {
		return len(f) == 0 || len(affected) == 0 || wire.AnyMatch(f, affected)
	})
}

// registerEvents also delivers what is kept for those who come late, after the answer.
func (c *core) registerEvents(at caller, r *wire.RegisterEventsRequest) {
	codes := r.Codes
	if len(codes) == 0 {
		codes = []wire.Status{wire.StatusMaxErrConstant}
	}
	only, err := affected(r.Info)
	if err != nil {
		c.refuse(at, wire.StatusErrBadParam, "register events: "+err.Error())
		return
	}
	size := len(codes) * (1 + len(only))
	if at.events.size+size > maxRemembered {
		c.refuse(at, wire.StatusErrOutOfResource, fmt.Sprintf("register events: more than %d codes and processes", maxRemembered))
		return
	}
	at.events.add(codes, only)
	c.reply(at, wire.StatusSuccess)
	for _, n := range at.space.cache {
		if !n.stale(c.now) && c.inRange(&n.Event, at.process) {
			c.offer(n, at.process)
		}
	}
}

// affected reads which processes a handler wants to hear about.
func affected(infos []wire.Info) (filter, error) {
	ev, err := wire.ParseEvent(wire.Notification{Info: infos})
	return ev.Affected, err
}

func (e *registrations) add(codes []wire.Status, only filter) {
	if e.codes == nil {
		e.codes = map[wire.Status][]filter{}
	}
	for _, code := range codes {
		e.codes[code] = append(e.codes[code], only)
		e.size += 1 + len(only)
	}
}

// deregisterEvents is not answered. A client sends it for a code when it has no handler for it any more, however many
// registrations there were.
func (*core) deregisterEvents(at caller, r *wire.DeregisterEventsRequest) {
	for _, code := range r.Codes {
		for _, only := range at.events.codes[code] {
			at.events.size -= 1 + len(only)
		}
		delete(at.events.codes, code)
	}
}

// notify takes an event of a client's.
func (c *core) notify(at caller, r *wire.NotifyRequest) {
	ev, err := wire.ParseEvent(wire.Notification{Status: r.Status, Source: at.name, Info: r.Info, Range: r.Range})
	if err == nil {
		err = c.checkRange(at.process, &ev)
	}
	if err != nil {
		c.refuse(at, wire.StatusErrBadParam, "notify event: "+err.Error())
		return
	}
	if status, err := c.groupNews(at.process, &ev); err != nil {
		c.refuse(at, status, fmt.Sprintf("notify event %v: %v", ev.Status, err))
		return
	}
	if err := c.raise(ev); err != nil {
		c.refuse(at, wire.StatusErrBadParam, "notify event: "+err.Error())
		return
	}
	c.reply(at, wire.StatusSuccess)
}

// checkRange says what is wrong with the range of an event, and puts processes in the place of groups.
func (c *core) checkRange(from *process, ev *wire.Event) error {
	switch {
	case ev.Range > wire.RangeProcLocal:
		return fmt.Errorf("range %d, want at most %d", ev.Range, wire.RangeProcLocal)
	case ev.Range == wire.RangeCustom && len(ev.Targets) == 0:
		return fmt.Errorf("range %d without %s, want the processes", ev.Range, wire.KeyEventCustomRange)
	case ev.Range != wire.RangeCustom && len(ev.Targets) > 0:
		return fmt.Errorf("%s with range %d, want %d", wire.KeyEventCustomRange, ev.Range, wire.RangeCustom)
	}
	ev.Targets = c.expand(from, ev.Targets)
	return nil
}

// raise delivers an event to whoever wants it now and keeps it for those who will. The process that it comes from has
// dealt with it already.
func (c *core) raise(ev wire.Event) error {
	if ev.Range == wire.RangeRM || ev.Range == wire.RangeProcLocal {
		return nil
	}
	frame := wire.Notification{Status: ev.Status, Source: ev.Source, Info: ev.Info, Range: ev.Range}
	body, err := frame.Append(nil)
	if err != nil {
		return err
	}
	n := &notice{Event: ev, body: body, heard: map[connID]struct{}{}}
	if ev.Timeout > 0 {
		n.until = c.now + tick(min(ev.Timeout, 1<<31))*c.second
	}
	for _, name := range sortedKeys(c.spaces) {
		for _, p := range c.spaces[name].procs {
			if c.inRange(&ev, p) {
				c.offer(n, p)
			}
		}
	}
	if !ev.NoCache {
		c.keep(n)
	}
	return nil
}

// inRange says whether an event is for a process. A tool sees what happens in the jobs.
func (c *core) inRange(ev *wire.Event, p *process) bool {
	switch ev.Range {
	case wire.RangeUndef, wire.RangeSession, wire.RangeGlobal:
		return true
	case wire.RangeLocal:
		return p.local
	case wire.RangeNamespace:
		return p.name.Nspace == ev.Source.Nspace || p.space.tool
	case wire.RangeCustom:
		return wire.AnyMatch(ev.Targets, []wire.Proc{p.name})
	default:
		return false
	}
}

// offer sends an event to a process that can take it, wants it and has not had it.
func (c *core) offer(n *notice, p *process) {
	if p.phase != phaseConnected || p.exited || p.name == n.Source || !p.events.want(&n.Event) {
		return
	}
	if _, heard := n.heard[p.conn]; heard {
		return
	}
	n.heard[p.conn] = struct{}{}
	c.send(p.conn, wire.TagNotify, n.body)
}

func (n *notice) stale(now tick) bool { return n.until != 0 && n.until <= now }

// keep remembers an event for the late. It stays within the job that it comes from, whatever its range, as what went
// wrong in one job is none of another's business later; one with targets stays with the jobs of those, and one from
// outside of all jobs with those that it affects.
func (c *core) keep(n *notice) {
	var homes []wire.Proc
	switch {
	case n.Range == wire.RangeCustom:
		homes = n.Targets
	case c.spaces[n.Source.Nspace] != nil:
		homes = []wire.Proc{n.Source}
	default:
		homes = n.Affected
	}
	kept := map[*nspace]bool{}
	for _, home := range homes {
		if s := c.spaces[home.Nspace]; s != nil && !kept[s] {
			kept[s] = true
			s.keep(n, c.now)
		}
	}
}

func (s *nspace) keep(n *notice, now tick) {
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
