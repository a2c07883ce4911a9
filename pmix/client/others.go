package client

import (
	"context"
	"fmt"
	"strings"

	"github.com/goshmem/goshmem/pmix/wire"
)

// reserved reports whether a key is the server's to set: what begins so is known of a job as a whole.
func reserved(key string) bool { return strings.HasPrefix(key, "pmix") }

// learn keeps the description of another job.
func (c *Client) learn(info *wire.JobInfo) error {
	j := emptyJobInfo()
	for _, kv := range info.Pairs {
		if err := j.add(kv, wire.RankUndef); err != nil {
			return fmt.Errorf("pmix: description of the job %s: %w", info.Nspace, err)
		}
	}
	c.keepJob(info.Nspace, j)
	return nil
}

func (c *Client) keepJob(nspace string, j *jobInfo) {
	here, _ := c.job.lookup(c.opts.Rank, wire.KeyHostname)
	for _, node := range j.nodes { // number our node as the other job does
		if node[wire.KeyHostname] == here {
			j.nodeID, _ = j.number(node, wire.KeyNodeID)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if nspace != c.opts.Nspace {
		c.others[nspace] = j
	}
}

// otherKnown looks a key up in what is known of another job.
func (c *Client) otherKnown(proc wire.Proc, key string) (wire.Value, bool) {
	c.mu.Lock()
	j := c.others[proc.Nspace]
	c.mu.Unlock()
	if j == nil {
		return wire.Value{}, false
	}
	return j.lookup(proc.Rank, key)
}

// askJob asks the server for everything that it knows of another job, and looks a key up in it.
func (c *Client) askJob(ctx context.Context, op string, proc wire.Proc, key string) (wire.Value, error) {
	r := &wire.GetRequest{Proc: wire.Proc{Nspace: proc.Nspace, Rank: wire.RankWildcard}, Key: key}
	answer, err := c.call(ctx, op, r)
	if err != nil {
		return wire.Value{}, err
	}
	reply, err := wire.DecodeGetReply(answer)
	if err != nil {
		return wire.Value{}, fmt.Errorf("pmix %s: answer: %w", op, err)
	}
	if err := statusError(op, reply.Status); err != nil {
		return wire.Value{}, err
	}
	j := emptyJobInfo()
	for i := range reply.Data {
		if err := j.addData(&reply.Data[i]); err != nil {
			return wire.Value{}, fmt.Errorf("pmix %s: answer: %w", op, err)
		}
	}
	c.keepJob(proc.Nspace, j)
	if v, ok := j.lookup(proc.Rank, key); ok {
		return v, nil
	}
	return wire.Value{}, &StatusError{Op: op, Status: wire.StatusErrNotFound}
}

// addData adds a part of the answer to a get: what is known of the job, or of one process.
func (j *jobInfo) addData(data *wire.ProcData) error {
	pairs, err := data.Pairs()
	if err != nil {
		return err
	}
	for _, kv := range pairs {
		if data.Proc.Rank != wire.RankWildcard {
			set(j.procs, data.Proc.Rank, kv)
			continue
		}
		if err := j.add(kv, wire.RankUndef); err != nil {
			return err
		}
	}
	return nil
}
