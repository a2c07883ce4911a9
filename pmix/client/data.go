package client

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

// data holds the values of this process and those that it got from others of its job.
type data struct {
	mu     sync.Mutex
	own    map[string]codec.Value                // everything that this process has put
	staged []stagedPut                           // what the next commit sends
	peers  map[codec.Rank]map[string]codec.Value // what gets have brought
}

// stagedPut is a value that waits for the next commit.
type stagedPut struct {
	scope codec.Scope
	kv    codec.KVal
}

func newData() *data {
	return &data{own: map[string]codec.Value{}, peers: map[codec.Rank]map[string]codec.Value{}}
}

// put records a value of this process and stages it if others may see it.
func (d *data) put(scope codec.Scope, kv codec.KVal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own[kv.Key] = kv.Value
	if scope != codec.ScopeInternal {
		d.staged = append(d.staged, stagedPut{scope, kv})
	}
}

// takeStaged removes and returns what is staged.
func (d *data) takeStaged() []stagedPut {
	d.mu.Lock()
	defer d.mu.Unlock()
	staged := d.staged
	d.staged = nil
	return staged
}

// restage stages values again, before those that were put in the meantime.
func (d *data) restage(staged []stagedPut) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.staged = append(staged, d.staged...)
}

// findOwn looks a key up in what this process has put.
func (d *data) findOwn(key string) (codec.Value, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.own[key]
	return v, ok
}

// findOfPeer looks a key up in what earlier gets brought of a process.
func (d *data) findOfPeer(rank codec.Rank, key string) (codec.Value, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.peers[rank][key]
	return v, ok
}

// keepOfPeer keeps the data of a process for later gets.
func (d *data) keepOfPeer(rank codec.Rank, values map[string]codec.Value) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.peers[rank] = values
}

// Put stages a value for others to get after the next Commit; this process can get it at once.
// Byte objects are not copied and must not change until the commit.
//
//   - Errors: a key, scope or value that cannot be sent.
func (c *Client) Put(scope codec.Scope, key string, value codec.Value) error {
	if err := checkKey("put", key); err != nil {
		return err
	}
	if scope < codec.ScopeLocal || scope > codec.ScopeInternal {
		return fmt.Errorf("pmix put %s: scope %d, want %d to %d", key, scope, codec.ScopeLocal, codec.ScopeInternal)
	}
	e := codec.NewEncoder(nil)
	e.Value(value)
	if err := e.Err(); err != nil {
		return fmt.Errorf("pmix put %s: %w", key, err)
	}
	if c.session.isFinalized() {
		return fmt.Errorf("pmix put %s: %w", key, ErrFinalized)
	}
	c.data.put(scope, codec.KVal{Key: key, Value: value})
	return nil
}

func checkKey(op, key string) error {
	if key == "" || len(key) > codec.MaxKeyLen || strings.IndexByte(key, 0) >= 0 {
		return fmt.Errorf("pmix %s: key %q, want 1 to %d bytes without NUL", op, key, codec.MaxKeyLen)
	}
	return nil
}

// Commit hands everything put since the last commit to the server. If nothing was put, it does nothing.
//
//   - Completion: on return, processes of this node can get the values; of other nodes, after a fence or on request.
//   - Errors: what was put stays staged for another attempt.
func (c *Client) Commit(ctx context.Context) error {
	staged := c.data.takeStaged()
	if len(staged) == 0 && !c.session.isFinalized() {
		return nil
	}
	err := c.session.requestStatus(ctx, "commit", commitRequest(staged))
	if err != nil {
		c.data.restage(staged)
	}
	return err
}

// commitRequest sorts puts into one blob for readers on this node and one for those on others, as libpmix does.
func commitRequest(staged []stagedPut) *codec.CommitRequest {
	local, remote := codec.NewEncoder(nil), codec.NewEncoder(nil)
	for _, p := range staged {
		if p.scope != codec.ScopeRemote {
			local.KValGroup(p.kv)
		}
		if p.scope != codec.ScopeLocal {
			remote.KValGroup(p.kv)
		}
	}
	r := &codec.CommitRequest{}
	if len(local.Bytes()) > 0 {
		r.Blobs = append(r.Blobs, codec.ScopedBlob{Scope: codec.ScopeLocal, Data: local.Bytes()})
	}
	if len(remote.Bytes()) > 0 {
		r.Blobs = append(r.Blobs, codec.ScopedBlob{Scope: codec.ScopeRemote, Data: remote.Bytes()})
	}
	return r
}

