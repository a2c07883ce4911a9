package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Client is one process's connection to its PMIx server.
//
//   - Concurrent calls: all methods. Every wait ends with its context or with the connection.
type Client struct {
	opts   Options
	conn   *conn
	job    *jobInfo
	events *events
	pulls  *pulls
	lost   chan struct{}
	ended  chan struct{} // closed when the last Finalize is through

	mu        sync.Mutex
	refs      int
	finalized bool
	own       map[string]wire.Value
	staged    []put
	peers     map[wire.Rank]map[string]wire.Value
	others    map[string]*jobInfo // what is known of other jobs
}

// Dial connects to a server and reads the job's description. The client is independent of the one that Init shares.
//
//   - Errors: the connection; a StatusError when the server refuses this process; a description without the job's size.
func Dial(ctx context.Context, opts Options) (*Client, error) {
	return open(ctx, opts, approach{greet: introduce})
}

// approach is how a client comes to its server.
type approach struct {
	greet greeting
	alone bool // it is a job of its own, which servers need not describe
}

func open(ctx context.Context, opts Options, a approach) (*Client, error) {
	events, pulls := newEvents(), newPulls()
	conn, err := connect(ctx, &opts, a.greet, func(tag uint32, body []byte) {
		switch tag {
		case wire.TagNotify:
			events.pushed(body)
		case wire.TagIOF:
			pulls.pushed(body)
		}
	})
	if err != nil {
		return nil, err
	}
	c := &Client{
		opts: opts, conn: conn, events: events, pulls: pulls, lost: make(chan struct{}), ended: make(chan struct{}), refs: 1,
		own: map[string]wire.Value{}, peers: map[wire.Rank]map[string]wire.Value{}, others: map[string]*jobInfo{},
	}
	c.conn.wg.Go(c.watch)
	if c.job, err = c.readJob(ctx, a.alone); err != nil {
		c.setFinalized()
		pulls.close()
		conn.close()
		return nil, err
	}
	return c, nil
}

func (c *Client) readJob(ctx context.Context, alone bool) (*jobInfo, error) {
	body, err := c.call(ctx, "init", &wire.InitRequest{})
	if err != nil {
		return nil, err
	}
	if status, err := wire.DecodeStatusReply(body); err == nil { // no description, but the reason
		return nil, &StatusError{Op: "init", Status: status}
	}
	info, err := wire.DecodeJobInfo(body)
	if err != nil {
		return nil, fmt.Errorf("pmix init: description of the job: %w", err)
	}
	if alone { // what the server says counts more
		info.Pairs = append([]wire.KVal{{Key: wire.KeyJobSize, Value: wire.Uint32Value(1)}}, info.Pairs...)
	}
	return newJobInfo(&info, c.opts.Rank)
}

// watch turns the end of the connection into a loss, unless the client ended it.
func (c *Client) watch() {
	<-c.conn.gone
	if c.isFinalized() {
		return
	}
	close(c.lost)
	c.events.deliver(&Event{Event: wire.Event{
		Status: wire.StatusErrLostConnection, Source: c.Proc(), Range: wire.RangeProcLocal,
	}})
}

// Lost returns a channel that is closed when the connection to the server ends before Finalize.
func (c *Client) Lost() <-chan struct{} { return c.lost }

// Nspace returns the name of the job.
func (c *Client) Nspace() string { return c.opts.Nspace }

// Rank returns this process's rank.
func (c *Client) Rank() wire.Rank { return c.opts.Rank }

// Proc returns this process's full name.
func (c *Client) Proc() wire.Proc { return wire.Proc{Nspace: c.opts.Nspace, Rank: c.opts.Rank} }

// call sends a request and returns the body of its answer.
func (c *Client) call(ctx context.Context, op string, r wire.Request) ([]byte, error) {
	if c.isFinalized() {
		return nil, fmt.Errorf("pmix %s: %w", op, ErrFinalized)
	}
	return c.callAlways(ctx, op, r)
}

func (c *Client) callAlways(ctx context.Context, op string, r wire.Request) ([]byte, error) {
	body, err := wire.AppendRequest(nil, r)
	if err != nil {
		return nil, fmt.Errorf("pmix %s: %w", op, err)
	}
	answer, err := c.conn.call(ctx, body)
	switch {
	case err == nil:
		return answer, nil
	case !errors.Is(err, ErrLostConnection):
		return nil, fmt.Errorf("pmix %s: %w", op, err)
	case c.isFinalized() && r.Command() != wire.CmdFinalize:
		return nil, fmt.Errorf("pmix %s: %w", op, ErrFinalized)
	default:
		return nil, &StatusError{Op: op, Status: wire.StatusErrLostConnection}
	}
}

