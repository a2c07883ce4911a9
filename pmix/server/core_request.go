package server

import (
	"cmp"
	"maps"
	"slices"

	"github.com/goshmem/goshmem/pmix/wire"
)

// maxRemembered bounds how many registrations and clean-up paths one process may leave with the server.
const maxRemembered = 4096

// caller is the sender of a request, and the place for its answer.
type caller struct {
	*process
	conn connID
	tag  uint32
}

// handler serves one kind of request. It answers at once or keeps the caller for later.
type handler func(c *core, at caller, r wire.Request)

// serve makes a handler of a function that takes one type of request.
func serve[R wire.Request](f func(*core, caller, R)) handler {
	return func(c *core, at caller, r wire.Request) {
		if request, ok := r.(R); ok {
			f(c, at, request)
			return
		}
		c.refuseUnserved(at, r)
	}
}

// handlers serve the commands; nil stands for a command that the server does not serve.
var handlers = [...]handler{
	wire.CmdRequestInit:        serve((*core).sendJobInfo),
	wire.CmdAbort:              serve(func(c *core, at caller, r *wire.AbortRequest) { c.control.abort(at, r) }),
	wire.CmdCommit:             serve(func(c *core, at caller, r *wire.CommitRequest) { c.gets.commitData(at, r) }),
	wire.CmdFence:              serve(func(c *core, at caller, r *wire.FenceRequest) { c.fences.join(at, r) }),
	wire.CmdGet:                serve(func(c *core, at caller, r *wire.GetRequest) { c.gets.requestData(at, r) }),
	wire.CmdFinalize:           serve((*core).finalize),
	wire.CmdPublish:            serve(func(c *core, at caller, r *wire.PublishRequest) { c.published.publish(at, r) }),
	wire.CmdLookup:             serve(func(c *core, at caller, r *wire.LookupRequest) { c.published.lookUp(at, r) }),
	wire.CmdUnpublish:          serve(func(c *core, at caller, r *wire.UnpublishRequest) { c.published.unpublish(at, r) }),
	wire.CmdSpawn:              serve(func(c *core, at caller, r *wire.SpawnRequest) { c.spawns.requestJob(at, r) }),
	wire.CmdConnect:            serve(func(c *core, at caller, r *wire.ConnectRequest) { c.fences.connect(at, r) }),
	wire.CmdDisconnect:         serve(func(c *core, at caller, r *wire.DisconnectRequest) { c.fences.disconnect(at, r) }),
	wire.CmdNotify:             serve(func(c *core, at caller, r *wire.NotifyRequest) { c.events.notify(at, r) }),
	wire.CmdRegisterEvents:     serve(func(c *core, at caller, r *wire.RegisterEventsRequest) { c.events.register(at, r) }),
	wire.CmdDeregisterEvents:   serve(func(c *core, at caller, r *wire.DeregisterEventsRequest) { c.events.deregister(at, r) }),
	wire.CmdQuery:              serve(func(c *core, at caller, r *wire.QueryRequest) { c.queries.answerQuery(at, r) }),
	wire.CmdLog:                serve(func(c *core, at caller, r *wire.LogRequest) { logText(&c.common, at, r) }),
	wire.CmdAllocate:           nil,
	wire.CmdJobControl:         serve(func(c *core, at caller, r *wire.JobControlRequest) { c.control.controlJob(at, r) }),
	wire.CmdMonitor:            serve(func(c *core, at caller, r *wire.MonitorRequest) { c.watches.monitor(at, r) }),
	wire.CmdGetCredential:      nil,
	wire.CmdValidateCredential: nil,
	wire.CmdIOFPull:            serve(func(c *core, at caller, r *wire.IOFPullRequest) { c.forwarding.pull(at, r) }),
	wire.CmdIOFPush:            serve(func(c *core, at caller, r *wire.IOFPushRequest) { c.forwarding.push(at, r) }),
	wire.CmdGroupConstruct:     serve(func(c *core, at caller, r *wire.GroupConstructRequest) { c.groups.construct(at, r) }),
	wire.CmdGroupJoin:          nil,
	wire.CmdGroupInvite:        nil,
	wire.CmdGroupLeave:         serve(func(c *core, at caller, r *wire.GroupLeaveRequest) { c.groups.leave(at, r) }),
	wire.CmdGroupDestruct:      serve(func(c *core, at caller, r *wire.GroupDestructRequest) { c.groups.destruct(at, r) }),
	wire.CmdIOFDeregister:      serve(func(c *core, at caller, r *wire.IOFDeregisterRequest) { c.forwarding.deregister(at, r) }),
	wire.CmdFabricRegister:     nil,
	wire.CmdFabricUpdate:       nil,
	wire.CmdDeviceDistances:    nil,
}

// serveFrame serves a client's message: a heartbeat or a request. After its farewell a client may only deregister events,
// which needs no answer.
func (c *core) serveFrame(ev event) {
	p, ok := c.conns[ev.conn]
	if !ok {
		return
	}
	if ev.tag == wire.TagHeartbeat {
		c.watches.recordHeartbeat(ev.conn)
		return
	}
	at := caller{process: p, conn: ev.conn, tag: ev.tag}
	r, err := c.requests.Decode(ev.payload)
	if err != nil {
		c.refuse(at, wire.StatusErrUnpackFailure, err.Error())
		return
	}
	cmd := r.Command()
	if p.conn != ev.conn {
		if cmd != wire.CmdDeregisterEvents {
			c.refuse(at, wire.StatusErrInit, "request "+cmd.String()+" after finalize")
		}
		return
	}
	if int(cmd) < len(handlers) && handlers[cmd] != nil {
		handlers[cmd](c, at, r)
		return
	}
	c.refuseUnserved(at, r)
}

func (c *core) refuseUnserved(at caller, r wire.Request) {
	c.refuse(at, wire.StatusErrNotSupported, "request "+r.Command().String()+" is not served")
}

// sortedKeys makes the order of actions independent of the order of maps.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// sortedProcs is sortedKeys for names of processes.
func sortedProcs[V any](m map[wire.Proc]V) []wire.Proc {
	return slices.SortedFunc(maps.Keys(m), compareProcs)
}
