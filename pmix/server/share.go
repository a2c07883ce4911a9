package server

import "slices"

// maxShared bounds the bytes that a get brings.
const maxShared = 1 << 20

// shared is what all processes of a job have put, packed as one answer to a get. After a fence of the whole job that
// collects data, its processes ask for each other's data one by one: n gets of n processes each. The answer to the
// first get can bring everything. A client keeps what it got and finds it there when it asks for the next process.
//
// A further commit ends the use of a shared answer. Clients would go on using an old value for a key that has a new
// one, as they do with data that they have asked for themselves.
type shared struct {
	due   bool   // All processes have met, and no get has come since.
	reply []byte // nil: nothing is shared
	ends  []int  // position in reply at which the data of each rank ends
	issue uint64 // number of replies so far
}

// noteMeeting records that all processes of the job have met to exchange data.
func (s *nspace) noteMeeting() { s.shared.due = s.shared.reply == nil }

// unshare ends the use of the shared answer, because a process has committed something.
func (s *nspace) unshare() { s.shared = shared{issue: s.shared.issue} }

// share packs what the job's processes have put, unless it is too much or a process has put nothing.
func (s *nspace) share() {
	s.shared.due = false
	reply := slices.Clone(success)
	ends := make([]int, len(s.procs))
	for i, p := range s.procs {
		data, ok := s.store.Reply(p.name.Rank, readerOf(p))
		if !ok || len(reply)+len(data) > maxShared {
			return
		}
		reply = append(reply, data[len(success):]...)
		ends[i] = len(reply)
	}
	s.shared.reply, s.shared.ends = reply, ends
	s.shared.issue++
}

// sendData answers a get for which the data is there. A reader of the target's job that has not got the shared answer
// yet gets that, any other reader the target's data. A reader never gets its own data in this way, because it may have
// put something else since.
func (gs *gets) sendData(g *get, target *process) {
	s, reader := target.space, gs.conns[g.conn]
	if reader == nil {
		return // the reader's connection has ended
	}
	if s.shared.due && reader.space == s {
		s.share()
	}
	if s.shared.reply == nil || reader.space != s || reader.process == target || reader.issue == s.shared.issue {
		reply, _ := s.store.Reply(target.name.Rank, g.reader)
		gs.send(g.conn, g.tag, reply)
		return
	}
	reader.issue = s.shared.issue
	rank, begin := reader.name.Rank, len(success)
	if rank > 0 {
		begin = s.shared.ends[rank-1]
	}
	gs.emit(action{
		kind: actSend, conn: g.conn, tag: g.tag,
		payload: s.shared.reply[:begin:begin], more: s.shared.reply[s.shared.ends[rank]:],
	})
}