// status sends a request whose answer is a status.
func (c *Client) status(ctx context.Context, op string, r wire.Request) error {
	answer, err := c.call(ctx, op, r)
	if err != nil {
		return err
	}
	return decodeStatus(op, answer)
}

func decodeStatus(op string, answer []byte) error {
	status, err := wire.DecodeStatusReply(answer)
	if err != nil {
		return fmt.Errorf("pmix %s: answer: %w", op, err)
	}
	return statusError(op, status)
}

// Fence waits until all processes of the job have called it. With collect, all committed data can be read afterwards
// without asking other nodes.
//
//   - Collective: over the job.
//   - Errors: ErrProcFailed when a process ended instead; the context's. A fence that one process left early stays
//     unfinished for the others.
func (c *Client) Fence(ctx context.Context, collect bool) error {
	return c.FenceProcs(ctx, []wire.Proc{{Nspace: c.opts.Nspace, Rank: wire.RankWildcard}}, FenceOptions{Collect: collect})
}

// FenceOptions direct a fence.
type FenceOptions struct {
	Collect bool          // exchange the data of the participants
	Timeout time.Duration // ends the fence for all participants with ErrTimeout; counted in whole seconds, rounded up
}

// FenceProcs is Fence over the given processes, which must name the same set everywhere and include the caller.
func (c *Client) FenceProcs(ctx context.Context, procs []wire.Proc, opts FenceOptions) error {
	r := &wire.FenceRequest{Procs: procs}
	if opts.Collect {
		r.Info = append(r.Info, wire.Info{Key: wire.KeyCollectData, Value: wire.BoolValue(true)})
	}
	r.Info = appendTimeout(r.Info, opts.Timeout)
	return c.status(ctx, "fence", r)
}

func appendTimeout(infos []wire.Info, d time.Duration) []wire.Info {
	if d <= 0 {
		return infos
	}
	return append(infos, wire.Info{Key: wire.KeyTimeout, Value: wire.IntValue(int32(wholeSeconds(d)))})
}

// wholeSeconds rounds up, and down to what an int of C can hold.
func wholeSeconds(d time.Duration) uint32 {
	return uint32(min((d+time.Second-1)/time.Second, 1<<31-1))
}

// abortPatience bounds the wait for a server that may be about to kill this process.
const abortPatience = 10 * time.Second

// Abort asks the server to end processes, all of the job when none is named; a wildcard rank stands for a whole job. It
// may not return.
func (c *Client) Abort(status int, msg string, procs ...wire.Proc) error {
	ctx, cancel := context.WithTimeout(context.Background(), abortPatience)
	defer cancel()
	return c.status(ctx, "abort", &wire.AbortRequest{Status: wire.Status(status), Message: msg, Procs: procs})
}

// Finalize ends one use of the client; the last one tells the server and closes the connection, whatever it returns.
//
//   - Errors: ErrFinalized when it was called too often; ErrLostConnection; the context's.
func (c *Client) Finalize(ctx context.Context) error {
	last, err := c.release()
	if err != nil || !last {
		return err
	}
	defer close(c.ended)
	c.events.close()
	c.pulls.close()
	answer, err := c.callAlways(ctx, "finalize", &wire.FinalizeRequest{})
	c.conn.close()
	if err != nil {
		return err
	}
	return decodeStatus("finalize", answer)
}

func (c *Client) release() (last bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refs == 0 {
		return false, fmt.Errorf("pmix finalize: %w", ErrFinalized)
	}
	c.refs--
	c.finalized = c.refs == 0
	return c.finalized, nil
}

// retain adds a use; false means that the client is finalized. A client that lost its server takes no new users.
func (c *Client) retain() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refs == 0 {
		return false, nil
	}
	select {
	case <-c.lost:
		return false, &StatusError{Op: "init", Status: wire.StatusErrLostConnection}
	default:
		c.refs++
		return true, nil
	}
}

func (c *Client) isFinalized() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finalized
}

func (c *Client) setFinalized() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finalized = true
}