// GetOptions direct a get.
type GetOptions struct {
	Optional  bool          // look only at what this process has already
	Immediate bool          // let the server answer with what it has
	Refresh   bool          // ask again for what an earlier get brought
	Timeout   time.Duration // ends the wait for a value with ErrTimeout; counted in whole seconds, rounded up
}

// Get returns a value: of this process as it was put, of the job's description, or of another process. If the other
// process has not committed the value yet, Get waits.
// The caller must not change the value: a get brings all of a process's data, which later gets share.
//
//   - Errors: ErrNotFound; ErrProcFailed when the process ended without committing it; ErrTimeout; the context's.
func (c *Client) Get(ctx context.Context, proc codec.Proc, key string, opts GetOptions) (codec.Value, error) {
	op := "get " + proc.String() + " " + key
	if key == "" {
		return codec.Value{}, fmt.Errorf("pmix %s: key is empty, want a name", op)
	}
	if proc.Nspace == c.Nspace() {
		if v, ok := c.findLocally(proc.Rank, key, opts.Refresh); ok {
			return v, nil
		}
	} else if v, ok := c.Jobs.find(proc, key); ok {
		return v, nil
	}
	if opts.Optional {
		return codec.Value{}, &StatusError{Op: op, Status: codec.StatusErrNotFound}
	}
	if proc.Nspace != c.Nspace() && (proc.Rank == codec.RankWildcard || isReserved(key)) {
		return c.Jobs.get(ctx, op, proc, key)
	}
	r := &codec.GetRequest{Proc: proc, Key: key}
	if opts.Immediate {
		r.Info = append(r.Info, codec.Info{Key: codec.KeyImmediate, Value: codec.BoolValue(true)})
	}
	r.Info = appendTimeout(r.Info, opts.Timeout)
	answer, err := c.session.request(ctx, op, r)
	if err != nil {
		return codec.Value{}, err
	}
	values, err := c.data.keepAnswer(op, c.Nspace(), proc, answer)
	if err != nil {
		return codec.Value{}, err
	}
	v, ok := values[key]
	if !ok {
		return codec.Value{}, &StatusError{Op: op, Status: codec.StatusErrNotFound}
	}
	return v, nil
}

// findLocally looks a key up in what this process has of its job; refresh excludes what earlier gets brought.
func (c *Client) findLocally(rank codec.Rank, key string, refresh bool) (codec.Value, bool) {
	if v, ok := c.job.find(rank, key); ok {
		return v, true
	}
	if rank == c.Rank() {
		if v, ok := c.data.findOwn(key); ok {
			return v, true
		}
	}
	if refresh {
		return codec.Value{}, false
	}
	return c.data.findOfPeer(rank, key)
}

// keepAnswer decodes the answer to a get of proc and keeps the data of the job nspace for later gets. A server may add
// the data of other processes; asked about another job, it answers with everything that it knows of that job.
func (d *data) keepAnswer(op, nspace string, proc codec.Proc, answer []byte) (map[string]codec.Value, error) {
	reply, err := codec.DecodeGetReply(answer)
	if err != nil {
		return nil, fmt.Errorf("pmix %s: answer: %w", op, err)
	}
	if err := statusError(op, reply.Status); err != nil {
		return nil, err
	}
	var asked map[string]codec.Value
	all := map[string]codec.Value{}
	for i := range reply.Data {
		of := reply.Data[i].Proc
		pairs, err := reply.Data[i].Pairs()
		if err != nil {
			return nil, fmt.Errorf("pmix %s: answer: %w", op, err)
		}
		values := make(map[string]codec.Value, len(pairs))
		for _, kv := range pairs {
			values[kv.Key] = kv.Value
		}
		if of == proc && of.Rank != codec.RankWildcard {
			asked = values
		}
		maps.Copy(all, values)
		if of.Nspace == nspace {
			d.keepOfPeer(of.Rank, values)
		}
	}
	if asked == nil {
		return all, nil
	}
	return asked, nil
}
