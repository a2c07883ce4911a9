package symheap

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// Homes come out of their file as they went in. A file of another job, and one that is cut, is refused.
func TestHomes(t *testing.T) {
	in := &Homes{Bases: []uint32{0, NoBase, 7}, Nodes: []uint32{0, 2, 2, 0}}
	f, err := CreateHomes(in)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	out, err := ReadHomes(int(f.Fd()), 4)
	if err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("homes %+v, %v, want %+v", out, err, in)
	}
	if _, err := ReadHomes(int(f.Fd()), 3); err == nil || !strings.Contains(err.Error(), "4 PEs") {
		t.Errorf("homes of a job of 3 PEs: %v, want an error that says 4", err)
	}
	bad, err := CreateHomes(&Homes{Bases: []uint32{0}, Nodes: []uint32{1}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bad.Close() }()
	if _, err := ReadHomes(int(bad.Fd()), 1); err == nil || !strings.Contains(err.Error(), "node 1") {
		t.Errorf("a PE on a node that is none: %v, want an error that names the node", err)
	}
	empty, err := os.CreateTemp(t.TempDir(), "homes")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = empty.Close() }()
	if _, err := ReadHomes(int(empty.Fd()), 1); err == nil {
		t.Error("an empty file is taken for homes")
	}
}
