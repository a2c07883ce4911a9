package server

import "slices"

// maxShared bounds the bytes that a get brings.
const maxShared = 1 << 20

// shared is what all processes of a job have put, packed as one answer to a get. After a fence of the whole job that
// collects data its processes want to know each other, one by one: n gets of n processes each, where the answer to the
// first can bring everything. A client keeps what it got and finds it there when it asks for the next process.
//
// It is not used any more when somebody commits again: what clients were given would go on hiding a new value for an old
// key, as what they have asked for themselves does.
type shared struct {
	due   bool   // all have met, and nobody has asked yet
	reply []byte // nil: nothing is shared
	ends  []int  // where in reply the data of each rank ends
	issue uint64 // counts the replies
}

// meet says that all processes of the job have met to exchange data.
func (s *nspace) meet() { s.shared.due = s.shared.reply == nil }

// unshare says that a process has committed something.
func (s *nspace) unshare() { s.shared = shared{issue: s.shared.issue} }

// share packs what the job's processes have put, unless it is too much or some have put nothing.
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

// replyTo answers a get for which the data is there: with what everybody has put if the reader has not got that yet, with
// the target's data otherwise. A reader never gets its own data in this way: it may have put something else since.
func (c *core) replyTo(g *get, target *process) {
	s, reader := target.space, c.conns[g.conn]
	if reader == nil {
		return // it has gone
	}
	if s.shared.due && reader.space == s {
		s.share()
	}
	if s.shared.reply == nil || reader.space != s || reader == target || reader.issue == s.shared.issue {
		reply, _ := s.store.Reply(target.name.Rank, g.reader)
		c.send(g.conn, g.tag, reply)
		return
	}
	reader.issue = s.shared.issue
	rank, begin := reader.name.Rank, len(success)
	if rank > 0 {
		begin = s.shared.ends[rank-1]
	}
	c.act(action{
		kind: actSend, conn: g.conn, tag: g.tag,
		payload: s.shared.reply[:begin:begin], more: s.shared.reply[s.shared.ends[rank]:],
	})
}
