package mpi_test

import (
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/obj"
)

// killCollective is a collective in its three forms, with its data.
type killCollective struct {
	fill  func(i int)       // before step i
	check func(i int) error // after it
	wait  func() error
	start func() (mpi.Request, error)
	keep  func() (mpi.Persistent, error)
}

// inForms returns a collective of the table in its three forms.
func inForms(name string, begin func(k *killRound) (killCollective, error)) (all []killCall) {
	for f := range forms {
		all = append(all, killCall{name: name + " " + f.String(), strict: true, begin: func(k *killRound) (func(int) error, error) {
			x, err := begin(k)
			if err != nil {
				return nil, err
			}
			var p mpi.Persistent
			if f == persistent {
				if p, err = x.keep(); err != nil {
					return nil, err
				}
			}
			return func(i int) error {
				x.fill(i)
				if err := k.once(f, x, p); err != nil {
					return err
				}
				k.left = nil
				return x.check(i)
			}, nil
		}})
	}
	return all
}

// once executes a collective once in one of its forms.
func (k *killRound) once(f form, x killCollective, p mpi.Persistent) error {
	switch f {
	case immediate:
		q, err := k.track(x.start())
		if err == nil {
			_, err = q.Wait()
		}
		return err
	case persistent:
		if err := mpi.Start(p); err != nil {
			return err
		}
		k.left = []mpi.Request{p.Request()}
		return errOf(p.Wait())
	}
	return x.wait()
}

// collective returns a collective of the table whose begin cannot fail.
func collective(name string, begin func(k *killRound) killCollective) []killCall {
	return inForms(name, func(k *killRound) (killCollective, error) { return begin(k), nil })
}

// killCollectives returns the collectives of a communicator.
func killCollectives() (all []killCall) {
	for _, some := range [][]killCall{
		collective("Barrier", func(k *killRound) killCollective {
			return killCollective{func(int) {}, func(int) error { return nil }, k.c.Barrier, k.c.Ibarrier, k.c.BarrierInit}
		}),
		collective("Bcast", func(k *killRound) killCollective {
			return killCollective{
				func(i int) {
					if clear(k.in); k.me == k.root {
						put(k.in, k.root, i, 0)
					}
				},
				func(i int) error { return wrong(k.in, k.root, k.root+1, i, 0) },
				func() error { return mpi.Bcast(k.c, k.in, k.root) },
				func() (mpi.Request, error) { return mpi.Ibcast(k.c, k.in, k.root) },
				func() (mpi.Persistent, error) { return mpi.BcastInit(k.c, k.in, k.root) },
			}
		}),
		killReductions(), killScatteredReductions(), killGathers(), killScatters(), killAlltoalls(), killSeveral(),
	} {
		all = append(all, some...)
	}
	return all
}

// killReductions returns the reductions whose result is as long as the data of a rank.
func killReductions() (all []killCall) {
	for _, some := range [][]killCall{
		collective("Reduce", func(k *killRound) killCollective {
			return killCollective{
				func(i int) { put(k.out, k.me, i, 0) },
				func(i int) error {
					if k.me != k.root {
						return nil
					}
					return wrong(k.in, 0, k.n, i, 0)
				},
				func() error { return mpi.Reduce(k.c, k.in, k.out, mpi.Sum, k.root) },
				func() (mpi.Request, error) { return mpi.Ireduce(k.c, k.in, k.out, mpi.Sum, k.root) },
				func() (mpi.Persistent, error) { return mpi.ReduceInit(k.c, k.in, k.out, mpi.Sum, k.root) },
			}
		}),
		collective("Allreduce", func(k *killRound) killCollective {
			return killCollective{
				func(i int) { put(k.out, k.me, i, 0) },
				func(i int) error { return wrong(k.in, 0, k.n, i, 0) },
				func() error { return mpi.Allreduce(k.c, k.in, k.out, mpi.Sum) },
				func() (mpi.Request, error) { return mpi.Iallreduce(k.c, k.in, k.out, mpi.Sum) },
				func() (mpi.Persistent, error) { return mpi.AllreduceInit(k.c, k.in, k.out, mpi.Sum) },
			}
		}),
		collective("Scan", func(k *killRound) killCollective {
			return killCollective{
				func(i int) { put(k.in, k.me, i, 0) }, // in place
				func(i int) error { return wrong(k.in, 0, k.me+1, i, 0) },
				func() error { return mpi.Scan(k.c, k.in, k.in, mpi.Sum) },
				func() (mpi.Request, error) { return mpi.Iscan(k.c, k.in, k.in, mpi.Sum) },
				func() (mpi.Persistent, error) { return mpi.ScanInit(k.c, k.in, k.in, mpi.Sum) },
			}
		}),
		collective("Exscan", func(k *killRound) killCollective {
			return killCollective{
				func(i int) { put(k.out, k.me, i, 0) },
				func(i int) error {
					if k.me == 0 {
						return nil
					}
					return wrong(k.in, 0, k.me, i, 0)
				},
				func() error { return mpi.Exscan(k.c, k.in, k.out, mpi.Sum) },
				func() (mpi.Request, error) { return mpi.Iexscan(k.c, k.in, k.out, mpi.Sum) },
				func() (mpi.Persistent, error) { return mpi.ExscanInit(k.c, k.in, k.out, mpi.Sum) },
			}
		}),
	} {
		all = append(all, some...)
	}
	return all
}

