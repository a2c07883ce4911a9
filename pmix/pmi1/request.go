package pmi1

import (
	"fmt"
	"strconv"
	"strings"
)

// Keys that the server answers itself.
const (
	keyMapping = "PMI_process_mapping"
	keyDead    = "PMI_dead_processes"
)

// serveLine serves one line of a member.
func (c *core) serveLine(m *member, line string) {
	if m.spawn != nil || strings.HasPrefix(line, "mcmd=") {
		c.addSpawnLine(m, line)
		return
	}
	f, err := parseLine(line)
	if err != nil {
		c.dropViolator(m, err.Error())
		return
	}
	cmd := f.text("cmd")
	switch {
	case (m.phase == phaseSilent) != (cmd == "init"):
		c.dropViolator(m, fmt.Sprintf("cmd=%s, want init first and once", shorten(cmd)))
	case m.phase > phaseJoined:
		c.dropViolator(m, fmt.Sprintf("cmd=%s while another request is under way", shorten(cmd)))
	default:
		c.serveCommand(m, cmd, f)
	}
}

// serveCommand serves one command of the protocol.
func (c *core) serveCommand(m *member, cmd string, f fields) {
	w := m.world
	switch cmd {
	case "init":
		c.init(m, f)
	case "get_maxes":
		c.send(m, reply("maxes", "kvsname_max", strconv.Itoa(maxName),
			"keylen_max", strconv.Itoa(maxKey), "vallen_max", strconv.Itoa(maxValue)))
	case "get_appnum":
		c.send(m, reply("appnum", "appnum", strconv.Itoa(w.Procs[m.rank].AppNum)))
	case "get_my_kvsname":
		c.send(m, reply("my_kvsname", "kvsname", w.Nspace))
	case "get_universe_size":
		c.send(m, reply("universe_size", "size", strconv.Itoa(max(w.Universe, len(w.Procs)))))
	case "put":
		c.answer(m, "put_result", w.putPair(f))
	case "get":
		c.get(m, f)
	case "getbyidx":
		c.getByIndex(m, f)
	case "barrier_in":
		c.joinBarrier(m)
	case "publish_name":
		c.askNames(m, opPublish, f)
	case "lookup_name":
		c.askNames(m, opLookup, f)
	case "unpublish_name":
		c.askNames(m, opUnpublish, f)
	case "finalize":
		c.finalize(m)
	case "abort":
		c.abort(m, f)
	default:
		c.dropViolator(m, fmt.Sprintf("cmd=%s, want a command of PMI 1.1", shorten(cmd)))
	}
}

// answer sends the result of a request: success, or the text of an error.
func (c *core) answer(m *member, cmd string, err error) {
	if err != nil {
		c.send(m, refusal(cmd, err.Error()))
		return
	}
	c.send(m, reply(cmd, "rc", "0", "msg", "success"))
}

func (c *core) init(m *member, f fields) {
	rc := "0"
	if f.text("pmi_version") != "1" {
		rc = "-1" // the client reports the mismatch itself
	} else {
		m.phase, m.world.joined = phaseJoined, true
		c.emit(action{kind: actJoined, proc: m.proc()})
	}
	c.send(m, reply("response_to_init", "pmi_version", "1", "pmi_subversion", "1", "rc", rc))
}

// checkSpace checks that a request means the store of its own job, the only one that it may use.
func (w *world) checkSpace(f fields) error {
	if kvs, ok := f.get("kvsname"); ok && kvs != w.Nspace {
		return fmt.Errorf("kvs %s not found", shorten(kvs))
	}
	return nil
}

// putPair stores the pair of a put request.
func (w *world) putPair(f fields) error {
	if err := w.checkSpace(f); err != nil {
		return err
	}
	p := pair{f.text("key"), f.text("value")}
	if err := checkPair(p.key, p.value); err != nil {
		return err
	}
	if !w.store.put(p) {
		return fmt.Errorf("more than %d bytes stored", maxStored)
	}
	w.span.noteFresh(p.key)
	return nil
}

func (c *core) get(m *member, f fields) {
	w, key := m.world, f.text("key")
	value, ok := w.store.get(key)
	switch key {
	case keyMapping:
		value, ok = w.mapping()
	case keyDead:
		value, ok = w.deadList()
	}
	if w.checkSpace(f) != nil || !ok {
		c.send(m, reply("get_result", "rc", "-1", "msg", oneWord("key "+shorten(key)+" not found"), "value", "unknown"))
		return
	}
	c.send(m, reply("get_result", "rc", "0", "msg", "success", "value", value))
}

// deadList returns the ranks that are dead, as many as fit into a value.
func (w *world) deadList() (string, bool) {
	var list []byte
	for i, m := range w.dead {
		before := len(list)
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, uint64(m.rank), 10)
		if len(list) >= maxValue {
			list = list[:before]
			break
		}
	}
	return string(list), len(w.dead) > 0
}

// getByIndex serves getbyidx, whose reply names its fields differently from that of get.
func (c *core) getByIndex(m *member, f fields) {
	const cmd = "getbyidx_results"
	w := m.world
	i, err := strconv.Atoi(f.text("idx"))
	if w.checkSpace(f) != nil || err != nil || i < 0 || i >= len(w.store.pairs) {
		c.send(m, reply(cmd, "rc", "-1", "reason", "no_more_keyvals"))
		return
	}
	p := w.store.pairs[i]
	c.send(m, reply(cmd, "rc", "0", "nextidx", strconv.Itoa(i+1), "key", p.key, "val", p.value))
}

// joinBarrier adds a member to the barrier. When all members are in, it ends. A member that has left fails it.
func (c *core) joinBarrier(m *member) {
	w := m.world
	m.phase = phaseBarrier
	if w.span != nil && !w.span.broken {
		w.waiting = append(w.waiting, m)
		c.handIn(w)
		return
	}
	if len(w.ended) > 0 || w.span != nil {
		c.failBarrier(m)
		return
	}
	w.waiting = append(w.waiting, m)
	if len(w.waiting) < len(w.members) {
		return
	}
	for _, other := range w.waiting {
		other.phase = phaseJoined
		c.send(other, reply("barrier_out", "rc", "0"))
	}
	w.waiting = w.waiting[:0]
}

// finalize serves a finalize request. The member closes its end of the connection itself.
func (c *core) finalize(m *member) {
	c.emit(action{kind: actFinalized, proc: m.proc()})
	c.send(m, reply("finalize_ack", "rc", "0"))
	c.hangUp(m)
	c.markEnded(m)
}

// abort asks the host to end the job. There is no answer: the caller waits to be ended as well.
func (c *core) abort(m *member, f fields) {
	status, err := strconv.Atoi(f.text("exitcode"))
	if err != nil {
		status = 1
	}
	c.emit(action{kind: actAbort, proc: m.proc(), status: status})
}
