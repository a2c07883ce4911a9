package client

import (
	"context"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Fence waits until all processes of the job have called it. With collect, all committed data can be read afterwards
// without asking other nodes.
//
//   - Collective: over the job.
//   - Errors: ErrProcFailed when a process ended instead; the context's. A fence that one process left early stays
//     unfinished for the others.
func (c *Client) Fence(ctx context.Context, collect bool) error {
	return c.FenceProcs(ctx, []codec.Proc{{Nspace: c.Nspace(), Rank: codec.RankWildcard}}, FenceOptions{Collect: collect})
}

// FenceOptions direct a fence.
type FenceOptions struct {
	Collect bool          // exchange the data of the participants
	Timeout time.Duration // ends the fence for all participants with ErrTimeout; counted in whole seconds, rounded up
}

// FenceProcs is Fence over the given processes, which must name the same set everywhere and include the caller.
func (c *Client) FenceProcs(ctx context.Context, procs []codec.Proc, opts FenceOptions) error {
	r := &codec.FenceRequest{Procs: procs}
	if opts.Collect {
		r.Info = append(r.Info, codec.Info{Key: codec.KeyCollectData, Value: codec.BoolValue(true)})
	}
	r.Info = appendTimeout(r.Info, opts.Timeout)
	return c.session.requestStatus(ctx, "fence", r)
}

// abortPatience bounds the wait for a server that may be about to kill this process.
const abortPatience = 10 * time.Second

// Abort asks the server to end processes, all of the job when none is named; a wildcard rank stands for a whole job.
//
//   - Completion: the server has accepted the request. Abort does not return if the server kills this process first.
func (c *Client) Abort(status int, msg string, procs ...codec.Proc) error {
	ctx, cancel := context.WithTimeout(context.Background(), abortPatience)
	defer cancel()
	r := &codec.AbortRequest{Status: codec.Status(status), Message: msg, Procs: procs}
	return c.session.requestStatus(ctx, "abort", r)
}
