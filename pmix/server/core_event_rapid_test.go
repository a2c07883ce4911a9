package server

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Clients use events, groups, invitations, control and monitors in random order while some of them end. Each request is
// answered at most once, and exactly once if its connection outlives the other processes. An event reaches a connection
// once. It reaches neither the process that raised it nor a process that has ended. When all have ended, no state is
// kept.
func TestEventsAndGroupsEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(rt, "n")
		s := newScene(t, rt, n)
		for range rapid.IntRange(0, 80).Draw(rt, "steps") {
			rank := codec.Rank(rapid.IntRange(0, n-1).Draw(rt, "rank"))
			if s.w.conns[rank] == 0 {
				s.join(rank)
				continue
			}
			s.act(rank, codec.Rank(rapid.IntRange(0, n-1).Draw(rt, "other")))
		}
		for r := range n - 1 { // the last one stays to be answered
			s.exit(codec.Rank(r))
		}
		s.w.now += 100000
		s.step(event{kind: evTick})
		s.checkAnswers()
		s.exit(codec.Rank(n - 1))
		s.checkRest()
	})
}

type asked struct {
	conn connID
	tag  uint32
}

// scene drives a core with random requests and checks what it sends.
type scene struct {
	t        *rapid.T
	w        *world
	n        int
	serial   int32
	asked    map[asked]bool
	answered map[asked]int
	heard    map[string]bool // connection and serial number of an event
}

func newScene(t *testing.T, rt *rapid.T, n int) *scene {
	w := newWorld(t, testJob(n), false)
	return &scene{t: rt, w: w, n: n, asked: map[asked]bool{}, answered: map[asked]int{}, heard: map[string]bool{}}
}

func (s *scene) step(ev event) {
	ev.now = s.w.now
	for _, a := range s.w.core.Step(ev, nil) {
		if a.kind != actSend {
			continue
		}
		if a.tag != codec.TagNotify {
			s.answered[asked{a.conn, a.tag}]++
			continue
		}
		s.event(a)
	}
}

func (s *scene) event(a action) {
	p := s.w.core.conns[a.conn]
	if p == nil || !p.hasLink(a.conn) || p.exited {
		s.t.Fatalf("event %s to a process that has ended", describeEvent(a.payload))
	}
	n, err := codec.DecodeNotification(a.payload)
	if err != nil {
		s.t.Fatal(err)
	}
	if n.Source == p.name {
		s.t.Fatalf("event %s to the process that raised it", describeEvent(a.payload))
	}
	if v, ok := codec.Find(n.Info, "serial"); ok {
		key := fmt.Sprint(a.conn, v)
		if s.heard[key] {
			s.t.Fatalf("event %v twice to %v", v, p.name)
		}
		s.heard[key] = true
	}
}

func (s *scene) ask(rank codec.Rank, r codec.Request) {
	body, err := codec.AppendRequest(nil, r)
	if err != nil {
		s.t.Fatal(err)
	}
	conn := s.w.conns[rank]
	s.w.tags[conn] = max(s.w.tags[conn], codec.TagFirstDynamic-1) + 1
	if r.Command() != codec.CmdDeregisterEvents {
		s.asked[asked{conn, s.w.tags[conn]}] = true
	}
	s.step(event{kind: evFrame, conn: conn, tag: s.w.tags[conn], payload: body})
}

func (s *scene) join(rank codec.Rank) {
	s.w.last++
	before := len(s.w.core.conns)
	s.step(event{kind: evClaim, conn: s.w.last, proc: first(rank)})
	if len(s.w.core.conns) > before {
		s.w.conns[rank] = s.w.last
	}
}

func (s *scene) exit(rank codec.Rank) {
	s.giveUp(rank)
	e := Exit{Signal: rapid.IntRange(0, 9).Draw(s.t, "signal")}
	s.step(event{kind: evExited, proc: first(rank), exit: e})
}

// giveUp drops the requests of a process that ends.
func (s *scene) giveUp(rank codec.Rank) {
	for r := range s.asked {
		if r.conn == s.w.conns[rank] && s.answered[r] == 0 {
			delete(s.asked, r)
		}
	}
}

