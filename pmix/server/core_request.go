package server

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/pmix/wire"
)

// maxRemembered bounds how many registrations and clean-up paths one process may leave with the server.
const maxRemembered = 4096

// registrations are the events that a process asked for.
type registrations struct {
	codes map[wire.Status]int // registrations a code; StatusMaxErrConstant stands for all other events
}

// cleanup is a path to remove when its owner has ended.
type cleanup struct {
	path      string
	dir       bool
	recursive bool
}

func (c *core) frame(ev event) {
	rank, ok := c.conns[ev.conn]
	if !ok {
		return
	}
	r, err := wire.DecodeRequest(ev.payload)
	if err != nil {
		c.refuse(ev.conn, ev.tag, wire.StatusErrUnpackFailure, err.Error())
		return
	}
	p := c.process(rank)
	if p.conn != ev.conn {
		if r.Command() != wire.CmdDeregisterEvents {
			c.refuse(ev.conn, ev.tag, wire.StatusErrInit, "request "+r.Command().String()+" after finalize")
		}
		return
	}
	c.request(ev.conn, ev.tag, p, r)
}

func (c *core) request(conn connID, tag uint32, p *process, r wire.Request) {
	switch r := r.(type) {
	case *wire.InitRequest:
		c.send(conn, tag, c.info)
	case *wire.AbortRequest:
		c.abort(conn, tag, p, r)
	case *wire.CommitRequest:
		c.commit(conn, tag, p, r)
	case *wire.FenceRequest:
		c.fence(conn, tag, p, r)
	case *wire.GetRequest:
		c.get(conn, tag, p, r)
	case *wire.FinalizeRequest:
		c.finalize(conn, tag, p)
	case *wire.NotifyRequest:
		c.reply(conn, tag, wire.StatusSuccess)
	case *wire.RegisterEventsRequest:
		c.registerEvents(conn, tag, p, r)
	case *wire.DeregisterEventsRequest:
		p.events.remove(r.Codes)
	case *wire.JobControlRequest:
		c.jobControl(conn, tag, p, r)
	default:
		c.refuse(conn, tag, wire.StatusErrNotSupported, "request "+r.Command().String()+" is not served")
	}
}

func (c *core) commit(conn connID, tag uint32, p *process, r *wire.CommitRequest) {
	rank := wire.Rank(p.Rank)
	for _, b := range r.Blobs {
		if err := c.store.Commit(rank, b.Scope, b.Data); err != nil {
			c.refuse(conn, tag, wire.StatusErrUnpackFailure, err.Error())
			return
		}
	}
	c.reply(conn, tag, wire.StatusSuccess)
	c.settleGets(rank)
}

// abort ends the job. The protocol can also name some of its processes; there is nobody here to end only those.
func (c *core) abort(conn connID, tag uint32, p *process, r *wire.AbortRequest) {
	if len(r.Procs) > 0 {
		if _, key, err := c.participants(r.Procs); err != nil || key != everybody {
			c.refuse(conn, tag, wire.StatusErrParamValueNotSupported, "abort of some processes is not served")
			return
		}
	}
	c.act(action{kind: actAbort, rank: wire.Rank(p.Rank), status: r.Status, text: r.Message})
	c.reply(conn, tag, wire.StatusSuccess)
}

func (c *core) registerEvents(conn connID, tag uint32, p *process, r *wire.RegisterEventsRequest) {
	codes := r.Codes
	if len(codes) == 0 {
		codes = []wire.Status{wire.StatusMaxErrConstant}
	}
	if len(p.events.codes)+len(codes) > maxRemembered {
		c.refuse(conn, tag, wire.StatusErrOutOfResource, fmt.Sprintf("more than %d event codes", maxRemembered))
		return
	}
	p.events.add(codes)
	c.reply(conn, tag, wire.StatusSuccess)
}

func (e *registrations) add(codes []wire.Status) {
	if e.codes == nil {
		e.codes = map[wire.Status]int{}
	}
	for _, code := range codes {
		e.codes[code]++
	}
}

func (e *registrations) remove(codes []wire.Status) {
	for _, code := range codes {
		if e.codes[code] > 1 {
			e.codes[code]--
			continue
		}
		delete(e.codes, code)
	}
}

func (c *core) jobControl(conn connID, tag uint32, p *process, r *wire.JobControlRequest) {
	added := cleanups(r.Info)
	if len(p.cleanups)+len(added) > maxRemembered {
		c.refuse(conn, tag, wire.StatusErrOutOfResource, fmt.Sprintf("more than %d paths to clean up", maxRemembered))
		return
	}
	p.cleanups = append(p.cleanups, added...)
	c.reply(conn, tag, wire.StatusSuccess)
}

func cleanups(infos []wire.Info) []cleanup {
	var out []cleanup
	recursive := flag(infos, wire.KeyCleanupRecursive)
	for _, info := range infos {
		if info.Key != wire.KeyRegisterCleanup && info.Key != wire.KeyRegisterCleanupDir {
			continue
		}
		paths, _ := info.Value.Str()
		for path := range strings.SplitSeq(paths, ",") {
			if path != "" {
				out = append(out, cleanup{path, info.Key == wire.KeyRegisterCleanupDir, recursive})
			}
		}
	}
	return out
}

// flag reports whether a key is given and not given as false.
func flag(infos []wire.Info, key string) bool {
	for _, info := range infos {
		if info.Key == key {
			b, ok := info.Value.Bool()
			return b || !ok
		}
	}
	return false
}

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
