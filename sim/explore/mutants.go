package explore

// Mutant is a mistake that a programmer could make in a machine, as a change of its source. Tests
// build the machine with the mistake and demand that a search or random schedules find it.
type Mutant struct {
	Name, Breaks   string
	File, Old, New string
}

const (
	receiveFile  = "coll/ftco/receive.go"
	progressFile = "coll/ftco/progress.go"
	machineFile  = "coll/ftco/machine.go"
	viewFile     = "coll/ftco/view.go"
	contribFile  = "coll/ftco/contribution.go"
)

// Mutants are those of the shipped machine.
var Mutants = []Mutant{
	{
		"lost-decision-cache", "a member that has decided does not answer questions",
		receiveFile, "if o.decided {\n\t\treturn m.sendDecision(o, v, out)\n\t}", "if o.decided {\n\t\treturn out\n\t}",
	},
	{
		"forgotten-requester", "a member that asked before the decision came is not answered",
		progressFile, "m.view.isStray(o, v) {\n\t\t\tout = m.sendDecision", "v < 0 {\n\t\t\tout = m.sendDecision",
	},
	{
		"double-fold", "if a node and its children have reported, the children count twice",
		contribFile, "return Buf(w.memberAt(o, v)), out", "return o.combineBelow(w, v, Buf(w.memberAt(o, v)), out)",
	},
	{
		"counted-twice", "a contribution that comes again counts as another child's",
		receiveFile, "if o.slot(v) != nil {", "if o.slot(v) != nil && m.cfg.Ticks == 0 {",
	},
	{
		"decision-by-non-root", "a member that knows of a death and has its subtree decides, although nodes above it live",
		progressFile, "if above != None {\n\t\treturn m.sendUp(o, above, out)\n\t}\n\treturn m.decide", "if above != None && m.view.nfailed == 0 {\n\t\treturn m.sendUp(o, above, out)\n\t}\n\treturn m.decide",
	},
	{
		"successor-asks-nobody", "the root's successor in a broadcast does not wait for members that may hold the decision",
		progressFile, "if o.me != 0 && !m.view.pass(o, 0, contributed) {", "if o.me != 0 && o.gathers && !m.view.pass(o, 0, contributed) {",
	},
	{
		"late-message", "a message is accepted after the news of its sender's death",
		machineFile, "if m.view.hasFailed(ev.From) {", "if ev.From < 0 {",
	},
	{
		"up-not-sent-again", "a contribution that went to a dead parent is lost",
		progressFile, "if o.sentTo == above {", "if o.sentTo != None {",
	},
	{
		"no-adoption", "the decision does not go to a dead child's children",
		progressFile, "case c == o.me || m.view.isDead(o, c):", "case m.view.isDead(o, c):\n\t\tcase c == o.me:",
	},
	{
		"grandchildren-not-awaited", "a dead child's children are not waited for",
		viewFile, "w.isDead(o, v) && w.passBelow(o, v, t)", "w.isDead(o, v)",
	},
	{
		"frozen-early", "after a death a contribution is frozen before all living below are in it",
		progressFile, "(lack > m.view.nfailed || !m.view.passBelow(o, o.me, contributed))", "m.view.nfailed == 0",
	},
	{
		"no-have", "a member that holds the decision does not tell the root's successor",
		receiveFile, "above != None && w.nfailed > 0 &&", "above != None && w.nfailed < 0 &&",
	},
	{
		"commit-before-acks", "a uniform call returns before all below hold the decision",
		receiveFile, "if !w.passBelow(o, o.me, acknowledged) {", "if o.me < 0 {",
	},
	{
		"successor-commits-early", "the root's successor lets a uniform call return before all living hold the decision",
		receiveFile, "if o.me != 0 && !w.pass(o, 0, acknowledged) {", "if o.me < 0 {",
	},
	{
		"ack-unanswered", "an Ack that comes after the Commit is not answered",
		receiveFile, "if o.committed {\n\t\treturn m.send(o, v, Msg{Kind: Commit, Value: NoValue}, out)", "if o.committed {\n\t\treturn out",
	},
	{
		"failed-without-missing", "a dead member known below only is missing and not failed",
		contribFile, "s.Failed = append(make([]Node, 0, int(w.nfailed)+len(s.Missing)), s.Missing...)", "s.Failed = nil",
	},
	{
		"missing-forgets-below", "what a contribution lacks is not passed on",
		contribFile, "list = append(list, sets.Missing...)", "list = append(list, sets.Missing[:0]...)",
	},
	{
		"settled-early", "an operation is forgotten when it has returned here",
		progressFile, "max(m.ops.settled, o.seq-1)", "max(m.ops.settled, o.seq)",
	},
	{
		"loose-settles", "returning from a broadcast is taken for all having returned from those before",
		progressFile, "if o.gathers { // all", "if o.seq > 0 { // all",
	},
	{
		"arrival-order", "operands are combined as they come",
		progressFile, "_, out = o.combineBelow(&m.view, o.me, own, out)",
		"for i := range o.slots {\n\t\t\tout = append(out, Action{Kind: Combine, Seq: o.seq, Dst: own, Src: Buf(m.view.memberAt(o, o.slots[i].node))})\n\t\t}",
	},
	{
		"strict-by-hearsay", "a strict call fails by what its member knows, not by what was decided",
		progressFile, "if o.call.Strict && o.sets != nil && len(o.sets.Failed) > 0 {", "if o.call.Strict && m.view.nfailed > 0 {",
	},
	{
		"question-is-progress", "a question counts as progress, so two members ask each other for ever",
		machineFile, "if msg.Kind != KeepAlive {", "if msg.Seq > 0 {",
	},
	{
		"ack-for-decision", "a member answers the root's successor with Ack instead of the decision",
		receiveFile, "if lacksDecision {", "if lacksDecision && o.ackTo != v {",
	},
	{
		"decision-to-ancestor", "an ancestor's KEEPALIVE is answered with a value that a reduction's members do not hold",
		receiveFile, "lacksDecision := o.decided && !m.view.isAncestor(o, v)", "lacksDecision := o.decided",
	},
	{
		"failed-by-votes", "a decision lists the dead that it lacks, not all that its maker knows",
		contribFile, "w.failed.each(func(p Node) { s.Failed = append(s.Failed, p) })", "",
	},
	{
		"sets-unordered", "a dead node is listed after those below it",
		contribFile, "list = append(list, w.memberAt(o, v))\n\treturn o.appendMissingBelow(w, v, list)", "return append(o.appendMissingBelow(w, v, list), w.memberAt(o, v))",
	},
	{
		"nothing-decided", "the decision of a broadcast whose root is dead names an empty buffer",
		progressFile, "case o.me == 0:\n\t\tvalue =", "default:\n\t\tvalue =",
	},
	{
		"nothing-kept", "bytes are kept that did not come",
		receiveFile, "if msg.Value != NoValue {\n\t\tout = append(out, Action{Kind: Keep, Seq: o.seq, Dst: Buf(from)})", "if o.seq > 0 {\n\t\tout = append(out, Action{Kind: Keep, Seq: o.seq, Dst: Buf(from)})",
	},
	{
		"decision-twice", "the root's successor sends the decision twice",
		viewFile, "return w.actingRoot(o) == o.me", "return w.actingRoot(o) == o.me && w.nfailed == 0",
	},
	{
		"up-again", "after a death each event makes a member report again",
		progressFile, "if o.sentTo == above {", "if o.sentTo == above && m.view.nfailed == 0 {",
	},
	{
		"have-again", "each event makes a member tell the root's successor again",
		receiveFile, "\t\to.haveTo = above\n", "",
	},
	{
		"ack-again", "after a death each event makes a member acknowledge again",
		receiveFile, "if o.ackTo != above {", "if o.ackTo != above || w.nfailed > 0 {",
	},
	{
		"successor-skips-own", "the root's successor asks nobody below itself when nothing comes",
		receiveFile, "case c == o.me:\n\t\t\tout = m.askBelow(o, c, awaited, out)", "case c == o.me:",
	},
	{
		"window-short", "a member holds fewer operations than others can be ahead",
		machineFile, "const window = 2*syncEvery + 2", "const window = 2*syncEvery + 1",
	},
}
