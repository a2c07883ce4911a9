package server

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// maxWatches bounds the watches of one connection.
const maxWatches = 16

// watch observes a process that promised to send heartbeats.
type watch struct {
	process *process
	conn    connID
	id      string
	status  codec.Status // of the event that reports missing heartbeats
	rng     codec.Range  // of that event
	silent  bool         // Default handlers do not get the event.
	period  tick
	drops   uint32 // number of periods without a heartbeat that raise no event
	next    tick   // end of the current period
	beaten  bool   // The current period has had a heartbeat.
	missed  uint32 // number of periods without one, in a row
	alarmed bool   // The event was raised since the last heartbeat.
}

// watches observes processes that promised to send heartbeats.
type watches struct {
	*common
	events *events
	all    []*watch // the oldest first
}

// monitor serves a request to begin a watch of the caller, or to end one.
func (ws *watches) monitor(at caller, r *codec.MonitorRequest) {
	switch r.Monitor.Key {
	case codec.KeyMonitorHeartbeat:
		w, err := readWatch(r)
		if err != nil {
			ws.refuse(at, codec.StatusErrBadParam, "monitor: "+err.Error())
			return
		}
		if ws.countWatches(at.conn) >= maxWatches {
			ws.refuse(at, codec.StatusErrOutOfResource, fmt.Sprintf("monitor: the caller has %d watches already, which is the limit", maxWatches))
			return
		}
		w.process, w.conn = at.process, at.conn
		w.next = ws.deadlineIn(uint64(w.period))
		w.period = w.next - ws.now
		ws.all = append(ws.all, w)
		ws.reply(at, codec.StatusSuccess)
	case codec.KeyMonitorCancel:
		id, _ := r.Monitor.Value.Str()
		before := len(ws.all)
		ws.dropWhere(func(w *watch) bool { return w.conn == at.conn && (id == "" || w.id == id) })
		if id != "" && len(ws.all) == before {
			ws.reply(at, codec.StatusErrNotFound)
			return
		}
		ws.reply(at, codec.StatusSuccess)
	default:
		ws.reply(at, codec.StatusErrNotSupported)
	}
}

// readWatch reads the terms of a watch, with the period in seconds.
func readWatch(r *codec.MonitorRequest) (*watch, error) {
	w := &watch{status: r.Error, rng: codec.RangeNamespace, silent: codec.Flag(r.Info, codec.KeyEventNonDefault)}
	if w.status == codec.StatusSuccess {
		w.status = codec.StatusMonitorHeartbeatAlert
	}
	for _, info := range r.Info {
		ok, wanted := true, "a number, 0 or more"
		switch info.Key {
		case codec.KeyMonitorHeartbeatTime:
			var n uint64
			n, ok = info.Value.Uint64()
			w.period = tick(n)
		case codec.KeyMonitorHeartbeatDrops:
			var n uint64
			n, ok = info.Value.Uint64()
			w.drops = uint32(min(n, 1<<31))
		case codec.KeyMonitorID:
			wanted = "a string"
			w.id, ok = info.Value.Str()
		case codec.KeyRange:
			wanted = "a data range other than custom"
			w.rng, ok = info.Value.Data.(codec.Range)
			ok = ok && w.rng <= codec.RangeProcLocal && w.rng != codec.RangeCustom
		}
		if !ok {
			return nil, fmt.Errorf("%s is %v (type %d), want %s", info.Key, info.Value, info.Value.Type, wanted)
		}
	}
	if w.period == 0 {
		return nil, fmt.Errorf("%s is missing or 0, want a number of seconds", codec.KeyMonitorHeartbeatTime)
	}
	return w, nil
}

// countWatches returns the number of watches of a connection.
func (ws *watches) countWatches(conn connID) int {
	n := 0
	for _, w := range ws.all {
		if w.conn == conn {
			n++
		}
	}
	return n
}

// dropWhere drops the watches that are over.
func (ws *watches) dropWhere(over func(*watch) bool) { ws.all = slices.DeleteFunc(ws.all, over) }

// dropConnection drops all watches of a connection that has ended.
func (ws *watches) dropConnection(conn connID) {
	ws.dropWhere(func(w *watch) bool { return w.conn == conn })
}

// recordHeartbeat records a heartbeat for all watches of a connection.
func (ws *watches) recordHeartbeat(conn connID) {
	for _, w := range ws.all {
		if w.conn == conn {
			w.beaten, w.missed, w.alarmed = true, 0, false
		}
	}
}

// expire looks at the periods that have ended. After too many periods without a heartbeat it raises the event once, and
// again only after a further heartbeat.
func (ws *watches) expire() {
	ws.dropWhere(func(w *watch) bool { return w.process.exited })
	for _, w := range ws.all {
		if !ws.checkDeadline(w.next) {
			continue
		}
		if !w.beaten {
			w.missed++
		}
		w.beaten = false
		if w.missed > w.drops && !w.alarmed {
			w.alarmed = true
			ws.raiseAlert(w)
		}
		w.next = ws.now + w.period
		ws.noteDeadline(w.next)
	}
}

// raiseAlert raises the event of a watch.
func (ws *watches) raiseAlert(w *watch) {
	ev := codec.Event{
		Status: w.status, Source: w.process.name, Range: w.rng, Affected: []codec.Proc{w.process.name}, NonDefault: w.silent,
	}
	if w.id != "" {
		ev.Info = []codec.Info{{Key: codec.KeyMonitorID, Value: codec.StringValue(w.id)}}
	}
	ev.Info = ev.Pack()
	_ = ws.events.announce(ev) // nothing in it fails to pack
}
