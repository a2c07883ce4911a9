package job

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// second is the place of PEs 3 to 5 of 6, on the second of two nodes.
var second = Place{Nodes: 2, First: 3, Near: 3, NPEs: 6}

func TestPlaceConverts(t *testing.T) {
	for pe := layout.PE(-1); pe < 8; pe++ {
		i, near := second.Local(pe)
		if want := pe >= 3 && pe < 6; near != want {
			t.Errorf("PE %d is near: %v, want %v", pe, near, want)
			continue
		}
		if near && (i != layout.Local(pe-3) || second.PE(i) != pe || second.NearLocal(pe) != i) {
			t.Errorf("PE %d has index %d, which is PE %d", pe, i, second.PE(i))
		}
	}
	var locals []layout.Local
	var pes []layout.PE
	for i, pe := range second.Locals() {
		locals, pes = append(locals, i), append(pes, pe)
	}
	if !slices.Equal(locals, []layout.Local{0, 1, 2}) || !slices.Equal(pes, []layout.PE{3, 4, 5}) {
		t.Errorf("near are %v with indices %v", pes, locals)
	}
	for range second.Locals() {
		break
	}
}

// The near PEs may have gaps.
func TestScattered(t *testing.T) {
	p := Scattered(3, 9, []layout.PE{1, 2, 5, 8})
	index := map[layout.PE]layout.Local{1: 0, 2: 1, 5: 2, 8: 3}
	for pe := layout.PE(-2); pe < 12; pe++ {
		i, near := p.Local(pe)
		want, is := index[pe]
		if near != is || near && (i != want || p.PE(i) != pe || p.NearLocal(pe) != i) {
			t.Errorf("PE %d is near: %t, with index %d, want %t and %d", pe, near, i, is, want)
		}
	}
	for i, pe := range p.Locals() {
		if index[pe] != i {
			t.Errorf("PE %d has index %d, want %d", pe, i, index[pe])
		}
	}
	if !p.HasGaps() || second.HasGaps() {
		t.Errorf("%v has gaps: %t, %v: %t", p, p.HasGaps(), second, second.HasGaps())
	}
	for pe, want := range map[layout.PE]string{5: "", 4: "4 PEs from 1 to 8 of 9 are on this node, want PE 4 among them"} {
		if err := p.check(pe, 9); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("PE %d: %v, want %q", pe, err, want)
		}
	}
	other := p
	other.Near = 3
	if err := other.check(5, 9); err == nil {
		t.Error("a reply that says another number of near PEs than the agent's page is accepted")
	}
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "PE 3 has no segment on this node, which has 4 PEs from 1 to 8 of 9") {
			t.Errorf("a far PE between near ones: panic %q", said)
		}
	}()
	p.NearLocal(3)
}

// A PE of another node has no index. Code that mistakes it for near panics with a message, instead of accessing another
// PE's segment.
func TestFarHasNoIndex(t *testing.T) {
	for _, pe := range []layout.PE{-1, 0, 2, 6} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, "has no segment on this node, which has PEs 3 to 5 of 6") {
					t.Errorf("PE %d: unexpected panic %q", pe, said)
				}
			}()
			t.Errorf("PE %d has index %d", pe, second.NearLocal(pe))
		}()
	}
}

func TestPlaceRefused(t *testing.T) {
	if err := second.check(4, 6); err != nil {
		t.Error(err)
	}
	if err := (Place{Nodes: 1, First: 0, Near: 6, NPEs: 6}).check(0, 6); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		p    Place
		pe   layout.PE
		want string
	}{
		{Place{Nodes: 1, First: 0, Near: 5, NPEs: 5}, 0, "job of 5 PEs, want 6"},
		{Place{Nodes: 2, First: 3, Near: 0, NPEs: 6}, 3, "0 PEs from PE 3"},
		{Place{Nodes: 2, First: -1, Near: 3, NPEs: 6}, 1, "from PE -1"},
		{Place{Nodes: 2, First: 4, Near: 3, NPEs: 6}, 4, "3 PEs from PE 4"},
		{Place{Nodes: 1, First: 0, Near: 7, NPEs: 6}, 0, "7 PEs from PE 0"},
		{Place{Nodes: 0, First: 0, Near: 6, NPEs: 6}, 0, "has 0 nodes"},
		{Place{Nodes: 2, First: 0, Near: 6, NPEs: 6}, 0, "has 2 nodes"},
		{Place{Nodes: 1, First: 3, Near: 3, NPEs: 6}, 3, "has 1 nodes"},
		{Place{Nodes: 5, First: 3, Near: 3, NPEs: 6}, 3, "has 5 nodes"},
		{second, 2, "want PE 2 among them"},
	} {
		if err := c.p.check(c.pe, 6); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v of PE %d: %v, want %q", c.p, c.pe, err, c.want)
		}
	}
}

