package stream

import (
	"testing"

	"github.com/goshmem/goshmem/internal/weave/mutanttest"
)

type mistake mutanttest.Mutant

// mutants are mistakes that a programmer could make, and the test that finds each.
var mutants = []mistake{
	{"a record that comes again is executed again", "Duplicates", "receiver.go", "if number < st.executed {", "if false {"},
	{"late bytes of an earlier connection are executed", "RandomWorlds", "receiver.go", "if generation != n.generation || n.state < greeting", "if n.state < greeting"},
	{"late replies of an earlier connection are believed", "Explore", "sender_receive.go", "generation != n.generation || n.state < greeting", "n.state < greeting"},
	{"half a frame of the last connection is completed by the next one (receiver)", "Explore", "receiver.go", "\tn.parser.reset()\n", ""},
	{"half a frame of the last connection is completed by the next one (sender)", "Explore", "sender.go", "\tn.parser.reset()\n", ""},
	{"records are done before their answers", "Explore", "receiver.go", "return a.number\n", "return st.executed\n"},
	{"what the welcome calls done includes answers to come", "Explore", "receiver.go", "st.told = st.done()", "st.told = st.executed"},
	{"answers that were lost are not sent again", "Explore", "receiver.go", "\t\tst.answers.rewind()\n", ""},
	{"after the welcome, done is not told again", "Explore", "receiver.go", "if st.told < st.executed {", "if false {"},
	{"after an answer, the stream loses its turn", "Explore", "receiver.go", "st.answers.markSent()\n\t\t\tn.turns.add(at)", "st.answers.markSent()"},
	{"one answer too many is forgotten", "Explore", "answers.go", "g.at(0).number < number", "g.at(0).number <= number"},
	{"an answer that comes again completes a slot again", "Resend", "sender_receive.go", "n.skip = p.Number < st.answered", "n.skip = false"},
	{"answers are not acknowledged in the greeting", "Resend", "sender.go", "st.answered > 0 {", "st.answered > 1<<60 {"},
	{"answers are acknowledged with what is done only", "RandomWorlds", "sender.go", "b.first+uint64(b.sent), st.answered", "b.first+uint64(b.sent), st.done"},
	{"records go before the welcome", "Explore", "sender.go", "\tn.state = waiting\n", "\tn.state = running\n"},
	{"what is not executed is not sent again", "Explore", "sender_receive.go", "st.sent, st.unsent = st.resume, 0", "st.resume = st.next\n\tst.sent, st.unsent = st.resume, 0"},
	{"the bytes that are sent again do not begin at their record", "Explore", "sender_receive.go", "b.sentBytes = len(b.body) - len(rest)", "b.sentBytes += len(rest) * 0"},
	{"a block is given back before all of it is done", "Resend", "sender.go", "if b.end() > st.done {", "if b.first >= st.done {"},
	{"a stream with more blocks to send loses its turn", "Resend", "sender.go", "if st.unsent != 0 {\n", "if false {\n"},
	{"a new incarnation goes on with the counts of the old one", "RandomWorlds", "receiver.go", "if !st.known || p.Incarnation > st.incarnation {", "if !st.known {"},
	{"records of an earlier incarnation are executed", "Incarnations", "receiver.go", "|| st.known && p.Incarnation < st.incarnation {", "{"},
	{"records of a PE that was dropped are executed", "RandomWorlds", "receiver.go", "if st.dropped && p.Incarnation <= st.floor || ", "if "},
	{"answers for a PE that was dropped are sent", "Incarnations", "receiver.go", "st.answers, st.told = ring{}, st.executed", "st.told = st.executed"},
	{"replies to an earlier incarnation are believed", "RandomWorlds", "sender_receive.go", "p.Incarnation < pe.incarnation || n.streams == nil", "n.streams == nil"},
	{"replies to records of a dropped class are believed", "DropClass", "sender_receive.go", "pe.hasDropped(int(p.Class))", "pe.dropped"},
	{"a connection that was replaced comes back", "LateConnections", "receiver.go", "(generation > n.generation || n.state == idle)", "true"},
	{"news of an earlier connection break this one", "LateConnections", "sender.go", "n.opened && generation < n.generation {", "false {"},
	{"what was posted before counts for the next connection", "RandomWorlds", "sender.go", "held, false, generation, flight{}", "held, false, generation, n.flight"},
	{"a put from the heap goes with the records before it", "RandomWorlds", "sender.go", "if n > 0 {\n", "if false {\n"},
	{"what follows a put from the heap in its block is not sent", "RandomWorlds", "sender.go", "if b.sent == b.records {", "if b.sent > 0 {"},
	{"a put from the heap is read from the heap of another PE", "RandomWorlds", "sender.go", "Read{Local: local, Offset", "Read{Local: 0, Offset"},
	{"the data of puts from the heap may lie anywhere", "AddRefuses", "sender.go", "if putsFrom && err == nil {", "if false {"},
	{"records that change after they were added are believed", "PutsFromThatChange", "sender.go", "if err := s.c.Limits.CheckSource(&s.record); err != nil {\n\t\t\treturn 0, 0, err", "if err != nil {\n\t\t\treturn 0, 0, err"},
	{"a done that may wait waits for ever", "Later", "receiver.go", "\t\tr.nodes[node].tellAll()\n", ""},
	{"a done that may wait does not go with others", "Later", "receiver.go", "\tn.turns.add(at)\n\tn.tellAll()\n", "\tn.turns.add(at)\n"},
	{"a done waits if it may for one of its records", "Later", "receiver.go", "waits || !r.record.MayWait()", "!r.record.MayWait()"},
	{"a done waits if puts of words come first", "Later", "receiver.go", "waits || n > 0", "waits"},
	{"answers have no bound", "ReceiverRefuses", "receiver.go", "if answers && st.answers.isFull() {", "if false {"},
}

// TestMutants checks that the tests find each mutant.
func TestMutants(t *testing.T) { mutanttest.Run(t, "../../..", "internal/agent/stream", mutants) }
