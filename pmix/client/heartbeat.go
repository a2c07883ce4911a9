package client

import (
	"context"
	"fmt"
	"time"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Heartbeats lets the server watch this process by the heartbeats that it sends.
type Heartbeats struct{ session *session }

// Watch directs the server's watch over a process.
type Watch struct {
	ID       string        // name of the watch, for Cancel
	Interval time.Duration // a time without a heartbeat that counts as one missed; in whole seconds, rounded up
	Drops    uint32        // how many heartbeats may be missed
	Range    wire.Range    // which processes get the alert; RangeUndef: those of the namespace
}

// Watch has the server watch this process. When heartbeats fail to come, the server raises
// wire.StatusMonitorHeartbeatAlert, once until the next heartbeat.
func (h *Heartbeats) Watch(ctx context.Context, w Watch) error {
	if w.Interval <= 0 {
		return fmt.Errorf("pmix monitor: interval %v, want more than 0", w.Interval)
	}
	r := &wire.MonitorRequest{
		Monitor: wire.Info{Key: wire.KeyMonitorHeartbeat, Value: wire.BoolValue(true)},
		Error:   wire.StatusMonitorHeartbeatAlert,
		Info: []wire.Info{
			{Key: wire.KeyMonitorHeartbeatTime, Value: wire.Uint32Value(wholeSeconds(w.Interval))},
			{Key: wire.KeyMonitorHeartbeatDrops, Value: wire.Uint32Value(w.Drops)},
		},
	}
	if w.ID != "" {
		r.Info = append(r.Info, wire.Info{Key: wire.KeyMonitorID, Value: wire.StringValue(w.ID)})
	}
	if w.Range != wire.RangeUndef {
		r.Info = append(r.Info, wire.Info{Key: wire.KeyRange, Value: wire.Value{Type: wire.TypeDataRange, Data: w.Range}})
	}
	return h.session.requestStatus(ctx, "monitor", r)
}

// Cancel ends the watch of the given name; an empty name ends all watches over this process.
func (h *Heartbeats) Cancel(ctx context.Context, id string) error {
	return h.session.requestStatus(ctx, "monitor", &wire.MonitorRequest{
		Monitor: wire.Info{Key: wire.KeyMonitorCancel, Value: wire.StringValue(id)},
	})
}

// Send sends one heartbeat.
//
//   - Completion: the heartbeat is on its way; the server does not answer it.
func (h *Heartbeats) Send(ctx context.Context) error {
	if h.session.isFinalized() {
		return fmt.Errorf("pmix heartbeat: %w", ErrFinalized)
	}
	if err := h.session.conn.send(ctx, wire.AppendFrame(nil, 0, wire.TagHeartbeat, nil)); err != nil {
		return fmt.Errorf("pmix heartbeat: %w", err)
	}
	return nil
}
