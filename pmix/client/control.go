package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goshmem/goshmem/pmix/codec"
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
//   - Errors: a StatusError with codec.StatusErrNoPermissions for processes that are neither of this namespace nor
//     spawned by this process.
func (c *Client) ControlProcs(ctx context.Context, targets []codec.Proc, action Control) error {
	r := &codec.JobControlRequest{Targets: targets, Info: appendFlags(nil, map[string]bool{
		codec.KeyJobCtrlKill: action.Kill, codec.KeyJobCtrlTerminate: action.Terminate,
		codec.KeyJobCtrlPause: action.Pause, codec.KeyJobCtrlResume: action.Resume,
	})}
	if action.Signal != 0 {
		r.Info = append(r.Info, codec.Info{Key: codec.KeyJobCtrlSignal, Value: codec.IntValue(int32(action.Signal))})
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
//   - Errors: a StatusError with codec.StatusErrBadParam for a path that is relative or the root; with
//     codec.StatusErrConflictingCleanupDirectives for a path that Ignore names as well.
func (c *Client) RegisterCleanup(ctx context.Context, targets []codec.Proc, what Cleanup) error {
	r := &codec.JobControlRequest{Targets: targets}
	for _, list := range []struct {
		key   string
		paths []string
	}{
		{codec.KeyRegisterCleanup, what.Files}, {codec.KeyRegisterCleanupDir, what.Dirs}, {codec.KeyCleanupIgnore, what.Ignore},
	} {
		for _, path := range list.paths {
			if path == "" || strings.ContainsAny(path, ",\x00") {
				return fmt.Errorf("pmix register cleanup: path %q, want a path without comma and NUL", path)
			}
		}
		if len(list.paths) > 0 {
			joined := codec.StringValue(strings.Join(list.paths, ","))
			r.Info = append(r.Info, codec.Info{Key: list.key, Value: joined})
		}
	}
	r.Info = appendFlags(r.Info, map[string]bool{
		codec.KeyCleanupRecursive: what.Recursive, codec.KeyCleanupEmpty: what.EmptyOnly,
		codec.KeyCleanupLeaveTopdir: what.LeaveTopDir,
	})
	return c.session.requestStatus(ctx, "register cleanup", r)
}
