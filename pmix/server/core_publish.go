package server

import (
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/kvs"
)

// published serves the requests about data that processes publish by name. In a job on one node it has the desk. In a job
// on several nodes it passes the requests on to the job's Board, and tells that when processes end.
type published struct {
	*common
	errands *errands
	desk    *desk
	waiting map[uint64]caller // clients whose requests are at the desk, by number
	last    uint64            // number of the last request
}

// party returns a client's identity for the board. All clients of a job are of the user who started it, so the board
// trusts the user that a client names.
func (p *process) party() kvs.Party {
	return kvs.Party{Proc: p.name, Node: p.place.Node, App: p.place.AppNum}
}

// serve serves a request to publish, look up or unpublish.
func (pb *published) serve(at caller, r codec.Request) {
	if pb.peered {
		pb.passOn(at, r)
		return
	}
	pb.last++
	pb.waiting[pb.last] = at
	pb.desk.serve(ticket{number: pb.last}, at.party(), r)
	pb.deliver()
}

// deliver gives the clients the answers of the desk.
func (pb *published) deliver() {
	for _, v := range pb.desk.takeOut() {
		at := pb.waiting[v.number]
		delete(pb.waiting, v.number)
		if v.why != "" {
			pb.emit(action{kind: actRefused, conn: at.conn, proc: at.name, status: v.status, text: v.why})
		}
		pb.send(at.conn, at.tag, v.reply)
	}
}

// passOn gives a request to the job's board, and the client the answer.
func (pb *published) passOn(at caller, r codec.Request) {
	body, err := codec.AppendRequest(nil, r)
	if err != nil {
		pb.refuse(at, codec.StatusErrPackFailure, r.Command().String()+": "+err.Error())
		return
	}
	if app := at.place.AppNum; r.Command() == codec.CmdPublish && !at.space.tool && !at.space.publishes[app] {
		at.space.publishes[app] = true
		pb.tellLifetime(at.space, app, codec.Proc{Nspace: at.name.Nspace, Rank: codec.RankUndef}, false)
	}
	m := &peerMessage{op: opRequest, proc: at.name, number: uint64(at.place.AppNum), body: body}
	pb.errands.ask(at, []int{Root}, m, func(answers []peerAnswer) {
		if len(answers) == 0 || len(answers[0].body) == 0 { // the board is gone, or could not read the request
			pb.reply(at, codec.StatusErrUnreach)
			return
		}
		pb.send(at.conn, at.tag, answers[0].body)
	})
}

// tellLifetime tells the board on which nodes an application has processes. A process may have ended, and with it the
// application on this node. A tool is on no node of the job: its end is that of its application.
func (pb *published) tellLifetime(s *nspace, app uint32, ended codec.Proc, all bool) {
	m := &peerMessage{op: opLifetime, proc: ended, number: uint64(app), flag: all}
	for _, p := range s.procs {
		if node := int(p.place.Node); !s.tool && p.place.AppNum == app && !slices.Contains(m.nodes, node) {
			m.nodes = append(m.nodes, node)
		}
	}
	pb.errands.tell(Root, m)
}

// dropConnection drops the waiting lookups of a connection that has ended.
func (pb *published) dropConnection(conn connID) {
	for _, number := range sortedKeys(pb.waiting) {
		if pb.waiting[number].conn == conn {
			delete(pb.waiting, number)
			pb.desk.drop(ticket{number: number})
		}
	}
}

// expire fails the lookups whose deadline has passed.
func (pb *published) expire() {
	pb.desk.expire()
	pb.deliver()
}

// dropEnded drops the data that was published for the lifetime of a process that has ended. After the last process of
// an application it also drops the data published for the application's lifetime.
func (pb *published) dropEnded(p *process) {
	app := p.place.AppNum
	lives := func(q *process) bool { return q.place.AppNum == app && !q.exited && (q.local || !pb.peered) }
	all := !slices.ContainsFunc(p.space.procs, lives)
	if pb.peered {
		if p.local {
			pb.tellLifetime(p.space, app, p.name, all)
		}
		return
	}
	pb.desk.board.ProcEnded(p.name)
	if all {
		pb.desk.board.AppEnded(p.name.Nspace, app)
	}
}
