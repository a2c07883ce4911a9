package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/pmix/kvs"
	"github.com/goshmem/goshmem/pmix/wire"
)

// Bounds on what clients can publish, and on those who wait for it.
const (
	maxPublishedKeys   = 4096     // of one process
	maxPublishedBytes  = 4 << 20  // of one process
	maxPublishedTotal  = 64 << 20 // of all processes together
	maxLookupKeys      = 1024     // of one request
	maxWaitingLookups  = 64       // of one process
	maxRangeMembership = 4096     // processes and users that one request may name
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

// party says who a client is to the board. All clients of a server are on its node; the user is who they say they are,
// as they are all of the user who started the step.
func (p *process) party(uid uint32) kvs.Party {
	return kvs.Party{Proc: p.name, App: p.place.AppNum, UID: uid}
}

func (c *core) publish(at caller, r *wire.PublishRequest) {
	terms, status, err := readTerms(r.Info)
	if err != nil {
		c.refuse(at, status, "publish: "+err.Error())
		return
	}
	var data []wire.KVal
	for _, info := range r.Info {
		if !strings.HasPrefix(info.Key, "pmix.") { // the others are directives
			data = append(data, wire.KVal{Key: info.Key, Value: info.Value})
		}
	}
	if len(data) == 0 {
		c.refuse(at, wire.StatusErrBadParam, "publish: no keys, want at least one besides the directives")
		return
	}
	if status, err := c.board.Publish(at.party(r.UID), terms, data); err != nil {
		if status != wire.StatusErrDuplicateKey { // which programs may well try
			c.act(action{kind: actRefused, conn: at.conn, proc: at.name, status: status, text: "publish: " + err.Error()})
		}
		c.reply(at, status)
		return
	}
	c.reply(at, wire.StatusSuccess)
	c.settleLookups()
}

func (c *core) lookup(at caller, r *wire.LookupRequest) {
	from, status, err := readTerms(r.Info)
	if err != nil {
		c.refuse(at, status, "lookup: "+err.Error())
		return
	}
	if len(r.Keys) == 0 || len(r.Keys) > maxLookupKeys {
		c.refuse(at, wire.StatusErrBadParam, fmt.Sprintf("lookup: %d keys, want 1 to %d", len(r.Keys), maxLookupKeys))
		return
	}
	l := &lookup{at: at, reader: at.party(r.UID), from: from, keys: r.Keys}
	need, wait := waitCount(r.Info, len(r.Keys))
	l.need = need
	if c.answerLookup(l, !wait) {
		return
	}
	if c.lookupsOf(at.process) >= maxWaitingLookups {
		c.refuse(at, wire.StatusErrOutOfResource, fmt.Sprintf("lookup: %d are waiting already", maxWaitingLookups))
		return
	}
	l.deadline = c.timeout(r.Info)
	c.lookups = append(c.lookups, l)
}

// waitCount says how many of n values a lookup waits for. Open MPI says true where the standard has a number.
func waitCount(infos []wire.Info, n int) (need int, wait bool) {
	v, found := wire.Find(infos, wire.KeyWait)
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

// answerLookup answers a lookup if as much has been found as it needs, or at once whatever there is.
func (c *core) answerLookup(l *lookup, atOnce bool) bool {
	found, denied := c.board.Find(l.reader, l.from, l.keys)
	status := wire.StatusSuccess
	switch {
	case len(found) >= l.need:
	case !atOnce:
		return false
	case len(found) > 0:
		status = wire.StatusErrPartialSuccess
	case denied:
		status = wire.StatusErrNoPermissions
	default:
		status = wire.StatusErrNotFound
	}
	packed := make([][]byte, len(found))
	for i, n := range found {
		packed[i] = n.Packed
	}
	c.send(l.at.conn, l.at.tag, wire.AppendLookupReply(nil, status, packed))
	c.board.Read(found)
	return true
}

// settleLookups answers those who have waited for what is there now, the oldest first: what may be read once only goes
// to one of them.
func (c *core) settleLookups() {
	c.lookups = slices.DeleteFunc(c.lookups, func(l *lookup) bool { return c.answerLookup(l, false) })
}

func (c *core) lookupsOf(p *process) int {
	n := 0
	for _, l := range c.lookups {
		if l.at.process == p {
			n++
		}
	}
	return n
}

// forgetLookups drops what a connection that is over was waiting for.
func (c *core) forgetLookups(conn connID) {
	c.lookups = slices.DeleteFunc(c.lookups, func(l *lookup) bool { return l.at.conn == conn })
}

// expireLookups ends the lookups that have waited long enough.
func (c *core) expireLookups() {
	c.lookups = slices.DeleteFunc(c.lookups, func(l *lookup) bool {
		over := c.over(l.deadline)
		if over {
			c.reply(l.at, wire.StatusErrTimeout)
		}
		return over
	})
}

func (c *core) unpublish(at caller, r *wire.UnpublishRequest) {
	terms, status, err := readTerms(r.Info)
	if err != nil {
		c.refuse(at, status, "unpublish: "+err.Error())
		return
	}
	if _, given := wire.Find(r.Info, wire.KeyRange); !given {
		terms.Range = wire.RangeUndef
	}
	own, others := c.board.Unpublish(at.party(r.UID), terms.Range, r.Keys)
	switch {
	case own == len(r.Keys):
		status = wire.StatusSuccess
	case own > 0:
		status = wire.StatusErrPartialSuccess
	case others > 0:
		status = wire.StatusErrNoPermissions
	default:
		status = wire.StatusErrNotFound
	}
	c.reply(at, status)
}

// unpublishOf drops what was to stay no longer than a process that has ended, or its application if it was the last.
func (c *core) unpublishOf(p *process) {
	c.board.ProcEnded(p.name)
	lives := func(q *process) bool { return q.place.AppNum == p.place.AppNum && !q.exited }
	if !slices.ContainsFunc(p.space.procs, lives) {
		c.board.AppEnded(p.name.Nspace, p.place.AppNum)
	}
}