// A PE on the second of two nodes maps the segments of that node only, and the page of the whole job.
func TestAttachSecondNode(t *testing.T) {
	s := newStep(t, second.NPEs)
	s.move(second)
	j := &Job{Nspace: s.nspace, PE: 4, NPEs: second.NPEs}
	m, _, err := attach(s.dial(), j)
	if err != nil {
		t.Fatal(err)
	}
	if m.agent != nil || m.noAgent != noAgent {
		t.Errorf("agent %v, and there is none because of %q, want %q", m.agent, m.noAgent, noAgent)
	}
	if m.place != second || m.segments.Len() != second.Near {
		t.Errorf("%d segments of %+v, want those of %+v", m.segments.Len(), m.place, second)
	}
	for i, pe := range second.Locals() {
		if got := layout.PE(m.segments.Control(i).Header.PE); got != pe {
			t.Errorf("segment %d is of PE %d, want %d", i, got, pe)
		}
	}
	s.dies(0)
	s.dies(5)
	if err := j.useMemory(m); err != nil {
		t.Fatal(err)
	}
	defer j.news.stop()
	if j.Local != 1 || !j.IsDead(0) || j.IsDead(1) || j.IsDead(4) || !j.IsDead(5) {
		t.Errorf("this PE has index %d, want 1, with PEs 0 and 5 alone dead", j.Local)
	}
}

// A PE refuses a reply that contradicts the PE itself or the first reply.
func TestAttachRefusesPlace(t *testing.T) {
	for _, c := range []struct {
		pe   layout.PE
		npes int
		want string
	}{
		{1, 6, "PEs 3 to 5 of 6 are on this node, want PE 1 among them"},
		{4, 7, "place in a job of 6 PEs, want 7"},
	} {
		s := newStep(t, second.NPEs)
		s.move(second)
		conn := s.dial()
		if _, _, err := attach(conn, &Job{Nspace: s.nspace, PE: c.pe, NPEs: c.npes}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("PE %d of %d: %v, want %q", c.pe, c.npes, err, c.want)
		}
		_ = conn.Close() // the step waits for another request
	}
	s := newStep(t, second.NPEs)
	s.move(second)
	j, conn := &Job{Nspace: s.nspace, PE: 4, NPEs: 6}, s.dial()
	defer func() { _ = conn.Close() }()
	var m memory
	if _, err := attachFrom(conn, j, &m, 0); err != nil {
		t.Fatal(err)
	}
	m.place.Nodes = 3 // as an earlier reply could have said
	if _, err := attachFrom(conn, j, &m, 1); err == nil || !strings.Contains(err.Error(), "as in its first reply") {
		t.Errorf("reply with another place: %v, want a refusal", err)
	}
}

// dial connects to the step like a PE.
func (s *step) dial() *os.File {
	s.t.Helper()
	conn, err := dialStep(limited(s.t), "@"+s.nspace)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// The incarnation of a near PE is that of its segment. A far PE has incarnation 1 until a later one is known.
func TestIncarnations(t *testing.T) {
	j := &Job{Place: second, Map: mapOf(t, second)}
	want := func(all ...uint32) {
		t.Helper()
		for pe, inc := range all {
			if got := j.Incarnation(layout.PE(pe)); got != inc {
				t.Errorf("PE %d: incarnation %d, want %d", pe, got, inc)
			}
		}
	}
	want(1, 1, 1, 7, 8, 9)
	j.far.raise(1, 3)
	want(1, 3, 1, 7, 8, 9)
	j.far.raise(1, 2) // an older one, which arrives late
	j.far.raise(2, 2)
	want(1, 3, 2, 7, 8, 9)
}

// Deaths of near and far PEs can be read without the segment of a far PE. The death of an earlier incarnation does not
// count for the current one.
func TestFarDeath(t *testing.T) {
	p, j := pageOf(t, 6)
	j.Place, j.Map = second, mapOf(t, second)
	wantDead := func(pes ...layout.PE) {
		t.Helper()
		for pe := range layout.PE(6) {
			if got, want := j.IsDead(pe), slices.Contains(pes, pe); got != want {
				t.Errorf("PE %d is dead: %v, want %v", pe, got, want)
			}
		}
	}
	wantDead()
	p.Publish(1, 1, failure.ByExit(1), 0)
	wantDead(1)
	p.Publish(4, 1, failure.ByExit(1), 0) // its segment has incarnation 8
	wantDead(1)
	p.Publish(4, 8, failure.ByExit(1), 0)
	wantDead(1, 4)
	j.far.raise(1, 2)
	wantDead(4)
	p.Publish(1, 2, failure.ByExit(1), 0)
	wantDead(1, 4)
}

// mapOf returns a map of a node's segments. The one at index i has incarnation 7+i.
func mapOf(t *testing.T, p Place) (m *symheap.Map) {
	t.Helper()
	for i, pe := range p.Locals() {
		f, err := symheap.Create(symheap.Identity{PE: uint32(pe), NPEs: uint32(p.NPEs), Incarnation: 7 + uint32(i)}, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		st, err := f.Stat()
		if err == nil && m == nil {
			m, err = symheap.NewMap([16]byte{}, p.Near, uint64(st.Size()))
		}
		if err == nil {
			err = m.Attach(i, pe, int(f.Fd()))
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// Concurrent writers do not lose each other's entries.
func TestIncarnationsAtOnce(t *testing.T) {
	var f farIncarnations
	var wg sync.WaitGroup
	for pe := range layout.PE(8) {
		wg.Go(func() {
			for inc := range uint32(100) {
				f.raise(pe, inc)
				if got := f.of(pe); got != max(inc, firstIncarnation) {
					t.Errorf("PE %d: incarnation %d, want %d", pe, got, inc)
				}
			}
		})
	}
	wg.Wait()
	if n := len(*f.replaced.Load()); n != 8 {
		t.Errorf("%d entries, want 8", n)
	}
}
