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

// ticket names a request at a desk: the node that has passed it on, and its number there.
type ticket struct {
	node   int
	number uint64
}

// verdict answers a request at a desk.
type verdict struct {
	ticket
	status codec.Status
	why    string // for the log; empty: nothing
	reply  []byte // the client's answer
}

// lookup is a request for published data, some of which is still to come.
type lookup struct {
	ticket
	reader   kvs.Party
	from     kvs.Terms
	keys     []string
	need     int
	deadline tick
}

// desk serves the requests about published data: it has the board, and the lookups that wait. It is pure. In a job on one
// node the server has the desk, otherwise a Board.
type desk struct {
	*clock
	board   *kvs.Board
	waiting []*lookup // the oldest first
	out     []verdict // of the requests that have been decided
	apps    map[appName]map[int]bool
	dead    map[int]bool // nodes that have died
}

// appName names an application of a job. A desk knows the nodes on which its processes have not ended.
type appName struct {
	nspace string
	number uint32
}

func newDesk(k *clock) *desk {
	limits := kvs.BoardLimits{Keys: maxPublishedKeys, Bytes: maxPublishedBytes, Total: maxPublishedTotal}
	return &desk{clock: k, board: kvs.NewBoard(limits), apps: map[appName]map[int]bool{}, dead: map[int]bool{}}
}

// takeOut returns the verdicts since the last call.
func (d *desk) takeOut() []verdict {
	out := d.out
	d.out = nil
	return out
}

// decide answers a request with a status alone.
func (d *desk) decide(t ticket, status codec.Status, why string) {
	d.out = append(d.out, verdict{ticket: t, status: status, why: why, reply: statusReply(status)})
}

// serve serves a client's request.
func (d *desk) serve(t ticket, from kvs.Party, r codec.Request) {
	switch r := r.(type) {
	case *codec.PublishRequest:
		from.UID = r.UID
		d.publish(t, from, r)
	case *codec.LookupRequest:
		from.UID = r.UID
		d.lookUp(t, from, r)
	case *codec.UnpublishRequest:
		from.UID = r.UID
		d.unpublish(t, from, r)
	default:
		d.decide(t, codec.StatusErrNotSupported, "request "+r.Command().String()+" is none about published data")
	}
}

// publish serves a publish request, and answers the lookups that wait for the data.
func (d *desk) publish(t ticket, from kvs.Party, r *codec.PublishRequest) {
	terms, status, err := readTerms(r.Info)
	if err != nil {
		d.decide(t, status, "publish: "+err.Error())
		return
	}
	var data []codec.KVal
	for _, info := range r.Info {
		if !strings.HasPrefix(info.Key, "pmix.") { // other keys are directives
			data = append(data, codec.KVal{Key: info.Key, Value: info.Value})
		}
	}
	if len(data) == 0 {
		d.decide(t, codec.StatusErrBadParam, "publish: no keys, want at least one besides the directives")
		return
	}
	if status, err := d.board.Publish(from, terms, data); err != nil {
		why := "publish: " + err.Error()
		if status == codec.StatusErrDuplicateKey { // programs may try this on purpose, so it is not logged
			why = ""
		}
		d.decide(t, status, why)
		return
	}
	d.decide(t, codec.StatusSuccess, "")
	d.answerWaiting()
}

// lookUp serves a lookup. It waits for data that is still to come if its directives say so.
func (d *desk) lookUp(t ticket, reader kvs.Party, r *codec.LookupRequest) {
	from, status, err := readTerms(r.Info)
	if err != nil {
		d.decide(t, status, "lookup: "+err.Error())
		return
	}
	if len(r.Keys) == 0 || len(r.Keys) > maxLookupKeys {
		d.decide(t, codec.StatusErrBadParam, fmt.Sprintf("lookup: %d keys, want 1 to %d", len(r.Keys), maxLookupKeys))
		return
	}
	l := &lookup{ticket: t, reader: reader, from: from, keys: r.Keys}
	need, wait := waitCount(r.Info, len(r.Keys))
	l.need = need
	if d.answerLookup(l, !wait) {
		return
	}
	if d.countLookups(reader.Proc) >= maxWaitingLookups {
		d.decide(t, codec.StatusErrOutOfResource, fmt.Sprintf("lookup: %d lookups of the caller wait already, which is the limit", maxWaitingLookups))
		return
	}
	l.deadline = d.readTimeout(r.Info)
	d.waiting = append(d.waiting, l)
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
func (d *desk) answerLookup(l *lookup, atOnce bool) bool {
	found, denied := d.board.Find(l.reader, l.from, l.keys)
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
	d.out = append(d.out, verdict{ticket: l.ticket, status: status, reply: codec.AppendLookupReply(nil, status, packed)})
	d.board.Read(found)
	return true
}

// answerWaiting answers the waiting lookups that the board can satisfy now, the oldest first: data that can be read
// only once goes to one of them.
func (d *desk) answerWaiting() {
	d.waiting = slices.DeleteFunc(d.waiting, func(l *lookup) bool { return d.answerLookup(l, false) })
}

// countLookups returns the number of waiting lookups of a process.
func (d *desk) countLookups(p codec.Proc) int {
	n := 0
	for _, l := range d.waiting {
		if l.reader.Proc == p {
			n++
		}
	}
	return n
}

// drop drops a waiting lookup whose client has gone.
func (d *desk) drop(t ticket) {
	d.waiting = slices.DeleteFunc(d.waiting, func(l *lookup) bool { return l.ticket == t })
}

// expire fails the lookups whose deadline has passed.
func (d *desk) expire() {
	d.waiting = slices.DeleteFunc(d.waiting, func(l *lookup) bool {
		over := d.checkDeadline(l.deadline)
		if over {
			d.decide(l.ticket, codec.StatusErrTimeout, "")
		}
		return over
	})
}

// unpublish serves an unpublish request.
func (d *desk) unpublish(t ticket, from kvs.Party, r *codec.UnpublishRequest) {
	terms, status, err := readTerms(r.Info)
	if err != nil {
		d.decide(t, status, "unpublish: "+err.Error())
		return
	}
	if _, given := codec.Find(r.Info, codec.KeyRange); !given {
		terms.Range = codec.RangeUndef
	}
	own, others := d.board.Unpublish(from, terms.Range, r.Keys)
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
	d.decide(t, status, "")
}

// noteLifetime records what a node says about the lifetime of an application: which nodes have its processes; with ended,
// that those of this node have ended. When the processes of all nodes have, the data published for their lifetime goes.
func (d *desk) noteLifetime(node int, app appName, nodes []int, ended bool) {
	left := d.apps[app]
	if left == nil {
		left = make(map[int]bool, len(nodes))
		for _, n := range nodes {
			if !d.dead[n] {
				left[n] = true
			}
		}
		d.apps[app] = left
	}
	if ended {
		delete(left, node)
	}
	d.endApp(app)
}

// endApp drops what was published for the lifetime of an application if that has no process any more.
func (d *desk) endApp(app appName) {
	if len(d.apps[app]) == 0 {
		d.board.AppEnded(app.nspace, app.number)
		delete(d.apps, app)
	}
}

// endNode acts on the death of a node: its lookups wait no more, and the lifetimes of its processes are over.
func (d *desk) endNode(node int) {
	d.dead[node] = true
	d.waiting = slices.DeleteFunc(d.waiting, func(l *lookup) bool { return l.node == node })
	d.board.NodeEnded(uint32(node))
	for app, left := range d.apps {
		delete(left, node)
		d.endApp(app)
	}
}
