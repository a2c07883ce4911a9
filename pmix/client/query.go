package client

import (
	"context"
	"fmt"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Query asks the server about jobs, processes, groups and itself. The key codec.KeyQuerySupportedKeys asks for the keys
// that the server answers besides those of a job's description. The client keeps no answers.
//
//   - Errors: ErrNotFound when no key has an answer; ErrPartial, with the other answers, when some keys have none.
func (c *Client) Query(ctx context.Context, queries ...codec.Query) ([]codec.Info, error) {
	answer, err := c.session.request(ctx, "query", &codec.QueryRequest{Queries: queries})
	if err != nil {
		return nil, err
	}
	reply, err := codec.DecodeQueryReply(answer)
	if err != nil {
		return nil, fmt.Errorf("pmix query: answer: %w", err)
	}
	return reply.Info, statusError("query", reply.Status)
}

// Log prints text on the launcher's own output, as a line of its own, even if this process's output is redirected.
//
//   - Completion: on return, the launcher has the text.
//   - Errors: a StatusError for text that is too long.
func (c *Client) Log(ctx context.Context, to Streams, text string) error {
	r := &codec.LogRequest{}
	if to&Stdout != 0 {
		r.Data = append(r.Data, codec.Info{Key: codec.KeyLogStdout, Value: codec.StringValue(text)})
	}
	if to&Stderr != 0 {
		r.Data = append(r.Data, codec.Info{Key: codec.KeyLogStderr, Value: codec.StringValue(text)})
	}
	return c.session.requestStatus(ctx, "log", r)
}
