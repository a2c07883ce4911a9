package explore

// Mutant is a mistake that somebody could have made in a machine, as a change of
// its source. Tests build the machine with it and see that it is found.
type Mutant struct {
	Name, Breaks   string
	File, Old, New string
}

const (
	receiveFile  = "coll/ftco/receive.go"
	progressFile = "coll/ftco/progress.go"
	machineFile  = "coll/ftco/machine.go"
	opFile       = "coll/ftco/op.go"
)

// Mutants are those of the shipped machine.
var Mutants = []Mutant{
	{
		"lost-decision-cache", "a member that has decided does not answer who asks",
		receiveFile, "if o.decided {\n\t\treturn m.sendDown(o, v, out)\n\t}", "if o.decided {\n\t\treturn out\n\t}",
	},
	{
		"forgotten-requester", "who asked before the decision came is not answered",
		progressFile, "m.strange(o, v) {\n\t\t\tout = m.sendDown", "v < 0 {\n\t\t\tout = m.sendDown",
	},
	{
		"double-fold", "of a node that reported, the children that did so too are counted again",
		opFile, "return Buf(o.member(v, m)), out", "return m.fold(o, v, Buf(o.member(v, m)), out)",
	},
	{
		"counted-twice", "a contribution that is said again counts as another child's",
		receiveFile, "if o.slot(v) != nil {", "if o.slot(v) != nil && m.cfg.Ticks == 0 {",
	},
	{
		"decision-by-non-root", "who knows of a death and has its subtree decides, though others are above",
		progressFile, "if above != None {\n\t\treturn m.report(o, above, out)\n\t}\n\treturn m.decide", "if above != None && m.nfailed == 0 {\n\t\treturn m.report(o, above, out)\n\t}\n\treturn m.decide",
	},
	{
		"successor-asks-nobody", "the root's successor in a broadcast does not wait for who may hold the decision",
		progressFile, "if o.me != 0 && !m.holds(o, 0, contributed) {", "if o.me != 0 && o.gathers && !m.holds(o, 0, contributed) {",
	},
	{
		"late-message", "a message is accepted after the news of its sender's death",
		machineFile, "if m.isFailed(ev.From) {", "if ev.From < 0 {",
	},
	{
		"up-not-sent-again", "a contribution that went to a dead parent is lost",
		progressFile, "if o.sentTo == above {", "if o.sentTo != None {",
	},
	{
		"no-adoption", "the decision does not go to a dead child's children",
		progressFile, "case c == o.me || m.dead(o, c):", "case m.dead(o, c):\n\t\tcase c == o.me:",
	},
	{
		"grandchildren-not-awaited", "a dead child's children are not waited for",
		opFile, "m.dead(o, v) && m.whole(o, v, test)", "m.dead(o, v)",
	},
	{
		"frozen-early", "after a death a contribution is frozen before all living below are in it",
		progressFile, "(lack > m.nfailed || !m.whole(o, o.me, contributed))", "m.nfailed == 0",
	},
	{
		"no-have", "who holds the decision does not tell the root's successor",
		receiveFile, "above != None && m.nfailed > 0 &&", "above != None && m.nfailed < 0 &&",
	},
	{
		"commit-before-acks", "a uniform call returns before all below hold the decision",
		receiveFile, "if !m.whole(o, o.me, acknowledged) {", "if o.me < 0 {",
	},
	{
		"successor-commits-early", "the root's successor lets a uniform call return before all living hold the decision",
		receiveFile, "if o.me != 0 && !m.holds(o, 0, acknowledged) {", "if o.me < 0 {",
	},
	{
		"ack-unanswered", "an Ack that comes after the Commit is not answered",
		receiveFile, "if o.committed {\n\t\treturn m.send(o, v, Msg{Kind: Commit, Value: NoValue}, out)", "if o.committed {\n\t\treturn out",
	},
	{
		"failed-without-missing", "a dead member known below only is missing and not failed",
		progressFile, "s.Failed = append(make([]Node, 0, int(m.nfailed)+len(s.Missing)), s.Missing...)", "s.Failed = nil",
	},
	{
		"missing-forgets-below", "what a contribution lacks is not passed on",
		opFile, "list = append(list, sets.Missing...)", "list = append(list, sets.Missing[:0]...)",
	},
	{
		"settled-early", "an operation is forgotten when it has returned here",
		progressFile, "max(m.settled, o.seq-1)", "max(m.settled, o.seq)",
	},
	{
		"loose-settles", "returning from a broadcast is taken for all having returned from those before",
		progressFile, "if o.gathers { // all", "if o.seq > 0 { // all",
	},
	{
		"arrival-order", "operands are combined as they come",
		progressFile, "_, out = m.fold(o, o.me, own, out)",
		"for i := range o.slots {\n\t\t\tout = append(out, Action{Kind: Combine, Seq: o.seq, Dst: own, Src: Buf(o.member(o.slots[i].node, m))})\n\t\t}",
	},
	{
		"strict-by-hearsay", "a strict call fails by what its member knows, not by what was decided",
		progressFile, "if o.call.Strict && o.sets != nil && len(o.sets.Failed) > 0 {", "if o.call.Strict && m.nfailed > 0 {",
	},
	{
		"question-is-progress", "being asked puts off asking, so two ask each other for ever",
		machineFile, "if msg.Kind != KeepAlive {", "if msg.Seq > 0 {",
	},
	{
		"ack-for-decision", "who is asked by the root's successor says Ack and not the decision",
		receiveFile, "if tell {", "if tell && o.ackTo != v {",
	},
	{
		"decision-to-ancestor", "an ancestor's KEEPALIVE is answered with a value that a reduction's members do not hold",
		receiveFile, "tell := o.decided && !m.ancestor(o, v)", "tell := o.decided",
	},
	{
		"failed-by-votes", "a decision lists the dead that it lacks, not those whom its maker knows to be dead",
		progressFile, "m.failed.each(func(p Node) { s.Failed = append(s.Failed, p) })", "",
	},
	{
		"sets-unordered", "a dead node is listed after those below it",
		opFile, "list = append(list, o.member(v, m))\n\treturn m.missingBelow(o, v, list)", "return append(m.missingBelow(o, v, list), o.member(v, m))",
	},
	{
		"nothing-decided", "of a broadcast whose root is dead the decision is a buffer that is empty",
		progressFile, "case o.me == 0:\n\t\tvalue =", "default:\n\t\tvalue =",
	},
	{
		"nothing-kept", "bytes are kept that did not come",
		receiveFile, "if msg.Value != NoValue {\n\t\tout = append(out, Action{Kind: Keep, Seq: o.seq, Dst: Buf(from)})", "if o.seq > 0 {\n\t\tout = append(out, Action{Kind: Keep, Seq: o.seq, Dst: Buf(from)})",
	},
	{
		"decision-twice", "the root's successor sends the decision twice",
		progressFile, "return m.lowest(o) == o.me", "return m.lowest(o) == o.me && m.nfailed == 0",
	},
	{
		"up-again", "after a death each event makes a member report again",
		progressFile, "if o.sentTo == above {", "if o.sentTo == above && m.nfailed == 0 {",
	},
	{
		"have-again", "each event makes a member tell the root's successor again",
		receiveFile, "\t\to.haveTo = above\n", "",
	},
	{
		"ack-again", "after a death each event makes a member acknowledge again",
		receiveFile, "if o.ackTo != above {", "if o.ackTo != above || m.nfailed > 0 {",
	},
	{
		"successor-skips-own", "the root's successor asks nobody below itself when nothing comes",
		receiveFile, "case c == o.me:\n\t\t\tout = m.askBelow(o, c, test, out)", "case c == o.me:",
	},
	{
		"window-short", "a member holds fewer operations than others can be ahead",
		machineFile, "const window = 2*syncEvery + 2", "const window = 2*syncEvery + 1",
	},
}
