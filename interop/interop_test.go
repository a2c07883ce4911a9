package interop_test

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/bridge"
	"github.com/goshmem/goshmem/interop"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/ft"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

func errOf[T any](_ T, err error) error { return err }

// both has the two worlds of a process, as far as they exist.
type both struct {
	s *shmem.World
	m *mpi.World
}

// checkWorks uses the worlds that exist.
func (b both) checkWorks(t *testing.T) {
	t.Helper()
	if b.s != nil {
		n := b.s.NPEs()
		x := must(shmem.Calloc[int](b.s, 1))(t)
		ok(t, shmem.P(b.s.Ctx(), x, 5+b.s.MyPE(), (b.s.MyPE()+1)%n))
		ok(t, b.s.Barrier())
		if v := x.Local()[0]; v != 5+(b.s.MyPE()+n-1)%n {
			t.Fatalf("the element that was put is %d, want %d", v, 5+(b.s.MyPE()+n-1)%n)
		}
		ok(t, shmem.Free(b.s, x))
	}
	if b.m != nil {
		c := b.m.Comm()
		n, me := c.Size(), c.Rank()
		in := make([]int, 3000)
		must(mpi.Sendrecv(c, slices.Repeat([]int{me}, 3000), (me+1)%n, 1, in, mpi.AnySource, 1))(t)
		if slices.Min(in) != (me+n-1)%n || slices.Max(in) != (me+n-1)%n {
			t.Fatalf("received values from %d to %d, want %d", slices.Min(in), slices.Max(in), (me+n-1)%n)
		}
		sum := []int{0}
		ok(t, mpi.Allreduce(c, sum, []int{1}, mpi.Sum))
		if sum[0] != n {
			t.Fatalf("sum %d, want %d", sum[0], n)
		}
	}
	if b.s != nil && b.m != nil && (b.s.MyPE() != b.m.Comm().Rank() || b.s.NPEs() != b.m.Comm().Size()) {
		t.Fatalf("rank %d of %d is PE %d of %d, want equal numbers", b.m.Comm().Rank(), b.m.Comm().Size(), b.s.MyPE(), b.s.NPEs())
	}
}

// Init and Finalize of both work in each order, again and again in one process, and nested.
func TestAnyOrder(t *testing.T) {
	shmemtest.RunBare(t, 3, func(t *testing.T) {
		var b both
		step := map[byte]func(){
			's': func() { b.s = must(shmem.Init())(t) },
			'm': func() { b.m = must(mpi.Init())(t) },
			'S': func() {
				ok(t, b.s.Finalize())
				if !shmem.Initialized() {
					b.s = nil
				}
			},
			'M': func() {
				ok(t, b.m.Finalize())
				if !mpi.Initialized() {
					b.m = nil
				}
			},
		}
		for _, order := range []string{"smSM", "smMS", "msSM", "msMS", "sSmM", "mMsS", "smSsMS", "msMmSM", "ssmSSM", "mmsMSM", "smmMMS"} {
			for i := range order {
				step[order[i]]()
				b.checkWorks(t)
			}
			if b.s != nil || b.m != nil {
				t.Fatalf("%s: something is left initialized", order)
			}
		}
	})
}

