package client

import (
	"context"
	"fmt"
	"os"

	"github.com/goshmem/goshmem/pmix/codec"
)

// keyProcPID tells the server the process id of a tool.
const keyProcPID = "pmix.ppid"

// DialTool attaches to a server as a tool: a process that no server started, which looks at jobs from outside. The
// server assigns its name. The URI has the form of Server.ToolURI and of libpmix's PMIX_SERVER_URI. The result is a
// client of a job of its own with one process. It needs a Finalize.
//
//   - Errors: the connection; a StatusError when the server does not want tools, or not this one.
func DialTool(ctx context.Context, uri string) (*Client, error) {
	address, ok := addressOf(uri)
	if !ok {
		return nil, fmt.Errorf("pmix: URI of the server is %q, want %s", uri, uriForm)
	}
	return open(ctx, Options{Address: address, Security: codec.SecurityNative}, introduction{greet: introduceTool, singleton: true})
}

// introduceTool introduces a tool and stores the name that the server assigns in opts.
func introduceTool(nc *os.File, opts *Options) error {
	h := codec.NewToolHandshake(uint32(os.Geteuid()), uint32(os.Getegid()), opts.Security, credential(opts.Security))
	e := codec.NewEncoder(nil)
	e.Infos([]codec.Info{{Key: keyProcPID, Value: codec.Value{Type: codec.TypePID, Data: uint32(os.Getpid())}}})
	h.Trailer = append(e.Bytes(), 0)
	if err := e.Err(); err != nil {
		return err
	}
	if _, err := nc.Write(codec.AppendHandshake(nil, h)); err != nil {
		return err
	}
	reply, err := codec.ReadToolReply(nc, true)
	if err != nil {
		return err
	}
	if err := statusError("connect as a tool", reply.Status); err != nil {
		return err
	}
	opts.Nspace, opts.Rank = reply.Given.Nspace, reply.Given.Rank
	return nil
}
