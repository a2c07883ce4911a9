package client

import (
	"context"
	"fmt"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Heartbeats lets the server watch this process by the heartbeats that it sends.
type Heartbeats struct{ session *session }

// Watch directs the server's watch over a process.
type Watch struct {
	ID       string        // name of the watch, for Cancel
	Interval time.Duration // a time without a heartbeat that counts as one missed; in whole seconds, rounded up
	Drops    uint32        // how many heartbeats may be missed
	Range    codec.Range   // which processes get the alert; RangeUndef: those of the namespace
}

// Watch has the server watch this process. When heartbeats fail to come, the server raises
// codec.StatusMonitorHeartbeatAlert, once until the next heartbeat.
func (h *Heartbeats) Watch(ctx context.Context, w Watch) error {
	if w.Interval <= 0 {
		return fmt.Errorf("pmix monitor: interval %v, want more than 0", w.Interval)
	}
	r := &codec.MonitorRequest{
		Monitor: codec.Info{Key: codec.KeyMonitorHeartbeat, Value: codec.BoolValue(true)},
		Error:   codec.StatusMonitorHeartbeatAlert,
		Info: []codec.Info{
			{Key: codec.KeyMonitorHeartbeatTime, Value: codec.Uint32Value(wholeSeconds(w.Interval))},
			{Key: codec.KeyMonitorHeartbeatDrops, Value: codec.Uint32Value(w.Drops)},
		},
	}
	if w.ID != "" {
		r.Info = append(r.Info, codec.Info{Key: codec.KeyMonitorID, Value: codec.StringValue(w.ID)})
	}
	if w.Range != codec.RangeUndef {
		r.Info = append(r.Info, codec.Info{Key: codec.KeyRange, Value: codec.Value{Type: codec.TypeDataRange, Data: w.Range}})
	}
	return h.session.requestStatus(ctx, "monitor", r)
}

// Cancel ends the watch of the given name; an empty name ends all watches over this process.
func (h *Heartbeats) Cancel(ctx context.Context, id string) error {
	return h.session.requestStatus(ctx, "monitor", &codec.MonitorRequest{
		Monitor: codec.Info{Key: codec.KeyMonitorCancel, Value: codec.StringValue(id)},
	})
}

// Send sends one heartbeat.
//
//   - Completion: the heartbeat is on its way; the server does not answer it.
func (h *Heartbeats) Send(ctx context.Context) error {
	if h.session.isFinalized() {
		return fmt.Errorf("pmix heartbeat: %w", ErrFinalized)
	}
	if err := h.session.conn.send(ctx, codec.AppendFrame(nil, 0, codec.TagHeartbeat, nil)); err != nil {
		return fmt.Errorf("pmix heartbeat: %w", err)
	}
	return nil
}
