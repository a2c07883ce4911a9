package explore

const (
	twoPhaseFile  = "coll/agree/twophase.go"
	voteFile      = "coll/agree/receive.go"
	ballotsFile   = "coll/agree/ballots.go"
	concludeFile  = "coll/agree/conclude.go"
	terminateFile = "coll/agree/terminate.go"
	earlyFile     = "coll/agree/early.go"
)

// AgreeMutants are mutants of two-phase commit, and of what the early-returning agreement adds to
// the collective that it is made of.
var AgreeMutants = []Mutant{
	{
		"late-vote", "a vote is counted after the news of the voter's death",
		twoPhaseFile, "if !m.cfg.isPeer(ev.From) || m.view.hasFailed(ev.From) { // late", "if !m.cfg.isPeer(ev.From) { // late",
	},
	{
		"decision-without-all", "after a death the coordinator waits for nobody",
		twoPhaseFile, "if !r.ballots.areComplete(&m.view) {\n\t\t\treturn out", "if !r.ballots.areComplete(&m.view) && len(m.view.dead) == 0 {\n\t\t\treturn out",
	},
	{
		"uncertain-gives-up", "a member that has voted is undecided as soon as the coordinator is dead",
		twoPhaseFile, "if !r.voted && m.view.isDead(0) {", "if m.view.isDead(0) {",
	},
	{
		"vote-not-sent-again", "a vote that went to a dead parent is lost",
		twoPhaseFile, "r.sentTo == r.contact {", "r.sentTo != none {",
	},
	{
		"forgotten-waiter", "a member that asked before the outcome was known is not told",
		concludeFile, "if !m.view.isDead(v) && !m.view.isInferior(v) {", "if v < 0 && !m.view.isDead(v) && !m.view.isInferior(v) {",
	},
	{
		"log-forgets", "a laggard is told that a round was undecided which was decided",
		voteFile, "case seq == m.last.seq:", "case seq == 0:",
	},
	{
		"votes-counted-twice", "if a dead member and its children have voted, the children count twice",
		ballotsFile, "} else if w.isDead(c) {", "}\n\t\tif w.isDead(c) {",
	},
	{
		"votes-not-awaited", "a dead child's children are not waited for",
		ballotsFile, "(!w.isDead(c) || !s.coverBelow(w, c))", "!w.isDead(c)",
	},
	{
		"outcome-not-passed", "the outcome does not go to a dead child's children",
		concludeFile, "out = m.sendBelow(c, msg, out)", "continue",
	},
	{
		"termination-hasty", "the termination protocol does not wait for the last answer",
		terminateFile, "case t.open > 0:", "case t.open > 1:",
	},
	{
		"uncertain-still-listens", "a member that has said that it is uncertain takes a decision from the dead",
		terminateFile, "m.view.dead = union(m.view.dead, msg.Failed)\n", "",
	},
	{
		"dependants-not-asked", "the termination protocol does not ask a dead dependant's dependants",
		terminateFile, "out = m.askBelow(c, out)", "continue",
	},
	{
		"flags-ored", "flags are combined by OR",
		ballotsFile, "b.vote.Flags &= other.vote.Flags", "b.vote.Flags |= other.vote.Flags",
	},
	{
		"tree-by-hearsay", "the tree leaves out the dead that its member knows, not those that were agreed on",
		concludeFile, "w.group = w.group.without(m.last.ballot.failed)", "w.group = w.group.without(w.dead)",
	},
	{
		"never-undecided", "a member that has not voted asks like an uncertain one when the coordinator is dead",
		twoPhaseFile, "if !r.voted && m.view.isDead(0) {", "if r.seq == 0 {",
	},
	{
		"undecided-at-once", "a call is undecided without any failure",
		twoPhaseFile, "if m.entered < r.seq {", "if m.entered <= r.seq {",
	},
	{
		"coordinator-stays", "after an UNDECIDED round its coordinator is not taken out of the tree",
		concludeFile, "w.group = w.group.without(with(w.group.gone, c))", "",
	},
	{
		"promotes-half-asked", "a member promotes before it has told all others of later deaths",
		terminateFile, "(s.asked[i].told == known || !again)", "s.asked[i].told <= known",
	},
	{
		"dead-forgotten", "the dead that voters below know are not listed",
		ballotsFile, "b.failed = union(b.failed, other.failed)", "",
	},
	{
		"no-clock", "an early-returning agreement does not ask when nothing comes",
		earlyFile, "return e.step(s, ftco.Event{Kind: ftco.Tick}, nil, out)", "_ = s\n\t\treturn out",
	},
	{
		"stray-dropped", "a message for the tree that is about to be made is dropped",
		earlyFile, "e.keepStray(from, msg)", "_ = from",
	},
}
