package daemon

import (
	"testing"

	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/pmi1"
	"github.com/goshmem/goshmem/pmix/server"
)

// parts is a server.Remote that keeps what is handed in.
type parts struct {
	server.Remote
	all []server.FencePart
}

func (p *parts) Fence(part server.FencePart) { p.all = append(p.all, part) }

// A barrier of PMI-1 is a fence of all PEs of its job. Their names are made once for a job, not for each barrier.
func TestBarrierIsFenceOfJob(t *testing.T) {
	table := newTable("goshmem-barriers")
	first, second := newLocalJob([]App{{NPEs: 2}, {NPEs: 1}}, nil), newLocalJob([]App{{NPEs: 4}}, nil)
	table.enlistFirst(first)
	table.mu.Lock()
	table.enlist(second)
	table.mu.Unlock()
	remote := new(parts)
	c := &crossing{remote: remote, table: table}
	c.Barrier(pmi1.BarrierPart{Nspace: "no such job", Seq: 1})
	for _, j := range []*localJob{first, second} {
		remote.all = nil
		c.Barrier(pmi1.BarrierPart{Nspace: j.nspace, Seq: 1, Data: []byte("x")})
		c.Barrier(pmi1.BarrierPart{Nspace: j.nspace, Seq: 2, Failed: true})
		if len(remote.all) != 2 || string(remote.all[0].Data) != "x" || remote.all[0].Status != pmix.StatusSuccess || remote.all[1].Status != pmix.StatusErrProcTermWoSync {
			t.Fatalf("job %s: parts %+v, want those of the two barriers", j.nspace, remote.all)
		}
		for i, part := range remote.all {
			want := server.FenceID{FenceSet: server.FenceSet{Op: barrierOp, Procs: j.nspace + ":*"}, Seq: uint64(i + 1)}
			if part.ID != want || len(part.Procs) != j.npes() {
				t.Errorf("fence %+v of %d processes, want %+v of %d", part.ID, len(part.Procs), want, j.npes())
			}
			for pe, p := range part.Procs {
				if want := (pmix.Proc{Nspace: j.nspace, Rank: pmix.Rank(pe)}); p != want {
					t.Errorf("participant %d is %v", pe, p)
				}
			}
		}
		if &remote.all[0].Procs[0] != &remote.all[1].Procs[0] {
			t.Errorf("job %s: the barriers have two lists of its PEs, want one", j.nspace)
		}
	}
}
