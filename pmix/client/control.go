package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Control lists actions on processes.
type Control struct {
	Signal    int  // send this signal; 0 sends none
	Kill      bool // end the processes at once
	Terminate bool // ask the processes to end
	Pause     bool
	Resume    bool
}

// ControlProcs has the server act on processes. A wildcard rank stands for a namespace; no target stands for this one.
//
//   - Completion: the server has passed the request on.
//   - Errors: a StatusError with wire.StatusErrNoPermissions for processes that are neither of this namespace nor spawned by
//     this process.
func (c *Client) ControlProcs(ctx context.Context, targets []wire.Proc, action Control) error {
	r := &wire.JobControlRequest{Targets: targets, Info: appendFlags(nil, map[string]bool{
		wire.KeyJobCtrlKill: action.Kill, wire.KeyJobCtrlTerminate: action.Terminate,
		wire.KeyJobCtrlPause: action.Pause, wire.KeyJobCtrlResume: action.Resume,
	})}
	if action.Signal != 0 {
		r.Info = append(r.Info, wire.Info{Key: wire.KeyJobCtrlSignal, Value: wire.IntValue(int32(action.Signal))})
	}
	if len(r.Info) == 0 {
		return errors.New("pmix job control: no action given, want at least one field of Control")
	}
	return c.session.requestStatus(ctx, "job control", r)
}

// Cleanup names files and directories that the server removes after processes have ended. Paths are absolute and
// contain no comma.
type Cleanup struct {
	Files       []string // files to remove
	Dirs        []string // directories to empty of files; a directory that is empty then is removed
	Recursive   bool     // also empty the directories below Dirs
	EmptyOnly   bool     // remove only directories that are empty already
	LeaveTopDir bool     // keep Dirs themselves
	Ignore      []string // files and directories to keep
}

// RegisterCleanup has the server remove files when all targets have ended; no target stands for this namespace.
//
//   - Errors: a StatusError with wire.StatusErrBadParam for a path that is relative or the root; with
//     wire.StatusErrConflictingCleanupDirectives for a path that Ignore names as well.
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
				return fmt.Errorf("pmix register cleanup: path %q, want a path without comma and NUL", path)
			}
		}
		if len(list.paths) > 0 {
			joined := wire.StringValue(strings.Join(list.paths, ","))
			r.Info = append(r.Info, wire.Info{Key: list.key, Value: joined})
		}
	}
	r.Info = appendFlags(r.Info, map[string]bool{
		wire.KeyCleanupRecursive: what.Recursive, wire.KeyCleanupEmpty: what.EmptyOnly,
		wire.KeyCleanupLeaveTopdir: what.LeaveTopDir,
	})
	return c.session.requestStatus(ctx, "register cleanup", r)
}
