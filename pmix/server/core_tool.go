package server

import (
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/kvs"
)

// maxTools bounds how many tools may be attached at once.
const maxTools = 32

// newToolSpace returns the namespace of a tool, which has one process.
func newToolSpace(name codec.Proc) (*nspace, error) {
	pairs := []codec.KVal{{Key: codec.KeyBfropsModule, Value: codec.StringValue(codec.Version)}}
	d := description{nspace: name.Nspace, pairs: pairs}
	info, err := d.info()
	if err != nil {
		return nil, err
	}
	level, err := d.level()
	if err != nil {
		return nil, err
	}
	s := &nspace{
		name: name.Nspace, everybody: name.Nspace + ":*", tool: true, info: info, level: level,
		store: kvs.New(name.Nspace),
	}
	s.procs = []*process{{name: name, space: s, local: true}}
	return s, nil
}

// claimTool accepts a tool, which lives as long as its connection.
func (c *core) claimTool(ev event) {
	tools := 0
	for _, s := range c.spaces {
		if s.tool {
			tools++
		}
	}
	switch {
	case c.spaces[ev.space.name] != nil:
		c.rejectClaim(ev, codec.StatusErrExists, "tool with the name of another namespace")
		return
	case tools >= maxTools:
		c.rejectClaim(ev, codec.StatusErrOutOfResource, "too many tools are attached")
		return
	}
	p := ev.space.procs[0]
	c.spaces[ev.space.name] = ev.space
	c.conns[ev.conn] = p.addLink(ev.conn)
	c.emit(action{kind: actAccept, conn: ev.conn, proc: p.name})
}
