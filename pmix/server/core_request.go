package server

import (
	"cmp"
	"maps"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// maxRemembered bounds how many registrations and clean-up paths one process may leave with the server.
const maxRemembered = 4096

// caller is the sender of a request, and the place for its answer.
type caller struct {
	*process
	conn connID
	tag  uint32
}

// handler serves one type of request. It answers at once or keeps the caller for later.
type handler func(c *core, at caller, r codec.Request)

// serve returns a handler that calls a function for one type of request.
func serve[R codec.Request](f func(*core, caller, R)) handler {
	return func(c *core, at caller, r codec.Request) {
		if request, ok := r.(R); ok {
			f(c, at, request)
			return
		}
		c.refuseUnserved(at, r)
	}
}

// handlers serve the commands; nil stands for a command that the server does not serve.
var handlers = [...]handler{
	codec.CmdRequestInit:        serve((*core).sendJobInfo),
	codec.CmdAbort:              serve(func(c *core, at caller, r *codec.AbortRequest) { c.control.abort(at, r) }),
	codec.CmdCommit:             serve(func(c *core, at caller, r *codec.CommitRequest) { c.gets.commitData(at, r) }),
	codec.CmdFence:              serve(func(c *core, at caller, r *codec.FenceRequest) { c.fences.join(at, r) }),
	codec.CmdGet:                serve(func(c *core, at caller, r *codec.GetRequest) { c.gets.requestData(at, r) }),
	codec.CmdFinalize:           serve((*core).finalize),
	codec.CmdPublish:            serve(func(c *core, at caller, r *codec.PublishRequest) { c.published.serve(at, r) }),
	codec.CmdLookup:             serve(func(c *core, at caller, r *codec.LookupRequest) { c.published.serve(at, r) }),
	codec.CmdUnpublish:          serve(func(c *core, at caller, r *codec.UnpublishRequest) { c.published.serve(at, r) }),
	codec.CmdSpawn:              serve(func(c *core, at caller, r *codec.SpawnRequest) { c.spawns.requestJob(at, r) }),
	codec.CmdConnect:            serve(func(c *core, at caller, r *codec.ConnectRequest) { c.fences.connect(at, r) }),
	codec.CmdDisconnect:         serve(func(c *core, at caller, r *codec.DisconnectRequest) { c.fences.disconnect(at, r) }),
	codec.CmdNotify:             serve(func(c *core, at caller, r *codec.NotifyRequest) { c.events.notify(at, r) }),
	codec.CmdRegisterEvents:     serve(func(c *core, at caller, r *codec.RegisterEventsRequest) { c.events.register(at, r) }),
	codec.CmdDeregisterEvents:   serve(func(c *core, at caller, r *codec.DeregisterEventsRequest) { c.events.deregister(at, r) }),
	codec.CmdQuery:              serve(func(c *core, at caller, r *codec.QueryRequest) { c.queries.askNodes(at, r) }),
	codec.CmdLog:                serve(func(c *core, at caller, r *codec.LogRequest) { logText(&c.common, at, r) }),
	codec.CmdAllocate:           nil,
	codec.CmdJobControl:         serve(func(c *core, at caller, r *codec.JobControlRequest) { c.control.controlJob(at, r) }),
	codec.CmdMonitor:            serve(func(c *core, at caller, r *codec.MonitorRequest) { c.watches.monitor(at, r) }),
	codec.CmdGetCredential:      nil,
	codec.CmdValidateCredential: nil,
	codec.CmdIOFPull:            serve(func(c *core, at caller, r *codec.IOFPullRequest) { c.forwarding.pull(at, r) }),
	codec.CmdIOFPush:            serve(func(c *core, at caller, r *codec.IOFPushRequest) { c.forwarding.push(at, r) }),
	codec.CmdGroupConstruct:     serve(func(c *core, at caller, r *codec.GroupConstructRequest) { c.groups.construct(at, r) }),
	codec.CmdGroupJoin:          nil,
	codec.CmdGroupInvite:        nil,
	codec.CmdGroupLeave:         serve(func(c *core, at caller, r *codec.GroupLeaveRequest) { c.groups.leave(at, r) }),
	codec.CmdGroupDestruct:      serve(func(c *core, at caller, r *codec.GroupDestructRequest) { c.groups.destruct(at, r) }),
	codec.CmdIOFDeregister:      serve(func(c *core, at caller, r *codec.IOFDeregisterRequest) { c.forwarding.deregister(at, r) }),
	codec.CmdFabricRegister:     nil,
	codec.CmdFabricUpdate:       nil,
	codec.CmdDeviceDistances:    nil,
}

// serveFrame serves a client's message: a heartbeat or a request. After finalize a client may only deregister events,
// which needs no answer.
func (c *core) serveFrame(ev event) {
	l, ok := c.conns[ev.conn]
	if !ok {
		return
	}
	if ev.tag == codec.TagHeartbeat {
		c.watches.recordHeartbeat(ev.conn)
		return
	}
	at := caller{process: l.process, conn: ev.conn, tag: ev.tag}
	r, err := c.requests.Decode(ev.payload)
	if err != nil {
		c.refuse(at, codec.StatusErrUnpackFailure, err.Error())
		return
	}
	cmd := r.Command()
	if !l.hasLink(ev.conn) {
		if cmd != codec.CmdDeregisterEvents {
			c.refuse(at, codec.StatusErrInit, "request "+cmd.String()+" after finalize")
		}
		return
	}
	if int(cmd) < len(handlers) && handlers[cmd] != nil {
		handlers[cmd](c, at, r)
		return
	}
	c.refuseUnserved(at, r)
}

func (c *core) refuseUnserved(at caller, r codec.Request) {
	c.refuse(at, codec.StatusErrNotSupported, "request "+r.Command().String()+" is not served")
}

// sortedKeys makes the order of actions independent of the order of maps.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// sortedProcs is sortedKeys for names of processes.
func sortedProcs[V any](m map[codec.Proc]V) []codec.Proc {
	return slices.SortedFunc(maps.Keys(m), compareProcs)
}
