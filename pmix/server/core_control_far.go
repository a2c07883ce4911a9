package server

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// The node of a client acts on its own processes, and passes an abort or job control on to the nodes of the others. The
// client has its answer when all of them have acted. A node that dies meanwhile counts as one that has: its processes are
// gone.

// missingFrom returns the processes that are not among some names, and not known to have ended.
func (s *nspace) missingFrom(targets []codec.Proc) (missing []*process) {
	for _, p := range s.procs {
		if _, ended := p.end(); !ended && !codec.AnyMatch(targets, []codec.Proc{p.name}) {
			missing = append(missing, p)
		}
	}
	return missing
}

// askWhoLives asks other nodes whether the processes that a client leaves out of those of its job still live, and calls done
// then. Nobody tells this node of those that have ended well. It asks nobody if the answer makes no difference.
func (ct *jobControl) askWhoLives(at caller, targets []codec.Proc, done func()) {
	missing := at.space.missingFrom(targets)
	nodes, _ := ct.errands.nodesOf(names(missing))
	if !ct.peered || len(nodes) == 0 || slices.ContainsFunc(missing, func(p *process) bool { return p.local }) {
		done()
		return
	}
	ct.errands.ask(at, nodes, &peerMessage{op: opCensus, procs: names(missing)}, func(answers []peerAnswer) {
		ct.queries.noteAnswers(at, answers)
		done()
	})
}

// tellCondemned tells all nodes which processes a client wants to end, before any of them can hear of their ends. So all
// describe these ends alike.
func (ct *jobControl) tellCondemned(from codec.Proc, targets []codec.Proc, aborts bool) {
	if ct.peered {
		ct.errands.tell(Everyone, &peerMessage{op: opCondemn, proc: from, procs: targets, flag: aborts})
	}
}

// passOn passes a request on to the other nodes of some processes, and answers the client.
func (ct *jobControl) passOn(at caller, targets []codec.Proc, r codec.Request) {
	nodes, _ := ct.errands.nodesOf(targets)
	if !ct.peered || len(nodes) == 0 {
		ct.reply(at, codec.StatusSuccess)
		return
	}
	body, err := codec.AppendRequest(nil, r)
	if err != nil {
		ct.refuse(at, codec.StatusErrPackFailure, r.Command().String()+": "+err.Error())
		return
	}
	ct.errands.ask(at, nodes, &peerMessage{op: opControl, proc: at.name, body: body}, func(answers []peerAnswer) {
		for _, a := range answers {
			if a.status != codec.StatusSuccess {
				ct.reply(at, a.status)
				return
			}
		}
		ct.reply(at, codec.StatusSuccess)
	})
}

// serveFar serves the request of another node's client. That node has checked that the client may ask for it.
func (ct *jobControl) serveFar(m *peerMessage) peerAnswer {
	request, err := codec.DecodeRequest(m.body)
	if err != nil {
		return peerAnswer{status: codec.StatusErrUnpackFailure, why: err.Error()}
	}
	status := codec.StatusSuccess
	switch r := request.(type) {
	case *codec.AbortRequest:
		if r.Procs, err = ct.checkFarTargets(r.Procs); err == nil {
			ct.abortNear(m.proc, r.Procs, r)
		}
	case *codec.JobControlRequest:
		if r.Targets, err = ct.checkFarTargets(r.Targets); err == nil {
			_, status, err = ct.controlNear(m.proc, r.Targets, r.Info, false)
		}
	default:
		err = fmt.Errorf("want an abort or job control")
	}
	if err != nil {
		if status == codec.StatusSuccess {
			status = codec.StatusErrBadParam
		}
		return peerAnswer{status: status, why: fmt.Sprintf("request %v of %v on another node: %v", request.Command(), m.proc, err)}
	}
	return peerAnswer{status: status}
}

// checkFarTargets returns the names that stand for processes of this node, each once. There is at least one.
func (ct *jobControl) checkFarTargets(procs []codec.Proc) ([]codec.Proc, error) {
	procs, err := ct.checkTargets(procs)
	if err != nil {
		return nil, err
	}
	procs = slices.DeleteFunc(procs, func(name codec.Proc) bool {
		return name.Rank != codec.RankWildcard && !ct.find(name).local
	})
	if len(procs) == 0 {
		return nil, fmt.Errorf("no process of this node is named, want one or more")
	}
	return procs, nil
}