// Teams convert to communicators and back, with the same members in the same order.
func TestConversion(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
			m := must(mpi.Init())(t)
			me := w.MyPE()
			all := must(interop.CommOf(w.Team()))(t)
			if all.Rank() != me || all.Size() != n {
				t.Fatalf("got rank %d of %d for PE %d of %d, want equal numbers", all.Rank(), all.Size(), me, n)
			}
			// The PEs with even numbers, in descending order.
			evens := (n + 1) / 2
			team := must(w.Team().SplitStrided((evens-1)*2, -2, evens, nil))(t)
			if team != nil {
				c := must(interop.CommOf(team))(t)
				if c.Rank() != team.MyPE() || c.Size() != evens {
					t.Fatalf("got rank %d of %d for number %d of %d, want equal numbers", c.Rank(), c.Size(), team.MyPE(), evens)
				}
				ok(t, team.Destroy()) // the communicator does not need it
				in := []int{0}
				must(mpi.Sendrecv(c, []int{me}, (c.Rank()+1)%evens, 1, in, mpi.AnySource, 1))(t)
				if want := 2 * (evens - 1 - (c.Rank()+evens-1)%evens); in[0] != want {
					t.Fatalf("received from PE %d, want PE %d", in[0], want)
				}
				back := must(interop.TeamOf(c, shmem.ModeStrict))(t)
				ok(t, c.Free())
				if back.MyPE() != evens-1-me/2 || back.NPEs() != evens {
					t.Fatalf("PE %d is number %d of %d in the team, want number %d of %d", me, back.MyPE(), back.NPEs(), evens-1-me/2, evens)
				}
				if pe, _ := back.Translate(0, w.Team()); pe != 2*(evens-1) {
					t.Fatalf("number 0 translates to PE %d, want PE %d", pe, 2*(evens-1))
				}
				ok(t, back.Sync())
				ok(t, back.Destroy())
			}
			ok(t, all.Barrier())
			ok(t, all.Free())
			ok(t, m.Finalize())
			if _, err := interop.CommOf(w.Team()); !errors.Is(err, mpi.ErrFinalized) {
				t.Errorf("CommOf without mpi: error %v, want %v", err, mpi.ErrFinalized)
			}
			if _, err := interop.TeamOf(nil, shmem.ModeStrict); !errors.Is(err, mpi.ErrArgument) {
				t.Errorf("TeamOf of nil: error %v, want %v", err, mpi.ErrArgument)
			}
			if _, err := interop.TeamOf(nil, 77); !errors.Is(err, shmem.ErrArgument) {
				t.Errorf("TeamOf with an invalid mode: error %v, want %v", err, shmem.ErrArgument)
			}
		})
	}
}

// TeamOf with different modes, or with an invalid mode on one rank, is an error on all ranks, and
// no rank waits.
func TestModesDiffer(t *testing.T) {
	shmemtest.RunBare(t, 3, func(t *testing.T) {
		s, m := must(shmem.Init())(t), must(mpi.Init())(t)
		c := m.Comm()
		for _, mode := range []shmem.Mode{shmem.ModeTolerant, 9} {
			want, text := mpi.ErrMismatch, "called with ModeStrict here, want the same mode on all ranks"
			mine := shmem.ModeStrict
			if c.Rank() == 1 {
				mine, text = mode, "called with ModeTolerant here, want the same mode on all ranks"
			}
			if mine > shmem.ModeStrict {
				want, text = shmem.ErrArgument, "mode 9, want"
			} else if mode > shmem.ModeStrict {
				text = "rank 1 was refused"
			}
			team, err := interop.TeamOf(c, mine)
			if team != nil || !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
				t.Errorf("TeamOf returned %v, %v, want an error with %q that is %v", team, err, text, want)
			}
			ok(t, c.Barrier())
		}
		ok(t, must(interop.TeamOf(c, shmem.ModeStrict))(t).Destroy())
		ok(t, m.Finalize())
		ok(t, s.Finalize())
	})
}

// A death that one side notices is known to the other side, and is acknowledged for both at once.
func TestOneView(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		c := m.Comm()
		never := must(shmem.Calloc[int](w, 1))(t)
		x := must(shmem.Calloc[int](w, 1))(t)
		if w.MyPE() == 1 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		if err := errOf(mpi.Recv(c, []int{0}, 1, 0)); !errors.Is(err, mpi.ErrDied) {
			t.Errorf("Recv: error %v, want %v", err, mpi.ErrDied)
		}
		if err := shmem.AtomicAdd(w.Ctx(), x, 1, 1); !errors.Is(err, shmem.ErrPEDied) {
			t.Errorf("AtomicAdd: error %v, want %v", err, shmem.ErrPEDied)
		}
		if got := w.Failed(); !slices.Equal(got, []int{1}) {
			t.Errorf("shmem's Failed() = %v, want only the victim", got)
		}
		if err := shmem.WaitUntil(w.Ctx(), never, shmem.NE, 0); !errors.Is(err, shmem.ErrPEDied) {
			t.Errorf("WaitUntil: error %v, want %v", err, shmem.ErrPEDied)
		}
		if err := errOf(mpi.Recv(c, []int{0}, mpi.AnySource, 0)); !errors.Is(err, mpi.ErrDied) {
			t.Errorf("Recv from any source: error %v, want %v", err, mpi.ErrDied)
		}
		if got := interop.AckFailed(w, c); !slices.Equal(got, []int{1}) {
			t.Errorf("AckFailed() = %v, want only the victim", got)
		}
		other := 2 - w.MyPE()
		ok(t, shmem.P(w.Ctx(), x, 1, other))
		ok(t, shmem.WaitUntil(w.Ctx(), x, shmem.NE, 0))
		must(mpi.Sendrecv(c, []int{7}, other, 0, []int{0}, mpi.AnySource, 0))(t)
		if _, err := interop.TeamOf(c, shmem.ModeStrict); !errors.Is(err, mpi.ErrDied) {
			t.Errorf("TeamOf: error %v, want %v", err, mpi.ErrDied)
		}
		ok(t, m.Finalize())
	}, shmemtest.Recover(1))
}