// parts returns the counts of a collective with parts of different lengths, and where each part begins.
func (k *killRound) parts() (v mpi.Counts, at []int) {
	sum := 0
	for rank := range k.n {
		n := (rank + 1) % 3 * k.words / 2
		v.Counts, at = append(v.Counts, n), append(at, sum)
		sum += n
	}
	return v, append(at, sum)
}

// killScatteredReductions returns the reductions of which each rank gets a part.
func killScatteredReductions() []killCall {
	return append(
		collective("ReduceScatter", func(k *killRound) killCollective {
			v, at := k.parts()
			src, dst := make([]uint64, at[k.n]), make([]uint64, v.Counts[k.me])
			return killCollective{
				func(i int) { put(src, k.me, i, 0) },
				func(i int) error { return wrong(dst, 0, k.n, i, at[k.me]) },
				func() error { return mpi.ReduceScatter(k.c, dst, src, v.Counts, mpi.Sum) },
				func() (mpi.Request, error) { return mpi.IreduceScatter(k.c, dst, src, v.Counts, mpi.Sum) },
				func() (mpi.Persistent, error) { return mpi.ReduceScatterInit(k.c, dst, src, v.Counts, mpi.Sum) },
			}
		}),
		collective("ReduceScatterBlock", func(k *killRound) killCollective {
			src := make([]uint64, k.n*k.words)
			return killCollective{
				func(i int) { put(src, k.me, i, 0) },
				func(i int) error { return wrong(k.in, 0, k.n, i, k.me*k.words) },
				func() error { return mpi.ReduceScatterBlock(k.c, k.in, src, mpi.Sum) },
				func() (mpi.Request, error) { return mpi.IreduceScatterBlock(k.c, k.in, src, mpi.Sum) },
				func() (mpi.Persistent, error) { return mpi.ReduceScatterBlockInit(k.c, k.in, src, mpi.Sum) },
			}
		})...,
	)
}

// wrongParts returns an error unless buf has the data of all ranks, one after the other.
func (k *killRound) wrongParts(buf []uint64, counts []int, i int) error {
	for rank := range k.n {
		if err := wrong(buf[:counts[rank]], rank, rank+1, i, 0); err != nil {
			return err
		}
		buf = buf[counts[rank]:]
	}
	return nil
}

// regular returns the counts of parts of one length.
func (k *killRound) regular() (counts []int) {
	for range k.n {
		counts = append(counts, k.words)
	}
	return counts
}

// killGathers returns the collectives that gather.
func killGathers() (all []killCall) {
	for _, some := range [][]killCall{
		collective("Gather", func(k *killRound) killCollective {
			dst := make([]uint64, k.n*k.words)
			return killCollective{
				func(i int) { put(k.out, k.me, i, 0) },
				func(i int) error {
					if k.me != k.root {
						return nil
					}
					return k.wrongParts(dst, k.regular(), i)
				},
				func() error { return mpi.Gather(k.c, dst, k.out, k.root) },
				func() (mpi.Request, error) { return mpi.Igather(k.c, dst, k.out, k.root) },
				func() (mpi.Persistent, error) { return mpi.GatherInit(k.c, dst, k.out, k.root) },
			}
		}),
		collective("Gatherv", func(k *killRound) killCollective {
			v, at := k.parts()
			src, dst := make([]uint64, v.Counts[k.me]), make([]uint64, at[k.n])
			return killCollective{
				func(i int) { put(src, k.me, i, 0) },
				func(i int) error {
					if k.me != k.root {
						return nil
					}
					return k.wrongParts(dst, v.Counts, i)
				},
				func() error { return mpi.Gatherv(k.c, dst, src, v, k.root) },
				func() (mpi.Request, error) { return mpi.Igatherv(k.c, dst, src, v, k.root) },
				func() (mpi.Persistent, error) { return mpi.GathervInit(k.c, dst, src, v, k.root) },
			}
		}),
		collective("Allgather", func(k *killRound) killCollective {
			dst := make([]uint64, k.n*k.words)
			return killCollective{
				func(i int) { put(k.out, k.me, i, 0) },
				func(i int) error { return k.wrongParts(dst, k.regular(), i) },
				func() error { return mpi.Allgather(k.c, dst, k.out) },
				func() (mpi.Request, error) { return mpi.Iallgather(k.c, dst, k.out) },
				func() (mpi.Persistent, error) { return mpi.AllgatherInit(k.c, dst, k.out) },
			}
		}),
		collective("Allgatherv", func(k *killRound) killCollective {
			v, at := k.parts()
			src, dst := make([]uint64, v.Counts[k.me]), make([]uint64, at[k.n])
			return killCollective{
				func(i int) { put(src, k.me, i, 0) },
				func(i int) error { return k.wrongParts(dst, v.Counts, i) },
				func() error { return mpi.Allgatherv(k.c, dst, src, v) },
				func() (mpi.Request, error) { return mpi.Iallgatherv(k.c, dst, src, v) },
				func() (mpi.Persistent, error) { return mpi.AllgathervInit(k.c, dst, src, v) },
			}
		}),
	} {
		all = append(all, some...)
	}
	return all
}

