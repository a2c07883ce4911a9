package obj_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/obj"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

func TestMain(m *testing.M) { shmemtest.Main(m) }

// tree is a value with pointers and a map.
type tree struct {
	Name  string
	Kids  []*tree
	Attrs map[string]float64
}

func newTree(rank int) *tree {
	return &tree{
		Name: strings.Repeat("x", 10_000*rank), Attrs: map[string]float64{"a": float64(rank)},
		Kids: []*tree{{Name: "left"}, {Name: "right", Kids: []*tree{{Name: "leaf"}}}},
	}
}

// ok fails the test on an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Values travel whole, whatever their size. What gob does not take is an error at all ranks that wait for it.
func TestValues(t *testing.T) {
	shmemtest.RunBare(t, 3, func(t *testing.T) {
		w, err := mpi.Init()
		ok(t, err)
		c := w.Comm()
		next, prev := (c.Rank()+1)%3, (c.Rank()+2)%3
		ok(t, obj.Send(c, newTree(c.Rank()), next, 1))
		var got *tree
		s, err := obj.Recv(c, &got, mpi.AnySource, 1)
		ok(t, err)
		if s.Source != prev || !reflect.DeepEqual(got, newTree(prev)) {
			t.Errorf("status %+v, value of %d bytes", s, len(got.Name))
		}
		var all tree
		if c.Rank() == 1 {
			all = *newTree(7)
		}
		ok(t, obj.Bcast(c, &all, 1))
		if !reflect.DeepEqual(all, *newTree(7)) {
			t.Errorf("Bcast: %v", all)
		}
		trees, err := obj.Gather(c, *newTree(c.Rank()), 2)
		ok(t, err)
		if c.Rank() == 2 != (trees != nil) {
			t.Errorf("Gather: %d values", len(trees))
		}
		for rank := range trees {
			if !reflect.DeepEqual(trees[rank], *newTree(rank)) {
				t.Errorf("Gather: value %d is %v", rank, trees[rank])
			}
		}
		bad := map[string]any{"f": func() {}}
		if err := obj.Bcast(c, &bad, 0); err == nil {
			t.Error("Bcast of a function has succeeded")
		}
		if err := obj.Send(c, make(chan int), next, 1); err == nil || !strings.Contains(err.Error(), "obj.Send: value of type chan int") {
			t.Errorf("Send of a channel: %v", err)
		}
		ok(t, obj.Send(c, 5, next, 2))
		var text string
		if _, err := obj.Recv(c, &text, prev, 2); err == nil || !strings.Contains(err.Error(), "obj.Recv") {
			t.Errorf("an int for a string: %v", err)
		}
		ok(t, obj.Send(c, 5, mpi.ProcNull, 2))
		if s, err := obj.Recv(c, &text, mpi.ProcNull, 2); err != nil || s.Source != mpi.ProcNull {
			t.Errorf("Recv of nobody: %+v, %v", s, err)
		}
		if err := obj.Send(c, 5, 9, 2); !errors.Is(err, mpi.ErrRankRange) {
			t.Errorf("Send to rank 9: %v", err)
		}
		ok(t, w.Finalize())
	})
}