// A death in any step of CommOf is an error that names the PE by its number in the job.
func TestDeathInCommOf(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		pair := must(w.Team().SplitStrided(1, 1, 2, &shmem.TeamConfig{Mode: shmem.ModeStrict}))(t)
		switch w.MyPE() {
		case 1:
			err := errOf(interop.CommOf(pair))
			if dead, is := errors.AsType[*shmem.PEError](err); !is || !errors.Is(err, shmem.ErrPEDied) || !slices.Equal(dead.PEs, []int{2}) {
				t.Errorf("error %v, want the death of PE 2", err)
			}
		case 2: // makes the team, but not the communicator
			g := must(bridge.OfTeam("Team.SplitStrided", pair))(t)
			must(coll.Split(g.Ctx, g.Team, []int{0, 1}, false))(t)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		ok(t, m.Finalize())
	}, shmemtest.Recover(2))
}

// If another goroutine finalizes mpi in the middle of CommOf, the PE leaves, and the other PEs get
// an error.
func TestFinalizeInCommOf(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		pair := must(w.Team().SplitStrided(0, 1, 2, &shmem.TeamConfig{Mode: shmem.ModeStrict}))(t)
		switch w.MyPE() {
		case 0:
			if err := errOf(interop.CommOf(pair)); !errors.Is(err, shmem.ErrPEFinalized) {
				t.Errorf("error %v, want one that says that PE 1 has left", err)
			}
		case 1:
			for len(w.Failed()) == 0 { // after it, Finalize does not wait
				runtime.Gosched()
			}
			g := must(bridge.OfTeam("Team.SplitStrided", pair))(t)
			half := must(coll.Split(g.Ctx, g.Team, []int{0, 1}, false))(t)
			ok(t, m.Finalize())
			if err := errOf(bridge.NewComm(g.Ctx, half)); !errors.Is(err, mpi.ErrFinalized) {
				t.Errorf("error %v, want one that says that mpi is finalized", err)
			}
			return
		case 2:
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		ok(t, m.Finalize())
	}, shmemtest.Recover(2))
}

// After each death the survivors go on with a communicator of their own, made of the team that is
// left of the last one. Messages among them work all the time.
func TestGoOn(t *testing.T) {
	shmemtest.Run(t, 5, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		me, team := w.MyPE(), w.Team()
		c := must(interop.CommOf(team))(t)
		live := []int{0, 1, 2, 3, 4}
		for _, victim := range []int{3, 0} {
			if me == victim {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
			var err error
			for err == nil { // until the death is noticed
				err = mpi.Allreduce(c, []int{0}, []int{1}, mpi.Sum)
			}
			if !errors.Is(err, mpi.ErrDied) {
				t.Fatal(err)
			}
			live = slices.DeleteFunc(live, func(pe int) bool { return pe == victim })
			at := slices.Index(live, me)
			in := []int{-1}
			must(mpi.Sendrecv(m.Comm(), []int{me}, live[(at+1)%len(live)], 1, in, live[(at+len(live)-1)%len(live)], 1))(t)
			if want := live[(at+len(live)-1)%len(live)]; in[0] != want {
				t.Errorf("received %d, want %d", in[0], want)
			}
			ok(t, c.Free())
			team = must(team.Shrink())(t)
			c = must(interop.CommOf(team))(t)
			if c.Size() != len(live) || live[c.Rank()] != me {
				t.Fatalf("this is rank %d of %d, want the ranks of %v", c.Rank(), c.Size(), live)
			}
			sum := []int{0}
			ok(t, mpi.Allreduce(c, sum, []int{1 << me}, mpi.Sum))
			want := 0
			for _, pe := range live {
				want += 1 << pe
			}
			if sum[0] != want {
				t.Errorf("sum %b, want %b", sum[0], want)
			}
		}
		ok(t, m.Finalize())
	}, shmemtest.Recover(3, 0))
}