// killScatters returns the collectives that scatter.
func killScatters() []killCall {
	return append(
		collective("Scatter", func(k *killRound) killCollective {
			src := make([]uint64, k.n*k.words)
			return killCollective{
				func(i int) { put(src, k.me, i, 0) },
				func(i int) error { return wrong(k.in, k.root, k.root+1, i, k.me*k.words) },
				func() error { return mpi.Scatter(k.c, k.in, src, k.root) },
				func() (mpi.Request, error) { return mpi.Iscatter(k.c, k.in, src, k.root) },
				func() (mpi.Persistent, error) { return mpi.ScatterInit(k.c, k.in, src, k.root) },
			}
		}),
		collective("Scatterv", func(k *killRound) killCollective {
			v, at := k.parts()
			src, dst := make([]uint64, at[k.n]), make([]uint64, v.Counts[k.me])
			return killCollective{
				func(i int) { put(src, k.me, i, 0) },
				func(i int) error { return wrong(dst, k.root, k.root+1, i, at[k.me]) },
				func() error { return mpi.Scatterv(k.c, dst, src, v, k.root) },
				func() (mpi.Request, error) { return mpi.Iscatterv(k.c, dst, src, v, k.root) },
				func() (mpi.Persistent, error) { return mpi.ScattervInit(k.c, dst, src, v, k.root) },
			}
		})...,
	)
}

// killAlltoalls returns the collectives in which each rank has a part for each other one.
func killAlltoalls() []killCall {
	check := func(k *killRound, dst []uint64, i int) error {
		for rank := range k.n {
			if err := wrong(dst[rank*k.words:][:k.words], rank, rank+1, i, k.me*k.words); err != nil {
				return err
			}
		}
		return nil
	}
	return append(
		collective("Alltoall", func(k *killRound) killCollective {
			src, dst := make([]uint64, k.n*k.words), make([]uint64, k.n*k.words)
			return killCollective{
				func(i int) { put(src, k.me, i, 0) },
				func(i int) error { return check(k, dst, i) },
				func() error { return mpi.Alltoall(k.c, dst, src) },
				func() (mpi.Request, error) { return mpi.Ialltoall(k.c, dst, src) },
				func() (mpi.Persistent, error) { return mpi.AlltoallInit(k.c, dst, src) },
			}
		}),
		collective("Alltoallv", func(k *killRound) killCollective {
			src, dst := make([]uint64, k.n*k.words), make([]uint64, k.n*k.words)
			v := mpi.Counts{Counts: k.regular()}
			return killCollective{
				func(i int) { put(src, k.me, i, 0) },
				func(i int) error { return check(k, dst, i) },
				func() error { return mpi.Alltoallv(k.c, dst, src, v, v) },
				func() (mpi.Request, error) { return mpi.Ialltoallv(k.c, dst, src, v, v) },
				func() (mpi.Persistent, error) { return mpi.AlltoallvInit(k.c, dst, src, v, v) },
			}
		})...,
	)
}

// killSeveral returns collectives that are under way beside others and beside messages, and those of package obj.
func killSeveral() []killCall {
	return []killCall{
		simpleCall("Iallreduce twice and a message", func(k *killRound) func(int) error {
			more := make([]uint64, k.words)
			move := k.pass(k.isend, k.recv)
			return func(i int) error {
				put(k.out, k.me, i, 0)
				first, err := mpi.Iallreduce(k.c, more, k.out, mpi.Sum)
				if err != nil {
					return err
				}
				second, err := k.c.Ibarrier()
				if err == nil {
					err = move(i)
				}
				if err == nil {
					err = mpi.WaitAll([]mpi.Request{second, first}, nil)
				}
				if k.left = append(k.left, first, second); err != nil {
					return err
				}
				k.left = nil
				return wrong(more, 0, k.n, i, 0)
			}
		}),
		simpleCall("obj.Bcast", func(k *killRound) func(int) error {
			return func(i int) error {
				var x map[string][]uint64
				if put(k.out, k.me, i, 0); k.me == k.root {
					x = map[string][]uint64{"x": k.out}
				}
				if err := obj.Bcast(k.c, &x, k.root); err != nil {
					return err
				}
				return wrong(x["x"], k.root, k.root+1, i, 0)
			}
		}),
		simpleCall("obj.Gather", func(k *killRound) func(int) error {
			return func(i int) error {
				put(k.out, k.me, i, 0)
				all, err := obj.Gather(k.c, k.out, k.root)
				if err != nil {
					return err
				}
				for rank, part := range all {
					if err := wrong(part, rank, rank+1, i, 0); err != nil {
						return err
					}
				}
				return nil
			}
		}),
	}
}
