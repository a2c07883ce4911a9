package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/kvs"
)

// Bounds on what clients can publish, and on the lookups that wait for it.
const (
	maxPublishedKeys   = 4096     // of one process
	maxPublishedBytes  = 4 << 20  // of one process
	maxPublishedTotal  = 64 << 20 // of all processes together
	maxLookupKeys      = 1024     // of one request
	maxWaitingLookups  = 64       // of one process
	maxRangeMembership = 4096     // number of processes and users that one request may name
)

func newBoard() *kvs.Board {
	return kvs.NewBoard(kvs.BoardLimits{Keys: maxPublishedKeys, Bytes: maxPublishedBytes, Total: maxPublishedTotal})
}

// lookup is a request for published data, some of which is still to come.
type lookup struct {
	at       caller
	reader   kvs.Party
	from     kvs.Terms
	keys     []string
	need     int
	deadline tick
}

// party returns a client's identity for the board. All clients of a server are on its node, and all are of the user who
// started the step, so the board trusts the user that a client names.
func (p *process) party(uid uint32) kvs.Party {
	return kvs.Party{Proc: p.name, App: p.place.AppNum, UID: uid}
}

// published serves the data that processes publish by name, and the lookups that wait for it.
type published struct {
	*common
	board   *kvs.Board
	waiting []*lookup // the oldest first
}

// publish serves a publish request, and answers the lookups that wait for the data.
func (pb *published) publish(at caller, r *codec.PublishRequest) {
	terms, status, err := readTerms(r.Info)
	if err != nil {
		pb.refuse(at, status, "publish: "+err.Error())
		return
	}
	var data []codec.KVal
	for _, info := range r.Info {
		if !strings.HasPrefix(info.Key, "pmix.") { // other keys are directives
			data = append(data, codec.KVal{Key: info.Key, Value: info.Value})
		}
	}
	if len(data) == 0 {
		pb.refuse(at, codec.StatusErrBadParam, "publish: no keys, want at least one besides the directives")
		return
	}
	if status, err := pb.board.Publish(at.party(r.UID), terms, data); err != nil {
		if status != codec.StatusErrDuplicateKey { // programs may try this on purpose, so it is not logged
			pb.emit(action{kind: actRefused, conn: at.conn, proc: at.name, status: status, text: "publish: " + err.Error()})
		}
		pb.reply(at, status)
		return
	}
	pb.reply(at, codec.StatusSuccess)
	pb.answerWaiting()
}

// lookUp serves a lookup. It waits for data that is still to come if its directives say so.
func (pb *published) lookUp(at caller, r *codec.LookupRequest) {
	from, status, err := readTerms(r.Info)
	if err != nil {
		pb.refuse(at, status, "lookup: "+err.Error())
		return
	}
	if len(r.Keys) == 0 || len(r.Keys) > maxLookupKeys {
		pb.refuse(at, codec.StatusErrBadParam, fmt.Sprintf("lookup: %d keys, want 1 to %d", len(r.Keys), maxLookupKeys))
		return
	}
	l := &lookup{at: at, reader: at.party(r.UID), from: from, keys: r.Keys}
	need, wait := waitCount(r.Info, len(r.Keys))
	l.need = need
	if pb.answerLookup(l, !wait) {
		return
	}
	if pb.countLookups(at.process) >= maxWaitingLookups {
		pb.refuse(at, codec.StatusErrOutOfResource, fmt.Sprintf("lookup: %d lookups of the caller wait already, which is the limit", maxWaitingLookups))
		return
	}
	l.deadline = pb.readTimeout(r.Info)
	pb.waiting = append(pb.waiting, l)
}

// waitCount returns how many of n values a lookup waits for. Open MPI gives true where the standard has a number.
func waitCount(infos []codec.Info, n int) (need int, wait bool) {
	v, found := codec.Find(infos, codec.KeyWait)
	if !found {
		return n, false
	}
	if b, isBool := v.Bool(); isBool {
		return n, b
	}
	if count, ok := v.Uint64(); ok && count > 0 && count < uint64(n) {
		return int(count), true
	}
	return n, true
}

// answerLookup answers a lookup if the board has as much as it needs, or at once with whatever there is.
func (pb *published) answerLookup(l *lookup, atOnce bool) bool {
	found, denied := pb.board.Find(l.reader, l.from, l.keys)
	status := codec.StatusSuccess
	switch {
	case len(found) >= l.need:
	case !atOnce:
		return false
	case len(found) > 0:
		status = codec.StatusErrPartialSuccess
	case denied:
		status = codec.StatusErrNoPermissions
	default:
		status = codec.StatusErrNotFound
	}
	packed := make([][]byte, len(found))
	for i, n := range found {
		packed[i] = n.Packed
	}
	pb.send(l.at.conn, l.at.tag, codec.AppendLookupReply(nil, status, packed))
	pb.board.Read(found)
	return true
}

// answerWaiting answers the waiting lookups that the board can satisfy now, the oldest first: data that can be read
// only once goes to one of them.
func (pb *published) answerWaiting() {
	pb.waiting = slices.DeleteFunc(pb.waiting, func(l *lookup) bool { return pb.answerLookup(l, false) })
}

// countLookups returns the number of waiting lookups of a process.
func (pb *published) countLookups(p *process) int {
	n := 0
	for _, l := range pb.waiting {
		if l.at.process == p {
			n++
		}
	}
	return n
}

// dropConnection drops the waiting lookups of a connection that has ended.
func (pb *published) dropConnection(conn connID) {
	pb.waiting = slices.DeleteFunc(pb.waiting, func(l *lookup) bool { return l.at.conn == conn })
}

// expire fails the lookups whose deadline has passed.
func (pb *published) expire() {
	pb.waiting = slices.DeleteFunc(pb.waiting, func(l *lookup) bool {
		over := pb.checkDeadline(l.deadline)
		if over {
			pb.reply(l.at, codec.StatusErrTimeout)
		}
		return over
	})
}

// unpublish serves an unpublish request.
func (pb *published) unpublish(at caller, r *codec.UnpublishRequest) {
	terms, status, err := readTerms(r.Info)
	if err != nil {
		pb.refuse(at, status, "unpublish: "+err.Error())
		return
	}
	if _, given := codec.Find(r.Info, codec.KeyRange); !given {
		terms.Range = codec.RangeUndef
	}
	own, others := pb.board.Unpublish(at.party(r.UID), terms.Range, r.Keys)
	switch {
	case own == len(r.Keys):
		status = codec.StatusSuccess
	case own > 0:
		status = codec.StatusErrPartialSuccess
	case others > 0:
		status = codec.StatusErrNoPermissions
	default:
		status = codec.StatusErrNotFound
	}
	pb.reply(at, status)
}

// dropEnded drops the data that was published for the lifetime of a process that has ended. After the last process of
// an application it also drops the data published for the application's lifetime.
func (pb *published) dropEnded(p *process) {
	pb.board.ProcEnded(p.name)
	lives := func(q *process) bool { return q.place.AppNum == p.place.AppNum && !q.exited }
	if !slices.ContainsFunc(p.space.procs, lives) {
		pb.board.AppEnded(p.name.Nspace, p.place.AppNum)
	}
}
