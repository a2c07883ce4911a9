package main

// detectMutants are mistakes that a programmer could make in the packages detector/bmg and detector/ring.
var detectMutants = []mutant{
	// bmg/offsets.go
	{"detector/bmg/offsets.go", "\t\tif !slices.Contains(list, Node(d)) {\n\t\t\tlist = append(list, Node(d))\n\t\t}\n", "\t\tlist = append(list, Node(d))\n", "the member opposite is a neighbor twice", "detector/bmg TestGraph"},
	{"detector/bmg/offsets.go", "for 2*span < n {", "for 4*span < n {", "the farthest neighbors are left out", "detector/bmg TestGraph"},
	{"detector/bmg/offsets.go", "\t\tadd(n - span)\n", "", "payloads go one way around only", "detector/bmg TestGraph"},

	// bmg/roster.go
	{"detector/bmg/roster.go", "f.failed >= f.inc", "f.failed > f.inc", "no one is ever dead", "detector/bmg TestLossyLinks"},
	{"detector/bmg/roster.go", "f.failed = max(f.failed, inc)", "f.failed = inc", "late news of an earlier incarnation's death revives", "detector/bmg TestRoster"},
	{"detector/bmg/roster.go", "!r.Has(p) || inc <= r.Incarnation(p) {", "!r.Has(p) {", "an earlier incarnation joins", "detector/bmg TestRoster"},
	{"detector/bmg/roster.go", "return r.facts[i].inc == inc && !r.facts[i].isDead()", "return !r.facts[i].isDead()", "messages of an earlier incarnation count", "detector/bmg TestVerdict"},
	{"detector/bmg/roster.go", "\t\treturn r.facts[i].inc == inc && !r.facts[i].isDead()\n", "\t\treturn r.facts[i].inc == inc\n", "messages of the dead count", "detector/bmg TestVerdict"},
	{"detector/bmg/roster.go", "if f.reported >= inc {", "if f.reported > 0 {", "a successor's death is not reported", "detector/bmg TestVerdict"},
	{"detector/bmg/roster.go", "\tf.reported = inc\n", "", "a report goes round for ever", "detector/bmg TestKeys"},

	// bmg/seen.go
	{"detector/bmg/seen.go", "case s.latest[i].inc >= k.Inc:", "case s.latest[i].inc > k.Inc:", "a payload counts as new again", "detector/bmg TestKeys"},
	{"detector/bmg/seen.go", "cmp.Compare(m.kind, k.Kind), ", "", "a payload of one kind hides another kind's", "detector/bmg TestKeys"},
	{"detector/bmg/seen.go", "if k.Seq <= t.low {", "if k.Seq < t.low {", "the latest event comes twice", "detector/bmg TestAnyOrder"},
	{"detector/bmg/seen.go", "\tif ok {\n\t\treturn false\n\t}\n\tt.ahead", "\tt.ahead", "an event that came early comes twice", "detector/bmg TestKeys"},
	{"detector/bmg/seen.go", "for len(t.ahead) > 0 && t.ahead[0] == t.low+1 {", "for false {", "events are remembered one by one for ever", "detector/bmg TestEventsOutOfOrder"},

	// bmg/machine.go
	{"detector/bmg/machine.go", "if to != from && (", "if (", "payloads go back to where they came from", "detector/bmg TestMessages"},
	{"detector/bmg/machine.go", "!m.roster.IsDead(to) || isAccused(fresh, to)", "!m.roster.IsDead(to)", "the accused gets no verdict", "detector/bmg TestVerdict"},
	{"detector/bmg/machine.go", "(!m.roster.IsDead(to) || isAccused(fresh, to))", "true", "messages go to members that are known to be dead", "detector/bmg TestDeadGetNothing"},
	{"detector/bmg/machine.go", "if Node(p.ID) == m.me && p.Inc >= m.roster.Incarnation(m.me) {", "if false {", "the accused goes on", "detector/bmg TestVerdict"},
	{"detector/bmg/machine.go", " && p.Inc >= m.roster.Incarnation(m.me) {", " {", "the report of its predecessor's death fences a member", "detector/bmg TestPredecessorsReport"},
	{"detector/bmg/machine.go", "\t\tm.fail(Node(p.ID), p.Inc)\n", "", "a member that delivers a report does not heed it", "detector/bmg TestVerdict"},
	{"detector/bmg/machine.go", "some = append(some, list[i])", "some = append(some[:0:0], list[i])", "of several payloads the first new ones are lost", "detector/bmg TestPartlyKnown"},
	{"detector/bmg/machine.go", "case isNew && len(some) == i:", "case isNew:", "payloads that are known come again with new ones", "detector/bmg TestPartlyKnown"},
	{"detector/bmg/machine.go", "if !m.roster.IsCurrent(ev.From, ev.Inc) {", "if !m.roster.Has(ev.From) {", "what the dead send counts", "detector/bmg TestVerdict"},

	// bmg/resend.go
	{"detector/bmg/resend.go", "\t\tm.has(from, &msg.Acks[i])\n", "\t\t_ = i\n", "acknowledgments are ignored", "detector/bmg TestOneAckEach"},
	{"detector/bmg/resend.go", "p.isValid(m.group.n) && !m.has(from, &p.Key) {", "p.isValid(m.group.n) {", "a copy that is an answer is acknowledged", "detector/bmg TestOneAckEach"},
	{"detector/bmg/resend.go", "\t\t\tacks = append(acks, p.Key)\n", "", "nothing is acknowledged", "detector/bmg TestOneAckEach"},
	{"detector/bmg/resend.go", "\t\tif j < 0 {\n\t\t\treturn false\n\t\t}\n", "\t\tif j < 0 {\n\t\t\treturn true\n\t\t}\n", "who repeats a payload is not answered", "detector/bmg TestLossyLinks"},
	{"detector/bmg/resend.go", "if s.ticks++; s.ticks < m.group.resend {", "if s.ticks++; true {", "nothing is repeated", "detector/bmg TestLossyLinks"},
	{"detector/bmg/resend.go", "func(q Node) bool { return q == p })", "func(q Node) bool { return false })", "payloads are repeated to the dead", "detector/bmg TestLossyLinks"},

	// ring/config.go and rtt.go
	{"detector/ring/rtt.go", "min(max(trip, 0), longest)", "max(trip, 0)", "one long round trip spoils the deadline", "detector/ring TestPatience"},
	{"detector/ring/rtt.go", "max(int64(4*math.Sqrt(t.variance)), margin)", "margin", "the deadline does not follow round trips", "detector/ring TestPatience"},
	{"detector/ring/rtt.go", "max(int64(4*math.Sqrt(t.variance)), margin)", "int64(4*math.Sqrt(t.variance))", "the deadline has no least margin", "detector/ring TestPatience"},
	{"detector/ring/rtt.go", "return int64(t.mean) + ", "return ", "the mean round trip does not count", "detector/ring TestPatience"},

	// ring/detour.go
	{"detector/ring/detour.go", "case from == p && i >= 0:", "case false:", "an answer on the direct way does not count", "detector/ring TestWayIsBack"},
	{"detector/ring/detour.go", "from != p && i < 0 && m.find(p) != nil:", "from != p && i < 0:", "an answer that took a longer way makes the short one suspect", "detector/ring TestDetours"},
	{"detector/ring/detour.go", "from != p && i < 0 && ", "from != p && ", "a broken way is tried twice as often", "detector/ring TestBrokenWay"},
	{"detector/ring/detour.go", "d.next = Never", "d.next = now + wait", "a broken way is reported again and again", "detector/ring TestBrokenWay"},
	{"detector/ring/detour.go", "\t\t\td.pings++\n", "", "no way is ever broken", "detector/ring TestBrokenWay"},
	{"detector/ring/detour.go", "case d.pings == directPings:", "case d.pings == 2:", "a way that loses some messages is broken", "detector/ring TestWayIsBack"},
	{"detector/ring/detour.go", "case now < d.next:", "case false:", "what else happens counts as pings", "detector/ring TestBrokenWay"},
	{"detector/ring/machine.go", "\tm.noteWay(now, from, p)\n\tswitch {\n\tcase p == m.target && m.known && msg.At <= m.heard: // another way was faster, or a later answer was\n\t\treturn out\n", "\tswitch {\n\tcase p == m.target && m.known && msg.At <= m.heard: // another way was faster, or a later answer was\n\t\treturn out\n\t}\n\tm.noteWay(now, from, p)\n\tswitch {\n", "a direct answer that comes second does not count", "detector/ring TestSecondAnswer"},
	{"detector/ring/machine.go", "\tm.roster.Fail(p, inc)\n\tm.dropDetour(p)\n", "\tm.roster.Fail(p, inc)\n", "the way to an accused member is tried", "detector/ring TestEndBehindBrokenWay"},
	{"detector/ring/machine.go", "m.due = min(m.due, m.detours[i].next)", "_ = i", "pings on the direct way wait for others", "detector/ring TestDetours"},
	{"detector/ring/mend.go", "func(q probe) bool { return q.node == p })\n\tm.dropDetour(p)\n", "func(q probe) bool { return q.node == p })\n", "the way to a dead member is tried", "detector/ring TestDetours"},

	// ring/machine.go
	{"detector/ring/machine.go", "m.late, m.judges = 0, ev.Kind == Tick || ev.Kind == Suspect", "m.late, m.judges = 0, true", "a member is accused before its answer is read", "detector/ring TestNoJudgmentBeforeAllIsRead"},
	{"detector/ring/machine.go", "\tif now >= m.next {\n\t\tout = m.ping(now, out) // first: it moves the deadline if the target has answered, which then needs no excuse\n\t}\n\tif m.late > 0 && now >= m.deadline && !m.excused {\n\t\tm.deadline, m.excused = now+min(m.late, m.shared.timing.Margin), true\n\t}\n", "\tif m.late > 0 && now >= m.deadline && !m.excused {\n\t\tm.deadline, m.excused = now+min(m.late, m.shared.timing.Margin), true\n\t}\n\tif now >= m.next {\n\t\tout = m.ping(now, out)\n\t}\n", "a pause is granted twice", "detector/ring TestPauseIsGrantedOnce"},
	{"detector/ring/machine.go", "\t\t\tm.forget(ev.From)\n\t\t\tout = m.mend(ev.Now, out)\n\t\t}\n\tcase PeerJoined:", "\t\t\tm.forget(ev.From)\n\t\t}\n\tcase PeerJoined:", "one that others have reported is still watched", "detector/ring TestNewsOfTheTarget"},
	{"detector/ring/machine.go", "\t\t\tif m.target == ev.From {\n\t\t\t\tm.target = None // what is known of it was of its predecessor\n\t\t\t}\n", "", "one that joins is judged by its predecessor's answers", "detector/ring TestTargetJoins"},
	{"detector/ring/machine.go", "m.due != Never && late > lateness {", "false {", "an observer that is late judges at once", "detector/ring TestLateObserver"},
	{"detector/ring/machine.go", "now >= m.deadline && !m.excused {", "now >= m.deadline {", "an observer that is always late excuses for ever", "detector/ring TestAlwaysLate"},
	{"detector/ring/machine.go", "\tif m.answered && m.deadline != Never {\n\t\tm.deadline += late\n\t}\n", "", "a late ping does not move its deadline", "detector/ring TestPauses"},
	{"detector/ring/machine.go", "if m.answered && m.deadline != Never {", "if m.deadline != Never {", "each late ping moves the deadline", "detector/ring TestLateObserverOfSlowTarget"},
	{"detector/ring/machine.go", "m.next = now + t.Period - late%t.Period", "m.next = now + 1", "an observer that was late sends all pings that it missed", "detector/ring TestMissedPings"},
	{"detector/ring/machine.go", "m.roster.IsDead(p) || s.Inc < inc || msg.At > now:", "m.roster.IsDead(p) || msg.At > now:", "an answer of an earlier incarnation counts", "detector/ring TestIncarnations"},
	{"detector/ring/machine.go", "case s.Inc > inc:", "case false:", "a later incarnation's answer says nothing of the one that is watched", "detector/ring TestIncarnations"},
	{"detector/ring/machine.go", "case s.DaemonDead:", "case false:", "the end of the daemon is not noticed", "detector/ring TestDaemonEnds"},
	{"detector/ring/machine.go", "case p == m.target && m.isHung(msg):", "case false:", "a daemon that hangs is not noticed", "detector/ring TestHungIsNotStarved"},
	{"detector/ring/machine.go", " || s.Tick != m.tick || s.Starved {", " || s.Tick != m.tick {", "a starved daemon counts as one that hangs", "detector/ring TestHungIsNotStarved"},
	{"detector/ring/machine.go", " || s.Tick != m.tick || s.Starved {", " || s.Starved {", "a daemon whose tick moves counts as one that hangs", "detector/ring TestObserverPausedLong"},
	{"detector/ring/machine.go", "msg.At-m.ticked > m.shared.timing.Daemon", "msg.At-m.ticked > 0", "a daemon has to be quicker than pings", "detector/ring TestObserverPausedLong"},
	{"detector/ring/machine.go", "\tif from == p {\n\t\tm.trips.add", "\tif true {\n\t\tm.trips.add", "answers by way of others count as round trips", "detector/ring TestWaysOfAnswers"},
	{"detector/ring/machine.go", "case from == msg.Of && !m.roster.IsDead(msg.For):", "case false:", "members pass no answers on", "detector/ring TestOneWayIsEnough"},
	{"detector/ring/machine.go", "if from == msg.For && !m.roster.IsDead(msg.Of) {", "if false {", "members ping for no one", "detector/ring TestOneWayIsEnough"},
	{"detector/ring/machine.go", "m.heard = msg.At\n", "", "an old answer ends a suspicion", "detector/ring TestOldAnswer"},
	{"detector/ring/machine.go", "m.roster.Fail(p, inc)\n", "", "a member is accused again and again", "detector/ring TestAccusesOnce"},
	{"detector/ring/machine.go", "if ev.From != m.me && m.roster.IsCurrent(ev.From, ev.Inc) {", "if ev.From != m.me && !m.roster.IsDead(ev.From) {", "a connection of an earlier incarnation makes its successor suspect", "detector/ring TestSuspicions"},

	// ring/mend.go
	{"detector/ring/mend.go", "\t\tif p.fresh {\n\t\t\tp.end", "\t\tif true {\n\t\t\tp.end", "an observer that is always late never accuses", "detector/ring TestAlwaysLate"},
	{"detector/ring/mend.go", "\t\tp.end += behind\n", "", "an observer that stood still judges before its pings can be answered", "detector/ring TestLateVerification"},
	{"detector/ring/mend.go", "\t\tp.excuse(now, m.late, t.Verify)\n", "", "an observer that stood still judges at once what it has pinged once", "detector/ring TestLateJudgment"},
	{"detector/ring/mend.go", "if q := m.find(p); q == nil {", "if q := m.find(p); true {", "a suspicion is opened twice", "detector/ring TestSuspicions"},
	{"detector/ring/mend.go", "for left := m.window; left > 0", "for left := 1; left > 0", "dead members in a row are verified one by one", "detector/ring TestLiteralMending"},
	{"detector/ring/mend.go", "m.window = min(2*m.window, int(m.shared.n))", "m.window = min(m.window, int(m.shared.n))", "the window does not grow", "detector/ring TestRuns"},
	{"detector/ring/mend.go", "\t\tif now >= p.end {\n\t\t\tout, accused = m.accuse(p.node, Silent, out), true\n\t\t\tcontinue\n\t\t}\n", "\t\tif now >= p.end {\n\t\t\treturn m.accuseNow(now, p.node, Silent, out)\n\t\t}\n", "members of a window are accused one by one", "sim/detect TestMending"},
	{"detector/ring/mend.go", "\t\t\tout = m.ask(now, p.node, out)\n", "", "a suspect is not asked by way of others", "detector/ring TestOneWayIsEnough"},
	{"detector/ring/mend.go", "\t\t\tout = m.sendPing(now, p.node, out)\n\t\t\tout = m.ask", "\t\t\tout = m.ask", "a suspect is asked by way of others only", "detector/ring TestOneWayIsEnough"},
	{"detector/ring/config.go", "Probes: 20,", "Probes: 3,", "three pings verify: a network that loses some costs nodes", "sim/detect TestNoFalseReports"},
	{"detector/ring/mend.go", "if p.rounds == t.Probes-1 {", "if true {", "a suspect has one chance", "detector/ring TestOneWayIsEnough"},
	{"detector/ring/mend.go", "(q == nil || q.answered)", "q == nil", "who has answered is not asked for help, so that a small ring has no helpers", "detector/ring TestBrokenWay"},
	{"detector/ring/mend.go", "!m.roster.IsDead(h) && (q == nil || q.answered)", "(q == nil || q != nil)", "the dead are asked for help", "detector/ring TestHelpers"},
	{"detector/ring/mend.go", "\tq.answered = true\n", "", "an answer does not end a suspicion in a window", "detector/ring TestReporterDies"},
	{"detector/ring/mend.go", "return m.shared.distance(m.me, o.node) > far", "return m.shared.distance(m.me, o.node) < far", "the wrong part of a window is dropped", "detector/ring TestLiteralMending"},
	{"detector/ring/mend.go", "return m.shared.distance(m.me, o.node) > far", "return m.shared.distance(m.me, o.node) > far+1<<40", "members that others watch are accused, too", "detector/ring TestSuspectIsNoVerdict"},
	{"detector/ring/mend.go", "} else if q.answered {", "} else if false {", "an answer from before its connection ended clears a member", "detector/ring TestAnswerBeforeTheEnd"},
	{"detector/ring/mend.go", "\t\t\to.mending = false\n", "", "a window that ends takes a member with it whose connection has ended", "detector/ring TestTwoConnectionsEnd"},
	{"detector/ring/mend.go", "\t\t\treturn !mended || p == m.target\n", "\t\t\treturn true\n", "a living member of a window is forgotten and verified again", "detector/ring TestSingleDeath"},
	{"detector/ring/mend.go", "\t\tm.target, m.next, m.deadline, m.mending = None, Never, Never, false", "\t\tm.target, m.deadline, m.mending = None, Never, false", "the last survivor pings no one", "detector/ring TestAlone"},
	{"detector/ring/mend.go", "\t\tm.deadline, m.answered = now+m.shared.timing.Margin, false\n\t\tout = m.sendPing(now, first, out)\n", "", "a member whose observer is gone waits for the next period", "detector/ring TestAlone"},
}
