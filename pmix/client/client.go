package client

import (
	"context"
	"fmt"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Client is one process's connection to its PMIx server. Its own methods are about this process, its job and their
// data; its fields are further services of the server.
//
//   - Concurrent calls: all methods, also those of the services. Every wait ends with its context or with the
//     connection.
type Client struct {
	Events     *Events     // events, their handlers, and programming models
	Groups     *Groups     // groups of processes
	Jobs       *Jobs       // jobs that this process spawns or connects to
	Forwarding *Forwarding // input and output of other processes
	Heartbeats *Heartbeats // the server's watch over this process

	session *session
	job     *jobDescription
	data    *data
}

// Dial connects to a server and reads the job's description. The client is independent of the one that Init shares.
//
//   - Errors: the connection; a StatusError when the server refuses this process; a description without the job's size.
func Dial(ctx context.Context, opts Options) (*Client, error) {
	return open(ctx, opts, introduction{greet: introduceClient})
}

// introduction is how a client makes itself known to its server.
type introduction struct {
	greet     greeting
	singleton bool // the client is a job of its own, whose size the server need not tell
}

func open(ctx context.Context, opts Options, as introduction) (*Client, error) {
	dispatch, outputs := newDispatcher(), newOutputs()
	conn, err := connect(ctx, &opts, as.greet, func(tag uint32, body []byte) {
		switch tag {
		case codec.TagNotify:
			dispatch.receive(body)
		case codec.TagIOF:
			outputs.receive(body)
		}
	})
	if err != nil {
		return nil, err
	}
	s := newSession(opts, conn)
	events := &Events{session: s, dispatch: dispatch}
	conn.wg.Go(func() { reportLoss(s, dispatch) })
	job, err := requestJobDescription(ctx, s, as.singleton)
	if err != nil {
		s.setFinalized()
		outputs.close()
		conn.close()
		return nil, err
	}
	return &Client{
		Events:     events,
		Groups:     &Groups{session: s, events: events, jobSize: job.size},
		Jobs:       newJobs(s, job, outputs),
		Forwarding: &Forwarding{session: s, outputs: outputs},
		Heartbeats: &Heartbeats{session: s},
		session:    s, job: job, data: newData(),
	}, nil
}

// reportLoss waits for the end of the connection. Unless the client ended it, reportLoss closes lost and raises an
// event for the handlers of this process.
func reportLoss(s *session, dispatch *dispatcher) {
	<-s.conn.gone
	if s.isFinalized() {
		return
	}
	close(s.lost)
	dispatch.enqueue(&Event{Event: codec.Event{
		Status: codec.StatusErrLostConnection, Source: s.proc(), Range: codec.RangeProcLocal,
	}})
}

// requestJobDescription asks the server for the description of this process's job.
func requestJobDescription(ctx context.Context, s *session, singleton bool) (*jobDescription, error) {
	body, err := s.request(ctx, "init", &codec.InitRequest{})
	if err != nil {
		return nil, err
	}
	if status, err := codec.DecodeStatusReply(body); err == nil { // the reason why there is no description
		return nil, &StatusError{Op: "init", Status: status}
	}
	info, err := codec.DecodeJobInfo(body)
	if err != nil {
		return nil, fmt.Errorf("pmix init: description of the job: %w", err)
	}
	if singleton { // a size that the server tells comes later in the list and wins
		info.Pairs = append([]codec.KVal{{Key: codec.KeyJobSize, Value: codec.Uint32Value(1)}}, info.Pairs...)
	}
	return newJobDescription(&info, s.opts.Rank)
}

// Lost returns a channel that is closed when the connection to the server ends before Finalize.
func (c *Client) Lost() <-chan struct{} { return c.session.lost }

// Nspace returns the name of the job.
func (c *Client) Nspace() string { return c.session.opts.Nspace }

// Rank returns this process's rank.
func (c *Client) Rank() codec.Rank { return c.session.opts.Rank }

// Proc returns this process's full name.
func (c *Client) Proc() codec.Proc { return c.session.proc() }

// Size returns the number of processes of the job.
func (c *Client) Size() int { return c.job.size }

// LocalRank returns this process's number among those of the job on its node.
func (c *Client) LocalRank() int { return c.job.localRank }

// NodeID returns the number of this process's node in the job.
func (c *Client) NodeID() int { return c.job.nodeID }

// LocalPeers returns the ranks on this node, this process's among them. The caller must not change it.
func (c *Client) LocalPeers() []codec.Rank { return c.job.peers }

// JobInfo looks a key up in the job's description: about one process, or for codec.RankWildcard about the job, its
// session and this node.
func (c *Client) JobInfo(rank codec.Rank, key string) (codec.Value, bool) {
	return c.job.find(rank, key)
}

// Parent returns the process that spawned this process's job.
func (c *Client) Parent() (parent codec.Proc, ok bool) {
	v, ok := c.job.find(codec.RankWildcard, codec.KeyParentID)
	if !ok {
		v, _ = c.job.find(c.session.opts.Rank, codec.KeyParentID)
	}
	parent, ok = v.Data.(codec.Proc)
	return parent, ok
}

// Finalize ends one use of the client. The last use tells the server and closes the connection, even if it returns an
// error.
//
//   - Errors: ErrFinalized when it was called too often; ErrLostConnection; the context's.
func (c *Client) Finalize(ctx context.Context) error {
	last, err := c.session.removeUser()
	if err != nil || !last {
		return err
	}
	defer close(c.session.ended)
	c.Events.dispatch.close()
	c.Forwarding.outputs.close()
	answer, err := c.session.exchange(ctx, "finalize", &codec.FinalizeRequest{})
	c.session.conn.close()
	if err != nil {
		return err
	}
	return decodeStatus("finalize", answer)
}
