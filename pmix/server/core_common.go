package server

import (
	"fmt"

	"github.com/goshmem/goshmem/pmix/codec"
)

// common is the part of the core that all features share. A feature embeds a pointer to it.
type common struct {
	outbox
	clock
	roster
	remote bool // the server can meet servers of other nodes in fences, and ask them for data of processes
	peered bool // the server can ask and tell servers of other nodes, and the board
}

// outbox collects the actions of one step, in the order in which the driver carries them out.
type outbox struct {
	out []action
}

// emit appends an action.
func (o *outbox) emit(a action) { o.out = append(o.out, a) }

// send answers a request, or sends a message of the server's own, on a connection.
func (o *outbox) send(conn connID, tag uint32, payload []byte) {
	o.emit(action{kind: actSend, conn: conn, tag: tag, payload: payload})
}

// reply answers a request with a status alone.
func (o *outbox) reply(at caller, status codec.Status) {
	o.send(at.conn, at.tag, statusReply(status))
}

// refuse answers a request with an error that is the client's fault, and logs the reason.
func (o *outbox) refuse(at caller, status codec.Status, why string) {
	o.emit(action{kind: actRefused, conn: at.conn, proc: at.name, status: status, text: why})
	o.reply(at, status)
}

var success = codec.AppendStatusReply(nil, codec.StatusSuccess)

// statusReply packs an answer that is a status alone. Success allocates nothing.
func statusReply(status codec.Status) []byte {
	if status == codec.StatusSuccess {
		return success
	}
	return codec.AppendStatusReply(nil, status)
}

// clock knows the time of the current step and the next deadline.
//
// A feature keeps its own deadlines. The clock keeps a lower bound of all of them: each deadline passes through
// noteDeadline when a feature sets it, and again through checkDeadline each time the core looks and it has not passed.
type clock struct {
	second tick // number of ticks in a second
	now    tick // never goes back
	next   tick // No deadline lies before next. Zero: there is no deadline.
}

// deadlineIn returns the tick that lies a number of seconds ahead, and notes it as a deadline.
func (k *clock) deadlineIn(seconds uint64) tick {
	at := k.now + tick(min(seconds, 1<<31))*k.second
	k.noteDeadline(at)
	return at
}

// noteDeadline makes the core look at its deadlines by a tick; zero is no deadline.
func (k *clock) noteDeadline(at tick) {
	if at != 0 && (k.next == 0 || at < k.next) {
		k.next = at
	}
}

// checkDeadline reports whether a deadline has passed, and notes one that has not.
func (k *clock) checkDeadline(at tick) bool {
	if at != 0 && at <= k.now {
		return true
	}
	k.noteDeadline(at)
	return false
}

// readTimeout returns the deadline that the directive pmix.timeout sets, zero for none, and notes it.
func (k *clock) readTimeout(infos []codec.Info) tick {
	for _, info := range infos {
		if info.Key == codec.KeyTimeout {
			if seconds, ok := info.Value.Uint64(); ok && seconds > 0 {
				return k.deadlineIn(seconds)
			}
		}
	}
	return 0
}

// roster lists the namespaces that the server knows, and the process behind each connection.
type roster struct {
	spaces map[string]*nspace
	conns  map[connID]*link
}

// find returns the state of a process, nil for one that the server does not know.
func (r *roster) find(name codec.Proc) *process {
	s := r.spaces[name.Nspace]
	if s == nil {
		return nil
	}
	return s.find(name.Rank)
}

// checkTargets returns the processes that a request names to the host, each once; a wildcard rank stands for a
// namespace.
//
//   - Errors: a process that the server does not know.
func (r *roster) checkTargets(procs []codec.Proc) ([]codec.Proc, error) {
	seen := make(map[codec.Proc]bool, min(len(procs), 64))
	var out []codec.Proc
	for _, name := range procs {
		s := r.spaces[name.Nspace]
		if s == nil || (name.Rank != codec.RankWildcard && s.find(name.Rank) == nil) {
			return nil, fmt.Errorf("process %v is unknown here, want a process of a job of this server", name)
		}
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out, nil
}
