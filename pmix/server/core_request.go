package server

import (
	"cmp"
	"maps"
	"slices"

	"github.com/goshmem/goshmem/pmix/wire"
)

// maxRemembered bounds how many registrations and clean-up paths one process may leave with the server.
const maxRemembered = 4096

// caller is who sent a request, and where its answer goes.
type caller struct {
	*process
	conn connID
	tag  uint32
}

// handler serves one kind of request. It answers at once or keeps the caller for later.
type handler func(c *core, at caller, r wire.Request)

// serves makes a handler of a method that takes one type of request.
func serves[R wire.Request](f func(*core, caller, R)) handler {
	return func(c *core, at caller, r wire.Request) {
		if request, ok := r.(R); ok {
			f(c, at, request)
			return
		}
		c.unserved(at, r)
	}
}

// handlers serve the commands; nil stands for those that are not served.
var handlers = [...]handler{
	wire.CmdRequestInit:        serves((*core).describe),
	wire.CmdAbort:              serves((*core).abort),
	wire.CmdCommit:             serves((*core).commit),
	wire.CmdFence:              serves((*core).fence),
	wire.CmdGet:                serves((*core).get),
	wire.CmdFinalize:           serves((*core).finalize),
	wire.CmdPublish:            serves((*core).publish),
	wire.CmdLookup:             serves((*core).lookup),
	wire.CmdUnpublish:          serves((*core).unpublish),
	wire.CmdSpawn:              serves((*core).spawn),
	wire.CmdConnect:            serves((*core).connect),
	wire.CmdDisconnect:         serves((*core).disconnect),
	wire.CmdNotify:             serves((*core).notify),
	wire.CmdRegisterEvents:     serves((*core).registerEvents),
	wire.CmdDeregisterEvents:   serves((*core).deregisterEvents),
	wire.CmdQuery:              serves((*core).query),
	wire.CmdLog:                serves((*core).log),
	wire.CmdAllocate:           nil,
	wire.CmdJobControl:         serves((*core).jobControl),
	wire.CmdMonitor:            serves((*core).monitor),
	wire.CmdGetCredential:      nil,
	wire.CmdValidateCredential: nil,
	wire.CmdIOFPull:            serves((*core).iofPull),
	wire.CmdIOFPush:            serves((*core).iofPush),
	wire.CmdGroupConstruct:     serves((*core).constructGroup),
	wire.CmdGroupJoin:          nil,
	wire.CmdGroupInvite:        nil,
	wire.CmdGroupLeave:         serves((*core).leaveGroup),
	wire.CmdGroupDestruct:      serves((*core).destructGroup),
	wire.CmdIOFDeregister:      serves((*core).iofDeregister),
	wire.CmdFabricRegister:     nil,
	wire.CmdFabricUpdate:       nil,
	wire.CmdDeviceDistances:    nil,
}

func (c *core) frame(ev event) {
	p, ok := c.conns[ev.conn]
	if !ok {
		return
	}
	if ev.tag == wire.TagHeartbeat {
		c.heartbeat(ev.conn)
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
	c.unserved(at, r)
}

func (c *core) unserved(at caller, r wire.Request) {
	c.refuse(at, wire.StatusErrNotSupported, "request "+r.Command().String()+" is not served")
}

// reply answers a request with a status and nothing more.
func (c *core) reply(at caller, status wire.Status) {
	c.send(at.conn, at.tag, statusReply(status))
}

var success = wire.AppendStatusReply(nil, wire.StatusSuccess)

func statusReply(status wire.Status) []byte {
	if status == wire.StatusSuccess {
		return success
	}
	return wire.AppendStatusReply(nil, status)
}

// refuse answers with an error that is the client's fault and says why for the log.
func (c *core) refuse(at caller, status wire.Status, why string) {
	c.act(action{kind: actRefused, conn: at.conn, proc: at.name, status: status, text: why})
	c.reply(at, status)
}

// describe answers with the description of the caller's job.
func (c *core) describe(at caller, _ *wire.InitRequest) { c.send(at.conn, at.tag, at.space.info) }

// timeout returns the deadline that pmix.timeout sets, zero for none.
func (c *core) timeout(infos []wire.Info) tick {
	for _, info := range infos {
		if info.Key == wire.KeyTimeout {
			if seconds, ok := info.Value.Uint64(); ok && seconds > 0 {
				return c.after(seconds)
			}
		}
	}
	return 0
}

// sortedKeys makes the order of actions independent of the order of maps.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// sortedProcs is sortedKeys for names of processes.
func sortedProcs[V any](m map[wire.Proc]V) []wire.Proc {
	return slices.SortedFunc(maps.Keys(m), compareProcs)
}
