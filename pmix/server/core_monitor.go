package server

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/wire"
)

// maxWatches bounds how many watches of one process there may be.
const maxWatches = 16

// watch observes a process that promised to send heartbeats.
type watch struct {
	process *process
	conn    connID
	id      string
	status  wire.Status // of the event that tells of trouble
	rng     wire.Range
	silent  bool // the event is not for default handlers
	period  tick
	drops   uint32 // periods without a heartbeat that are let pass
	next    tick   // end of the current period
	beaten  bool   // there was a heartbeat in it
	missed  uint32
	alarmed bool
}

// monitor begins to watch the caller, or ceases to.
func (c *core) monitor(at caller, r *wire.MonitorRequest) {
	switch r.Monitor.Key {
	case wire.KeyMonitorHeartbeat:
		w, err := readWatch(r)
		if err != nil {
			c.refuse(at, wire.StatusErrBadParam, "monitor: "+err.Error())
			return
		}
		if c.watchCount(at.conn) >= maxWatches {
			c.refuse(at, wire.StatusErrOutOfResource, fmt.Sprintf("monitor: %d watches are there already", maxWatches))
			return
		}
		w.process, w.conn = at.process, at.conn
		w.next = c.after(uint64(w.period))
		w.period = w.next - c.now
		c.watches = append(c.watches, w)
		c.reply(at, wire.StatusSuccess)
	case wire.KeyMonitorCancel:
		id, _ := r.Monitor.Value.Str()
		before := len(c.watches)
		c.dropWatches(func(w *watch) bool { return w.conn == at.conn && (id == "" || w.id == id) })
		if id != "" && len(c.watches) == before {
			c.reply(at, wire.StatusErrNotFound)
			return
		}
		c.reply(at, wire.StatusSuccess)
	default:
		c.reply(at, wire.StatusErrNotSupported)
	}
}

// readWatch reads the terms of a watch; the period still is in seconds.
func readWatch(r *wire.MonitorRequest) (*watch, error) {
	w := &watch{status: r.Error, rng: wire.RangeNamespace, silent: wire.Flag(r.Info, wire.KeyEventNonDefault)}
	if w.status == wire.StatusSuccess {
		w.status = wire.StatusMonitorHeartbeatAlert
	}
	for _, info := range r.Info {
		ok := true
		switch info.Key {
		case wire.KeyMonitorHeartbeatTime:
			var n uint64
			n, ok = info.Value.Uint64()
			w.period = tick(n)
		case wire.KeyMonitorHeartbeatDrops:
			var n uint64
			n, ok = info.Value.Uint64()
			w.drops = uint32(min(n, 1<<31))
		case wire.KeyMonitorID:
			w.id, ok = info.Value.Str()
		case wire.KeyRange:
			w.rng, ok = info.Value.Data.(wire.Range)
			ok = ok && w.rng <= wire.RangeProcLocal && w.rng != wire.RangeCustom
		}
		if !ok {
			return nil, fmt.Errorf("%s is %v, want what belongs to it", info.Key, info.Value)
		}
	}
	if w.period == 0 {
		return nil, fmt.Errorf("%s is missing, want seconds", wire.KeyMonitorHeartbeatTime)
	}
	return w, nil
}

func (c *core) watchCount(conn connID) int {
	n := 0
	for _, w := range c.watches {
		if w.conn == conn {
			n++
		}
	}
	return n
}

func (c *core) dropWatches(over func(*watch) bool) { c.watches = slices.DeleteFunc(c.watches, over) }

// unwatch ends all watches of a connection that is over.
func (c *core) unwatch(conn connID) { c.dropWatches(func(w *watch) bool { return w.conn == conn }) }

// heartbeat takes a sign of life.
func (c *core) heartbeat(conn connID) {
	for _, w := range c.watches {
		if w.conn == conn {
			w.beaten, w.missed, w.alarmed = true, 0, false
		}
	}
}

// expireWatches looks at the periods that are over. Those whom the process shall not hear of itself are told once until
// its next heartbeat.
func (c *core) expireWatches() {
	c.dropWatches(func(w *watch) bool { return w.process.exited })
	for _, w := range c.watches {
		if !c.over(w.next) {
			continue
		}
		if !w.beaten {
			w.missed++
		}
		w.beaten = false
		if w.missed > w.drops && !w.alarmed {
			w.alarmed = true
			c.raiseAlert(w)
		}
		w.next = c.now + w.period
		c.lookBy(w.next)
	}
}

func (c *core) raiseAlert(w *watch) {
	ev := wire.Event{
		Status: w.status, Source: w.process.name, Range: w.rng, Affected: []wire.Proc{w.process.name}, NonDefault: w.silent,
	}
	if w.id != "" {
		ev.Info = []wire.Info{{Key: wire.KeyMonitorID, Value: wire.StringValue(w.id)}}
	}
	ev.Info = ev.Pack()
	_ = c.raise(ev) // nothing in it fails to pack
}
