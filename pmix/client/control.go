package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Control says what is to happen to processes.
type Control struct {
	Signal    int  // to be sent; 0: none
	Kill      bool // end them at once
	Terminate bool // ask them to end
	Pause     bool
	Resume    bool
}

// ControlProcs has the server act on processes; a wildcard rank stands for a namespace, and no target at all for this one.
//
//   - Completion: the server has passed it on.
//   - Errors: a StatusError with wire.StatusErrNoPermissions for processes that are neither of this namespace nor spawned by
//     this process.
func (c *Client) ControlProcs(ctx context.Context, targets []wire.Proc, action Control) error {
	r := &wire.JobControlRequest{Targets: targets, Info: switches(nil, map[string]bool{
		wire.KeyJobCtrlKill: action.Kill, wire.KeyJobCtrlTerminate: action.Terminate,
		wire.KeyJobCtrlPause: action.Pause, wire.KeyJobCtrlResume: action.Resume,
	})}
	if action.Signal != 0 {
		r.Info = append(r.Info, wire.Info{Key: wire.KeyJobCtrlSignal, Value: wire.IntValue(int32(action.Signal))})
	}
	if len(r.Info) == 0 {
		return errors.New("pmix job control: nothing to do, want an action")
	}
	return c.status(ctx, "job control", r)
}

// Cleanup names what the server is to remove when its owners have ended. Paths are absolute and without commas.
type Cleanup struct {
	Files       []string
	Dirs        []string // their files; they themselves if nothing is left in them
	Recursive   bool     // their folders too
	EmptyOnly   bool     // nothing but empty folders
	LeaveTopDir bool     // Dirs themselves stay
	Ignore      []string // not these
}

// RegisterCleanup has the server remove files when all targets have ended; no target stands for this namespace.
//
//   - Errors: a StatusError with wire.StatusErrBadParam for a path that is relative or the root, with
//     wire.StatusErrConflictingCleanupDirectives for one that is to be ignored as well.
func (c *Client) RegisterCleanup(ctx context.Context, targets []wire.Proc, what Cleanup) error {
	r := &wire.JobControlRequest{Targets: targets}
	for _, list := range []struct {
		key   string
		paths []string
	}{
		{wire.KeyRegisterCleanup, what.Files}, {wire.KeyRegisterCleanupDir, what.Dirs}, {wire.KeyCleanupIgnore, what.Ignore},
	} {
		for _, path := range list.paths {
			if path == "" || strings.ContainsAny(path, ",\x00") {
				return fmt.Errorf("pmix register cleanup: path %q, want one without comma and NUL", path)
			}
		}
		if len(list.paths) > 0 {
			joined := wire.StringValue(strings.Join(list.paths, ","))
			r.Info = append(r.Info, wire.Info{Key: list.key, Value: joined})
		}
	}
	r.Info = switches(r.Info, map[string]bool{
		wire.KeyCleanupRecursive: what.Recursive, wire.KeyCleanupEmpty: what.EmptyOnly,
		wire.KeyCleanupLeaveTopdir: what.LeaveTopDir,
	})
	return c.status(ctx, "register cleanup", r)
}

// Watch directs the observation of a process by its heartbeats.
type Watch struct {
	ID       string        // for CancelMonitor
	Interval time.Duration // without a heartbeat that counts as one missed; in whole seconds, rounded up
	Drops    uint32        // how many may be missed
	Range    wire.Range    // who is told; undef: the namespace
}

// MonitorHeartbeat has the server watch this process: if heartbeats fail to come, it raises
// wire.StatusMonitorHeartbeatAlert, once until the next heartbeat.
func (c *Client) MonitorHeartbeat(ctx context.Context, w Watch) error {
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
	return c.status(ctx, "monitor", r)
}

// CancelMonitor ends the observation that was given this name, all of this process if it is empty.
func (c *Client) CancelMonitor(ctx context.Context, id string) error {
	return c.status(ctx, "monitor", &wire.MonitorRequest{
		Monitor: wire.Info{Key: wire.KeyMonitorCancel, Value: wire.StringValue(id)},
	})
}

// Heartbeat tells the server that this process is alive. It is not answered.
func (c *Client) Heartbeat(ctx context.Context) error {
	if c.isFinalized() {
		return fmt.Errorf("pmix heartbeat: %w", ErrFinalized)
	}
	if err := c.conn.send(ctx, wire.AppendFrame(nil, 0, wire.TagHeartbeat, nil)); err != nil {
		return fmt.Errorf("pmix heartbeat: %w", err)
	}
	return nil
}
