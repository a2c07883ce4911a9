package server

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// The state of a process is known on its own node. A query about processes of other nodes asks their servers first, and is
// answered when all that live have said what they know. A query about groups asks the servers of other
// nodes as well. All else that queries tell is the same on all nodes.

// sight is what a process's own node has said about it.
type sight struct {
	pid    int // zero: unknown
	state  uint8
	ended  bool
	status codec.Status // of the failure; success: there was none
}

// askNodes asks the nodes of the processes that a query is about, and answers the query then.
func (qs *queries) askNodes(at caller, r *codec.QueryRequest) {
	procs, groups := qs.farProcs(at.process, r), asksForGroups(r)
	if groups {
		procs = append(procs, qs.farMembers()...)
		slices.SortFunc(procs, compareProcs)
		procs = slices.Compact(procs)
	}
	nodes, _ := qs.errands.nodesOf(procs)
	if groups {
		nodes = qs.allNodes()
	}
	if !qs.peered || len(nodes) == 0 {
		qs.answerQuery(at, r)
		return
	}
	qs.errands.ask(at, nodes, &peerMessage{op: opCensus, procs: procs, flag: groups}, func(answers []peerAnswer) {
		qs.noteAnswers(at, answers)
		qs.answerQuery(at, r)
		qs.farGroups = nil
	})
}

// noteAnswers notes what other nodes have said to a client's question.
func (qs *queries) noteAnswers(at caller, answers []peerAnswer) {
	for i := range answers {
		if err := qs.noteCensus(answers[i].body); err != nil {
			qs.emit(action{kind: actRefused, conn: at.conn, proc: at.name, status: codec.StatusErrUnpackFailure, text: "query: " + err.Error()})
		}
	}
}

// farProcs returns the processes of other nodes whose state a query is about, each once. A wildcard rank stands for a job.
func (qs *queries) farProcs(asker *process, r *codec.QueryRequest) (procs []codec.Proc) {
	asked := 0
	for i := range r.Queries {
		if asked += len(r.Queries[i].Keys); asked > maxQueryKeys {
			return nil // the query will be refused
		}
		q := qs.readQualifiers(asker, r.Queries[i].Qualifiers)
		if q.space == nil || q.space.tool {
			continue
		}
		for _, key := range r.Queries[i].Keys {
			switch key {
			case codec.KeyQueryJobStatus, codec.KeyQueryProcTable:
				procs = append(procs, codec.Proc{Nspace: q.space.name, Rank: codec.RankWildcard})
			case codec.KeyQueryLocalProcTable:
				for _, p := range q.space.procs {
					if !p.local && int(p.place.Node) == q.node {
						procs = append(procs, p.name)
					}
				}
			case codec.KeyProcPID, codec.KeyProcState:
				if p := q.asked(); p != nil && !p.local {
					procs = append(procs, p.name)
				}
			}
		}
	}
	slices.SortFunc(procs, compareProcs)
	return slices.Compact(procs)
}

// serveCensus tells another node the states of processes of this node, and its groups if they are asked for.
func (qs *queries) serveCensus(m *peerMessage) peerAnswer {
	e := codec.NewEncoder(nil)
	if m.flag {
		qs.appendGroups(e)
	} else {
		e.Uint(0)
	}
	for _, name := range m.procs {
		s := qs.spaces[name.Nspace]
		if s == nil {
			continue // the job is over here
		}
		for _, p := range s.procs {
			if !p.local || !name.Matches(p.name) {
				continue
			}
			status, ended := p.end()
			e.Proc(p.name)
			e.Uint(uint64(p.pid))
			e.Byte(p.state())
			e.Bool(ended)
			e.Status(status)
		}
	}
	return peerAnswer{body: e.Bytes()}
}

// noteCensus notes what another node has said about its processes and groups.
func (qs *queries) noteCensus(body []byte) error {
	if len(body) == 0 {
		return nil // the node could not serve the question, and has said why
	}
	d := codec.NewDecoder(body)
	groups := readGroups(d)
	if d.Err() == nil {
		qs.farGroups = append(qs.farGroups, groups...)
	}
	for d.More() {
		name := d.Proc()
		s := sight{pid: int(uint32(d.Uint())), state: d.Byte(), ended: d.Bool(), status: d.Status()}
		if d.Err() != nil {
			break
		}
		p := qs.find(name)
		if p != nil && p.local {
			return fmt.Errorf("another node tells the state of process %v, want one of its own", name)
		}
		if p != nil {
			p.seen = &s
		}
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("groups and states of processes of another node: %w", err)
	}
	return nil
}

// end reports whether a process has ended, as far as this node knows, and the status of its failure; success for none.
func (p *process) end() (status codec.Status, ended bool) {
	switch {
	case p.exited && p.exit.nodeLost:
		return codec.StatusEventNodeDown, true
	case p.seen != nil && p.seen.ended:
		return p.seen.status, true
	case p.exited:
		status, _ = p.describeEnd(p.exit)
		return status, true
	default:
		return codec.StatusSuccess, false
	}
}

// processID returns the number of a process on its node, 0 if it is not known.
func (p *process) processID() int {
	if p.seen != nil {
		return p.seen.pid
	}
	return p.pid
}
