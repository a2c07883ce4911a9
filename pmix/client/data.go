package client

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/goshmem/goshmem/pmix/wire"
)

// put is a value that waits for the next commit.
type put struct {
	scope wire.Scope
	kv    wire.KVal
}

// Put stages a value for others to get after the next Commit; this process can get it at once.
// Byte objects are not copied and must not change until the commit.
//
//   - Errors: a key, scope or value that cannot be sent.
func (c *Client) Put(scope wire.Scope, key string, value wire.Value) error {
	if err := checkKey("put", key); err != nil {
		return err
	}
	if scope < wire.ScopeLocal || scope > wire.ScopeInternal {
		return fmt.Errorf("pmix put %s: scope %d, want %d to %d", key, scope, wire.ScopeLocal, wire.ScopeInternal)
	}
	e := wire.NewEncoder(nil)
	e.Value(value)
	if err := e.Err(); err != nil {
		return fmt.Errorf("pmix put %s: %w", key, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finalized {
		return fmt.Errorf("pmix put %s: %w", key, ErrFinalized)
	}
	c.own[key] = value
	if scope != wire.ScopeInternal {
		c.staged = append(c.staged, put{scope, wire.KVal{Key: key, Value: value}})
	}
	return nil
}

func checkKey(op, key string) error {
	if key == "" || len(key) > wire.MaxKeyLen || strings.IndexByte(key, 0) >= 0 {
		return fmt.Errorf("pmix %s: key %q, want 1 to %d bytes without NUL", op, key, wire.MaxKeyLen)
	}
	return nil
}

// Commit hands everything put since the last commit to the server. Without any it does nothing.
//
//   - Completion: on return, processes of this node can get the values; of other nodes, after a fence or on request.
//   - Errors: what was put stays staged for another attempt.
func (c *Client) Commit(ctx context.Context) error {
	c.mu.Lock()
	staged := c.staged
	c.staged = nil
	c.mu.Unlock()
	if len(staged) == 0 && !c.isFinalized() {
		return nil
	}
	err := c.status(ctx, "commit", commitRequest(staged))
	if err != nil {
		c.mu.Lock()
		c.staged = append(staged, c.staged...)
		c.mu.Unlock()
	}
	return err
}

// commitRequest sorts puts into one blob for readers on this node and one for those on others, as libpmix does.
func commitRequest(staged []put) *wire.CommitRequest {
	local, remote := wire.NewEncoder(nil), wire.NewEncoder(nil)
	for _, p := range staged {
		if p.scope != wire.ScopeRemote {
			local.KValGroup(p.kv)
		}
		if p.scope != wire.ScopeLocal {
			remote.KValGroup(p.kv)
		}
	}
	r := &wire.CommitRequest{}
	if len(local.Bytes()) > 0 {
		r.Blobs = append(r.Blobs, wire.ScopedBlob{Scope: wire.ScopeLocal, Data: local.Bytes()})
	}
	if len(remote.Bytes()) > 0 {
		r.Blobs = append(r.Blobs, wire.ScopedBlob{Scope: wire.ScopeRemote, Data: remote.Bytes()})
	}
	return r
}

// GetOptions direct a get.
type GetOptions struct {
	Optional  bool          // look only at what this process knows already
	Immediate bool          // let the server answer with what it has
	Refresh   bool          // do not use what an earlier get brought
	Timeout   time.Duration // ends the wait for a value with ErrTimeout; counted in whole seconds, rounded up
}

// Get returns a value: of this process as it was put, of the job's description, or of another process. If the other
// process has not committed it yet, Get waits.
// The value must not be changed: a get brings all of a process's data, which later gets share.
//
//   - Errors: ErrNotFound; ErrProcFailed when the process ended without committing it; ErrTimeout; the context's.
func (c *Client) Get(ctx context.Context, proc wire.Proc, key string, opts GetOptions) (wire.Value, error) {
	op := "get " + proc.String() + " " + key
	if key == "" {
		return wire.Value{}, fmt.Errorf("pmix %s: key is empty, want a name", op)
	}
	if proc.Nspace == c.opts.Nspace {
		if v, ok := c.known(proc.Rank, key, opts.Refresh); ok {
			return v, nil
		}
	} else if v, ok := c.otherKnown(proc, key); ok {
		return v, nil
	}
	if opts.Optional {
		return wire.Value{}, &StatusError{Op: op, Status: wire.StatusErrNotFound}
	}
	if proc.Nspace != c.opts.Nspace && (proc.Rank == wire.RankWildcard || reserved(key)) {
		return c.askJob(ctx, op, proc, key)
	}
	r := &wire.GetRequest{Proc: proc, Key: key}
	if opts.Immediate {
		r.Info = append(r.Info, wire.Info{Key: wire.KeyImmediate, Value: wire.BoolValue(true)})
	}
	r.Info = appendTimeout(r.Info, opts.Timeout)
	answer, err := c.call(ctx, op, r)
	if err != nil {
		return wire.Value{}, err
	}
	data, err := c.keep(op, proc, answer)
	if err != nil {
		return wire.Value{}, err
	}
	v, ok := data[key]
	if !ok {
		return wire.Value{}, &StatusError{Op: op, Status: wire.StatusErrNotFound}
	}
	return v, nil
}

// known looks a key up in what this process has.
func (c *Client) known(rank wire.Rank, key string, refresh bool) (wire.Value, bool) {
	if v, ok := c.job.lookup(rank, key); ok {
		return v, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if rank == c.opts.Rank {
		if v, ok := c.own[key]; ok {
			return v, true
		}
	}
	if refresh {
		return wire.Value{}, false
	}
	v, ok := c.peers[rank][key]
	return v, ok
}

// keep decodes the answer to a get of proc and keeps the data for later ones. A server may send the data of others too,
// and answers for another job with everything that it knows of that.
func (c *Client) keep(op string, proc wire.Proc, answer []byte) (map[string]wire.Value, error) {
	reply, err := wire.DecodeGetReply(answer)
	if err != nil {
		return nil, fmt.Errorf("pmix %s: answer: %w", op, err)
	}
	if err := statusError(op, reply.Status); err != nil {
		return nil, err
	}
	var asked map[string]wire.Value
	all := map[string]wire.Value{}
	for i := range reply.Data {
		of := reply.Data[i].Proc
		pairs, err := reply.Data[i].Pairs()
		if err != nil {
			return nil, fmt.Errorf("pmix %s: answer: %w", op, err)
		}
		data := make(map[string]wire.Value, len(pairs))
		for _, kv := range pairs {
			data[kv.Key] = kv.Value
		}
		if of == proc && of.Rank != wire.RankWildcard {
			asked = data
		}
		maps.Copy(all, data)
		if of.Nspace == c.opts.Nspace {
			c.mu.Lock()
			c.peers[of.Rank] = data
			c.mu.Unlock()
		}
	}
	if asked == nil {
		return all, nil
	}
	return asked, nil
}
