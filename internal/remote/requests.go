package remote

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

// How long a request may take at most.
const (
	// queryAtMost is for what the node knows, or does at once.
	queryAtMost = 5 * time.Second
	// startAtMost is for the start of a step, and for that of its PEs.
	startAtMost = 5 * time.Minute
	// closeAtMost is for the end of a step, which has its own limits. Time in which the front end takes
	// output does not count.
	closeAtMost = time.Minute
	// transferAtMost is for the way of an answer that may have as long as the caller says.
	transferAtMost = 2 * time.Second
)

// requests are those that wait for their answers.
type requests struct {
	mu   sync.Mutex
	last uint32
	open map[uint32]*request
}

// request is a question to the node.
type request struct {
	number  uint32
	done    chan struct{}   // closed when the answer has come
	answer  answer          // once done is closed
	answers []daemon.Answer // KindAsked; the lock of requests guards it
}

// begin opens a request.
func (r *requests) begin() *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	q := &request{number: r.last, done: make(chan struct{})}
	if r.open == nil {
		r.open = map[uint32]*request{}
	}
	r.open[q.number] = q
	return q
}

// end closes a request and returns what PEs have said so far. What comes later is dropped.
func (r *requests) end(q *request) []daemon.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, q.number)
	return q.answers
}

// addAnswer takes what a PE says to an order.
func (r *requests) addAnswer(number uint32, a daemon.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.open[number]; q != nil {
		q.answers = append(q.answers, a)
	}
}

// finish takes the answer of a request.
func (r *requests) finish(number uint32, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.open[number]; q != nil {
		delete(r.open, number)
		q.answer = a
		close(q.done)
	}
}

// request asks the node and waits for the answer, the loss of the node, or the end of the time. The
// answer is zero after an error, also after one of the node.
func (c *Client) request(kind wire.Kind, what string, body []byte, atMost time.Duration) (answer, []daemon.Answer, error) {
	ctx, cancel := context.WithTimeoutCause(c.life, atMost, fmt.Errorf("%s: the node has not answered within %v", what, atMost))
	defer cancel()
	return c.requestUntil(ctx, kind, body)
}

// requestUntil does that until a context ends.
func (c *Client) requestUntil(ctx context.Context, kind wire.Kind, body []byte) (answer, []daemon.Answer, error) {
	if ctx.Err() != nil {
		return answer{}, nil, context.Cause(ctx)
	}
	q := c.requests.begin()
	err := c.sender.sendPaced(ctx, kind, q.number, body)
	if err == nil {
		select {
		case <-q.done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	answers := c.requests.end(q)
	select {
	case <-q.done: // also if the context has ended at the same time
		if q.answer.Failed {
			return answer{}, answers, q.answer.Failure.error()
		}
		return q.answer, answers, nil
	default:
		return answer{}, answers, err
	}
}
