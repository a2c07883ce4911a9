package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/pmix/wire"
)

// Bounds on queries: some answers are much longer than the question.
const (
	maxQueryKeys  = 256
	maxQueryBytes = 16 << 20
)

// question is what one query's qualifiers narrow its keys to.
type question struct {
	asker *process
	infos []wire.Info
	space *nspace    // nil: one that the server does not know
	rank  *wire.Rank // nil: no process in particular
	node  int        // index among the job's hosts; -1: one that it has not
	group string
}

// answers are the keys that are more than a job's description says.
var answers map[string]func(c *core, q *question) (wire.Value, bool)

func init() { // the table's own keys are in the table
	answers = map[string]func(*core, *question) (wire.Value, bool){
		wire.KeyQuerySupportedKeys:    (*core).supportedKeys,
		wire.KeyQueryNamespaces:       (*core).namespaces,
		wire.KeyQueryNamespaceInfo:    (*core).namespaceInfo,
		wire.KeyQueryJobStatus:        (*core).jobStatus,
		wire.KeyQueryProcTable:        (*core).procTable,
		wire.KeyQueryLocalProcTable:   (*core).localProcTable,
		wire.KeyProcPID:               (*core).procPID,
		wire.KeyProcState:             (*core).procState,
		wire.KeyQueryNumPsets:         (*core).numPsets,
		wire.KeyQueryPsetNames:        (*core).psetNames,
		wire.KeyQueryNumGroups:        (*core).numGroups,
		wire.KeyQueryGroupNames:       (*core).groupNames,
		wire.KeyQueryGroupMembership:  (*core).groupMembership,
		wire.KeyQuerySpawnSupport:     (*core).spawnSupport,
		wire.KeyQueryAttributeSupport: (*core).attributeSupport,
		wire.KeyVersion:               fixed(wire.StringValue(wire.Version)),
		wire.KeyRMName:                fixed(wire.StringValue("goshmem")),
		wire.KeyRMVersion:             fixed(wire.StringValue(version.String())),
	}
}

// fixed is the answer to a key whose value never changes.
func fixed(v wire.Value) func(*core, *question) (wire.Value, bool) {
	return func(*core, *question) (wire.Value, bool) { return v, true }
}

// query answers every key that it can. Of a request with several keys libpmix 4.2 takes the answer only if none is
// missing; later ones take what there is.
func (c *core) query(at caller, r *wire.QueryRequest) {
	e := wire.NewEncoder(nil)
	asked, found := 0, 0
	for i := range r.Queries {
		q := c.narrow(at.process, r.Queries[i].Qualifiers)
		for _, key := range r.Queries[i].Keys {
			if asked++; asked > maxQueryKeys {
				c.refuse(at, wire.StatusErrOutOfResource, fmt.Sprintf("query: more than %d keys", maxQueryKeys))
				return
			}
			v, ok := c.answer(q, key)
			if !ok {
				continue
			}
			found++
			e.Info(wire.Info{Key: key, Value: v})
			if len(e.Bytes()) > maxQueryBytes {
				c.refuse(at, wire.StatusErrOutOfResource, fmt.Sprintf("query: answer of more than %d bytes", maxQueryBytes))
				return
			}
		}
	}
	status := wire.StatusSuccess
	switch {
	case asked == 0:
		c.refuse(at, wire.StatusErrBadParam, "query: no keys, want at least one")
		return
	case e.Err() != nil:
		c.refuse(at, wire.StatusErrPackFailure, "query: "+e.Err().Error())
		return
	case found == 0:
		status = wire.StatusErrNotFound
	case found < asked:
		status = wire.StatusErrPartialSuccess
	}
	c.send(at.conn, at.tag, wire.AppendQueryReply(nil, status, found, e.Bytes()))
}

// narrow reads qualifiers. Without any, questions are about the caller's own job and node.
func (c *core) narrow(p *process, infos []wire.Info) *question {
	q := &question{asker: p, infos: infos, space: p.space, node: -1}
	for _, info := range infos {
		switch info.Key {
		case wire.KeyProcID:
			if proc, ok := info.Value.Data.(wire.Proc); ok {
				q.space, q.rank = c.spaces[proc.Nspace], &proc.Rank
			}
		case wire.KeyNspace:
			if name, ok := info.Value.Str(); ok {
				q.space = c.spaces[name]
			}
		case wire.KeyRank:
			if n, ok := info.Value.Uint64(); ok {
				rank := wire.Rank(n)
				q.rank = &rank
			}
		case wire.KeyGroupID:
			q.group, _ = info.Value.Str()
		}
	}
	if q.rank != nil && *q.rank == wire.RankWildcard {
		q.rank = nil
	}
	if q.space != nil && q.space.job != nil {
		q.node = q.space.job.nodeOf(infos)
	}
	return q
}

// nodeOf returns the node that qualifiers name, this one if they name none.
func (j *Job) nodeOf(infos []wire.Info) int {
	if v, ok := wire.Find(infos, wire.KeyHostname); ok {
		name, _ := v.Str()
		return slices.Index(j.Hosts, name)
	}
	if v, ok := wire.Find(infos, wire.KeyNodeID); ok {
		if n, ok := v.Uint64(); ok && n < uint64(len(j.Hosts)) {
			return int(n)
		}
		return -1
	}
	return int(j.ThisNode)
}

func (c *core) answer(q *question, key string) (wire.Value, bool) {
	if f := answers[key]; f != nil {
		return f(c, q)
	}
	if q.space == nil {
		return wire.Value{}, false
	}
	return q.space.facts().find(q, key)
}

func (c *core) supportedKeys(*question) (wire.Value, bool) {
	return wire.StringValue(strings.Join(sortedKeys(answers), ",")), true
}

func (c *core) namespaces(*question) (wire.Value, bool) {
	var jobs []string
	for _, name := range sortedKeys(c.spaces) {
		if !c.spaces[name].tool {
			jobs = append(jobs, name)
		}
	}
	return wire.StringValue(strings.Join(jobs, ",")), true
}

// numPsets: there are no process sets other than namespaces and groups.
func (c *core) numPsets(*question) (wire.Value, bool) { return wire.SizeValue(0), true }

func (c *core) psetNames(*question) (wire.Value, bool) { return wire.StringValue(""), true }

func (c *core) numGroups(*question) (wire.Value, bool) {
	n := 0
	for _, groups := range c.groups {
		n += len(groups)
	}
	return wire.SizeValue(uint64(n)), true
}

func (c *core) groupNames(*question) (wire.Value, bool) {
	names := []any{}
	for _, id := range sortedKeys(c.groups) {
		for range c.groups[id] {
			names = append(names, id)
		}
	}
	return wire.Value{Type: wire.TypeDataArray, Data: wire.Array{Type: wire.TypeString, Elems: names}}, true
}

// groupMembership lists the members of a group, of several with one name that of the asker.
func (c *core) groupMembership(q *question) (wire.Value, bool) {
	g := c.groupOf(q.group, q.asker)
	if g == nil {
		if len(c.groups[q.group]) == 0 {
			return wire.Value{}, false
		}
		g = c.groups[q.group][0]
	}
	return wire.ProcsValue(names(g.members)...), true
}