func TestMain(m *testing.M) { shmemtest.Main(m) }

// onNodes runs body on one node, on two and on three.
func onNodes(t *testing.T, pes int, body func(t *testing.T, w *shmem.World)) {
	t.Helper()
	for nodes := 1; nodes <= 3; nodes++ {
		t.Run(strconv.Itoa(nodes), func(t *testing.T) { shmemtest.Run(t, pes, body, shmemtest.Nodes(nodes)) })
	}
}

// Communicators of teams work, whatever nodes their PEs are on.
func TestCommOfTeams(t *testing.T) {
	onNodes(t, 6, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		even := must(w.Team().SplitStrided(0, 2, 3, nil))(t)
		for i, team := range []*shmem.Team{w.Team(), even} {
			if team == nil {
				continue // a PE that is not in it
			}
			c := must(interop.CommOf(team))(t)
			if c.Rank() != team.MyPE() || c.Size() != team.NPEs() {
				t.Errorf("team %d: rank %d of %d, want %d of %d", i, c.Rank(), c.Size(), team.MyPE(), team.NPEs())
			}
			sum := []int{0}
			ok(t, mpi.Allreduce(c, sum, []int{w.MyPE()}, mpi.Sum))
			if want := []int{15, 6}[i]; sum[0] != want {
				t.Errorf("team %d: sum %d, want %d", i, sum[0], want)
			}
			ok(t, c.Free())
		}
		ok(t, m.Finalize())
	})
}

// After BarrierAll, what all have put before is there.
func TestBarrierAll(t *testing.T) {
	onNodes(t, 4, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		x := must(shmem.Alloc[int64](w, 1000))(t)
		next, prev := (w.MyPE()+1)%4, int64((w.MyPE()+3)%4)
		src := make([]int64, 1000)
		for round := range int64(20) {
			for i := range src {
				src[i] = round*10 + int64(w.MyPE())
			}
			ok(t, shmem.PutNBI(w.Ctx(), x, src, next))
			ok(t, interop.BarrierAll(w, m.Comm()))
			for i, v := range x.Local() {
				if v != round*10+prev {
					t.Fatalf("round %d: element %d is %d, want %d", round, i, v, round*10+prev)
				}
			}
			ok(t, interop.BarrierAll(w, m.Comm()))
		}
		if !interop.Query(interop.SamePEs) || interop.Query(interop.BarrierCompletes) || interop.Query(99) {
			t.Error("Query is wrong")
		}
		ok(t, m.Finalize())
	})
}

// One-sided operations and messages are in one block. When all ranks have accepted it, what was put is in its place.
func TestQuietInBlock(t *testing.T) {
	onNodes(t, 4, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		c := m.Comm()
		x := must(shmem.Calloc[int64](w, 1000))(t)
		next, prev := (w.MyPE()+1)%4, int64((w.MyPE()+3)%4)
		src, got := make([]int64, 1000), make([]int64, 1)
		for round := range int64(20) {
			for i := range src {
				src[i] = round*10 + int64(w.MyPE())
			}
			b := ft.Try(c, ft.Global)
			ok(t, shmem.PutNBI(w.Ctx(), x, src, next))
			ok(t, b.Add(interop.Quiet(w.Ctx()), nil))
			ok(t, b.Add(mpi.Irecv(c, got, int(prev), 0)))
			ok(t, b.Add(mpi.Isend(c, src[:1], next, 0)))
			must(b.Finish(nil, time.Minute).Wait())(t)
			for i, v := range x.Local() {
				if v != round*10+prev || got[0] != v {
					t.Fatalf("round %d: element %d is %d, message %d, want %d", round, i, v, got[0], round*10+prev)
				}
			}
			ok(t, c.Barrier())
		}
		ok(t, m.Finalize())
	})
}