func (s *scene) hangUp(rank codec.Rank) {
	s.giveUp(rank)
	s.step(event{kind: evClosed, conn: s.w.conns[rank]})
	delete(s.w.conns, rank)
}

// notice returns an event with a unique serial number.
func (s *scene) notice(code codec.Status, rng codec.Range, infos ...codec.Info) *codec.NotifyRequest {
	s.serial++
	return raised(code, rng, append(infos, info("serial", codec.IntValue(s.serial)))...)
}

func (s *scene) act(rank, other codec.Rank) {
	members := ranks(rank, other)
	id := rapid.SampledFrom([]string{"g", "h"}).Draw(s.t, "id")
	flags := []codec.Info{yes(rapid.SampledFrom([]string{
		"none", codec.KeyGroupFTCollective, codec.KeyGroupOptional, codec.KeyGroupNotifyTermination, codec.KeyGroupAssignContextID,
	}).Draw(s.t, "flag"))}
	code := codec.Status(rapid.IntRange(-9002, -9000).Draw(s.t, "code"))
	switch rapid.IntRange(0, 17).Draw(s.t, "what") {
	case 0, 1:
		s.ask(rank, codes(code, codec.StatusErrProcAbortedBySig, codec.StatusGroupMemberFailed, codec.StatusGroupInvited))
	case 2:
		s.ask(rank, codes())
	case 3:
		s.ask(rank, &codec.DeregisterEventsRequest{Codes: []codec.Status{code}})
	case 4, 5:
		s.ask(rank, s.notice(code, codec.Range(rapid.IntRange(0, 8).Draw(s.t, "range"))))
	case 6:
		s.ask(rank, s.notice(code, codec.RangeCustom, info(codec.KeyEventCustomRange, codec.ProcsValue(members...))))
	case 7, 8, 9:
		s.ask(rank, construct(id, members, append(flags, seconds(int32(rapid.IntRange(0, 3).Draw(s.t, "timeout"))))...))
	case 10:
		s.ask(rank, destruct(id))
	case 11:
		s.ask(rank, &codec.GroupLeaveRequest{ID: id})
	case 12:
		s.ask(rank, invited(id, members...))
	case 13:
		s.ask(rank, answered(rapid.SampledFrom([]codec.Status{codec.StatusGroupInviteAccepted, codec.StatusGroupInviteDeclined}).Draw(s.t, "answer"), first(other)))
	case 14:
		s.ask(rank, complete(id, members...))
	case 15:
		s.ask(rank, watchOf(1, 0))
	case 16:
		if rapid.Bool().Draw(s.t, "finalizes") {
			s.ask(rank, &codec.FinalizeRequest{})
			return
		}
		s.hangUp(rank)
	case 17:
		if rapid.Bool().Draw(s.t, "exits") {
			s.exit(other)
		}
		s.w.now += 70
		s.step(event{kind: evTick})
	}
}

func (s *scene) checkAnswers() {
	for r, times := range s.answered {
		if times > 1 {
			s.t.Fatalf("request %v was answered %d times", r, times)
		}
	}
	for r := range s.asked {
		// a process that finalizes gives up the pending requests of its other threads
		if p := s.w.core.conns[r.conn]; p != nil && s.answered[r] == 0 && p.hasLink(r.conn) {
			s.t.Fatalf("request %v was not answered", r)
		}
	}
}

func (s *scene) checkRest() {
	for _, rank := range sortedKeys(s.w.conns) {
		s.hangUp(rank)
	}
	s.w.now += 100000
	s.step(event{kind: evTick})
	c := s.w.core
	if len(c.groups.byID)+len(c.fences.bySet)+len(c.invites.open)+len(c.watches.all) != 0 || c.deadline() != 0 {
		s.t.Fatalf("%d groups, %d fences, %d invitations, %d watches, deadline %d are left, want none",
			len(c.groups.byID), len(c.fences.bySet), len(c.invites.open), len(c.watches.all), c.deadline())
	}
}
