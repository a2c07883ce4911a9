package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/goshmem/goshmem/pmix/wire"
)

// App is one program of a job to be spawned.
type App struct {
	Path  string      // the program's file
	Args  []string    // its arguments, with its name as the first; empty: the name alone
	Env   []string    // in addition to the environment that the server gives
	Dir   string      // working directory; empty: as the server has it
	Procs int         // number of processes
	Info  []wire.Info // further directives
}

// SpawnOptions direct a spawn.
type SpawnOptions struct {
	// Output takes what the new job writes, from its first byte on; nil: nobody does. See IOFPull for how it is called.
	Output func(Output)
	Info   []wire.Info // further directives
}

// Spawn has the server start a job and returns its namespace.
//
//   - Completion: the processes are started; Connect waits until they have come up.
//   - Errors: a StatusError with what the launcher says.
func (c *Client) Spawn(ctx context.Context, apps []App, opts SpawnOptions) (nspace string, err error) {
	forward := wire.BoolValue(opts.Output != nil) // said in any case: a tool would get it otherwise
	r := &wire.SpawnRequest{Info: append(slices.Clip(opts.Info),
		wire.Info{Key: wire.KeyFwdStdout, Value: forward}, wire.Info{Key: wire.KeyFwdStderr, Value: forward})}
	if opts.Output != nil {
		c.pulls.beginSpawn()
		defer c.pulls.endSpawn(&nspace, opts.Output)
	}
	for _, a := range apps {
		args := a.Args
		if len(args) == 0 {
			args = []string{a.Path}
		}
		r.Apps = append(r.Apps, wire.App{
			Cmd: a.Path, Argv: args, Env: a.Env, Cwd: a.Dir, MaxProcs: int32(min(a.Procs, 1<<31-1)), Info: a.Info,
		})
	}
	answer, err := c.call(ctx, "spawn", r)
	if err != nil {
		return "", err
	}
	reply, err := wire.DecodeSpawnReply(answer)
	if err != nil {
		return "", fmt.Errorf("pmix spawn: answer: %w", err)
	}
	if err := statusError("spawn", reply.Status); err != nil {
		return "", err
	}
	return reply.Job.Nspace, c.learn(&reply.Job)
}

// Connect waits until the given processes of several jobs have all called it; a wildcard rank stands for a whole job.
// From then on they know what the servers know of each other's jobs.
//
//   - Collective: over the processes, which must name the same set everywhere and include the caller.
//   - Errors: ErrProcFailed when one of them ended instead; ErrTimeout when the timeout, 0 for none, is over; the context's.
func (c *Client) Connect(ctx context.Context, procs []wire.Proc, timeout time.Duration) error {
	answer, err := c.call(ctx, "connect", &wire.ConnectRequest{Procs: procs, Info: appendTimeout(nil, timeout)})
	if err != nil {
		return err
	}
	reply, err := wire.DecodeConnectReply(answer)
	if err != nil {
		return fmt.Errorf("pmix connect: answer: %w", err)
	}
	if err := statusError("connect", reply.Status); err != nil {
		return err
	}
	for i := range reply.Jobs {
		if err := c.learn(&reply.Jobs[i]); err != nil {
			return err
		}
	}
	return nil
}

// Disconnect ends what Connect began, in the same way. What was learned of other jobs is forgotten.
func (c *Client) Disconnect(ctx context.Context, procs []wire.Proc, timeout time.Duration) error {
	err := c.status(ctx, "disconnect", &wire.DisconnectRequest{Procs: procs, Info: appendTimeout(nil, timeout)})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range procs {
		delete(c.others, p.Nspace)
	}
	return err
}

// Parent returns the process that spawned this process's job.
func (c *Client) Parent() (parent wire.Proc, ok bool) {
	v, ok := c.job.lookup(wire.RankWildcard, wire.KeyParentID)
	if !ok {
		v, _ = c.job.lookup(c.opts.Rank, wire.KeyParentID)
	}
	parent, ok = v.Data.(wire.Proc)
	return parent, ok
}
