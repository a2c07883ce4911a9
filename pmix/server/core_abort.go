package server

import (
	"fmt"

	"github.com/goshmem/goshmem/pmix/wire"
)

// abort asks for the end of processes.
func (c *core) abort(at caller, r *wire.AbortRequest) {
	procs, err := c.targets(r.Procs)
	if err != nil {
		c.refuse(at, wire.StatusErrBadParam, "abort: "+err.Error())
		return
	}
	c.condemn(at.process, procs, true)
	c.act(action{kind: actAbort, proc: at.name, procs: procs, status: r.Status, text: r.Message})
	c.reply(at, wire.StatusSuccess)
}

// targets checks processes that are named to the host; a wildcard rank stands for a namespace.
func (c *core) targets(procs []wire.Proc) ([]wire.Proc, error) {
	seen := make(map[wire.Proc]bool, min(len(procs), 64))
	var out []wire.Proc
	for _, name := range procs {
		s := c.spaces[name.Nspace]
		if s == nil || (name.Rank != wire.RankWildcard && s.find(name.Rank) == nil) {
			return nil, fmt.Errorf("process %v, want one that is known here", name)
		}
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out, nil
}
