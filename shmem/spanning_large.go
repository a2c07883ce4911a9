package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Large data of teams that span nodes
//
// Data from other nodes are what takes long, so the PEs of a node divide them. A collective that all get the same data of has
// these steps (spreading):
//
//  1. The contributors on a node divide the bytes that come from other nodes. Each one reads its share into its destination, and all
//     that is near from where it is.
//  2. All have done so. Each member copies the others' shares from their destinations.
//
// In a large reduction (reducing), contributor k owns block k of the elements. It reads that block of all sources in the order of the
// team, and folds it into its destination. All have done so, and then get all blocks as above. So each element is folded by one
// member in the order in which each member would fold it for itself: the bytes are the same, and operators need not commute.
//
// Which steps there are follows from the number of bytes and from the places of the members alone, which are the same for all of them.
//
// # Why all that live have the same, whoever dies
//
// A result is used only if the last step says that every living member has done its part, which all members learn alike. If not, or
// if a contributor is missing in a step before, all begin again without those that are missing. Three things make that right.
//
//   - Another attempt finds the memory that others read as it was at first. A member that may need what its destination had keeps it before
//     it writes there (destination.at), and restores it before another attempt. It needs it if the destination is the source, and
//     where the destination of a dead contributor's block has to stay as it was.
//   - In place, others read what has been restored. So all members meet once more after that, and those that are missing in this
//     meeting are no contributors of the next attempt. A member that enters it has restored its source before. So
//     nobody reads a source in which a dead member has left results.
//   - No data of an attempt come after it. A read that fails may have data under way, which the agent writes to the heap when they come. So
//     a member waits for their end (Quiet) before it says that it has failed.
//
// Within an attempt, reads and writes do not meet:
//
//   - In the first step of a reduction in place, a member writes to its own block only, which nobody else reads there. It writes to other
//     blocks of its source after the meeting, when all have read them.
//   - Out of place, nobody reads another one's destination before a meeting after the first step. A reduction has blocks of other nodes come
//     there, where results go later.
//   - What others read in a destination after a meeting was written before it, and is written no more in that attempt.

// A step costs about as much as the reading of so many bytes from another node. docs/performance.md has the measurement.
const stepBytes = 384 << 10

// shape is where the members of a team are.
type shape struct {
	members int
	near    []int // members on each node of the job
}

func (s spanningCall) shape() shape {
	x, j := shape{s.t.NPEs(), make([]int, s.t.h.job.Place.Nodes)}, s.t.h.job
	for i := range x.members {
		node, _ := j.Home(s.t.group.pe(i))
		x.near[node]++
	}
	return x
}

// most returns the largest cost among nodes. cost gets the members of a node, and those of all others.
func (x shape) most(cost func(near, far int) int) (most int) {
	for _, near := range x.near {
		if near > 0 {
			most = max(most, cost(near, x.members-near))
		}
	}
	return most
}

// destination is where a member writes the results of a collective.
type destination struct {
	s     spanningCall
	off   uint64
	keeps bool   // another attempt, or the caller, may need what is there now
	room  []byte // for what was there
	kept  []keptPart
}

// keptPart is what a destination had.
type keptPart struct {
	to   unsafe.Pointer
	data []byte
}

// at returns a place in the destination for n bytes, which the caller writes. Each place is asked for once in an attempt.
func (d *destination) at(to, n int) unsafe.Pointer {
	p := d.s.here(d.off + uint64(to))
	if d.keeps && n > 0 {
		begin := len(d.room)
		d.room = append(d.room, unsafe.Slice((*byte)(p), n)...)
		d.kept = append(d.kept, keptPart{p, d.room[begin:]})
	}
	return p
}

// restore writes back what the destination had.
func (d *destination) restore() {
	for _, k := range d.kept {
		rma.CopyElements(k.to, unsafe.Pointer(&k.data[0]), 1, len(k.data))
	}
	d.kept, d.room = nil, nil
}

// mostSpare bounds the memory that a PE keeps for the next collective.
const mostSpare = 8 << 20

// course returns the course of these steps, which make a collective with this destination.
func (d *destination) course(steps ...func(in contributors) error) course {
	c := course{steps: steps}
	if d.keeps {
		c.restore = d.restore
	}
	return c
}

// run makes a collective with this destination, of n bytes.
func (d *destination) run(w coll.Words, n int, c course) error {
	if d.keeps {
		spare := &d.s.t.h.spare
		if b := spare.Swap(nil); b != nil && cap(*b) >= n {
			d.room = *b
		} else {
			d.room = make([]byte, 0, n)
		}
		all := d.room[:0]
		defer func() {
			if cap(all) <= mostSpare {
				spare.Store(&all)
			}
		}()
	}
	return d.s.run(w, c)
}

// piece is data of a member that all members of a collective get.
type piece struct {
	member int
	from   uint64 // offset in the segment
	to     int    // place in the destination
	n      int    // bytes
}

// spreading gives pieces to all members.
type spreading struct {
	*destination
	pieces func(in contributors) []piece
	shares bool // the members of a node divide what comes from other nodes
}

// sharesPay says whether the members of a node should divide what comes from other nodes. bytes are those that each member gets from
// far members. It pays if a node saves more than a step.
func (s spanningCall) sharesPay(bytes func(far int) int) bool {
	return s.shape().most(func(near, far int) int { return (near - 1) * bytes(far) }) > stepBytes
}

// steps returns what a member does.
func (x *spreading) steps() []func(in contributors) error {
	if x.shares {
		return []func(contributors) error{x.read, x.copyShares}
	}
	return []func(contributors) error{x.read}
}

// isNear reports whether a member is on this node.
func (s spanningCall) isNear(member int) bool {
	_, near := s.t.h.job.Place.Local(s.t.group.pe(member))
	return near
}

// near returns the contributors on this node.
func (s spanningCall) near(in contributors) (who []int) {
	for _, i := range in.members() {
		if s.isNear(i) {
			who = append(who, i)
		}
	}
	return who
}

// shareUnit is what shares are multiples of, so that they end where elements do.
const shareUnit = 64

// eachShare calls f with the parts of the pieces of other nodes that a contributor on this node reads.
func (x *spreading) eachShare(in contributors, f func(of int, p piece)) {
	total, all := 0, x.pieces(in)
	for _, p := range all {
		if !x.s.isNear(p.member) {
			total += p.n
		}
	}
	readers := []int{x.s.t.me}
	if x.shares {
		readers = x.s.near(in)
	}
	for k, reader := range readers {
		lo, hi := board.Share((total+shareUnit-1)/shareUnit, len(readers), k)
		lo, hi = lo*shareUnit, min(hi*shareUnit, total)
		at := 0
		for _, p := range all {
			if x.s.isNear(p.member) {
				continue
			}
			if a, b := max(lo-at, 0), min(hi-at, p.n); a < b {
				f(reader, piece{p.member, p.from + uint64(a), p.to + a, b - a})
			}
			at += p.n
		}
	}
}

// read is the first step: it reads this member's share, and all that is near.
func (x *spreading) read(in contributors) error {
	g := gets{s: x.s}
	x.eachShare(in, func(of int, p piece) {
		if of == x.s.t.me {
			g.add(p.member, p.from, x.at(p.to, p.n), p.n)
		}
	})
	g.begin()
	for _, p := range x.pieces(in) {
		local, near := x.s.t.h.job.Place.Local(x.s.t.group.pe(p.member))
		if own := p.member == x.s.t.me && p.from == x.off+uint64(p.to); !near || own || p.n == 0 {
			continue
		}
		rma.CopyElements(x.at(p.to, p.n), unsafe.Add(x.s.t.h.job.Map.Segment(local), int(p.from)), 1, p.n)
	}
	return g.wait()
}

// copyShares is the second step: it copies what the others on this node have read.
func (x *spreading) copyShares(in contributors) error {
	x.eachShare(in, func(of int, p piece) {
		if of == x.s.t.me {
			return
		}
		local, _ := x.s.t.h.job.Place.Local(x.s.t.group.pe(of))
		rma.CopyElements(x.at(p.to, p.n), unsafe.Add(x.s.t.h.job.Map.Segment(local), int(x.off)+p.to), 1, p.n)
	})
	return nil
}

// gets are reads from other nodes to the heap, several of which are under way at the same time.
type gets struct {
	s       spanningCall
	all     []get
	pending []*far.Pending // of the first ones of all
	touched far.Touched
	err     error
}

// get is a read of n bytes.
type get struct {
	member int
	off    uint64
	dst    unsafe.Pointer
	n      int
}

// mostGets bounds the reads under way. A PE has slots for far more.
const mostGets = 16

// add adds a read.
func (g *gets) add(member int, off uint64, dst unsafe.Pointer, n int) {
	g.all = append(g.all, get{member, off, dst, n})
}

// begin starts reads. A single one is left to wait, where it may go past the agent.
func (g *gets) begin() {
	for len(g.all) > 1 && len(g.pending) < min(len(g.all), mostGets) && g.err == nil {
		g.start()
	}
}

// start starts the next read, unless one has failed.
func (g *gets) start() {
	if next := len(g.pending); g.err == nil && next < len(g.all) {
		x := &g.all[next]
		var p *far.Pending
		if p, g.err = g.s.t.h.far.StartGet(g.s.t.ctx, &g.touched, g.s.t.group.pe(x.member), x.off, x.dst, x.n); g.err == nil {
			g.pending = append(g.pending, p)
		}
	}
}

// wait waits for all reads. If one has failed, no data come any more when it returns, unless the context has ended: then the team
// is given up.
func (g *gets) wait() error {
	h, ctx := g.s.t.h, g.s.t.ctx
	if len(g.all) == 1 {
		x := &g.all[0]
		g.err = h.far.Get(ctx, &g.touched, g.s.t.group.pe(x.member), x.off, x.dst, x.n)
	}
	for i := 0; i < len(g.pending) && g.err == nil; i++ {
		if _, g.err = g.pending[i].Wait(ctx); g.err == nil {
			g.start()
		}
	}
	if g.err != nil {
		_ = h.far.Quiet(ctx, &g.touched) // its error is no other than that
	}
	return h.farError(g.s.op, g.err)
}

// broadcast copies n elements of the root's source to all destinations.
func (s spanningCall) broadcast(dst, src uint64, n, root int) error {
	s.root = root
	bytes := n * s.size
	d := &destination{s: s, off: dst, keeps: s.t.upper.Tolerant()} // the root may die before all have its data
	shares := s.sharesPay(func(int) int { return bytes })
	x := spreading{d, func(contributors) []piece { return []piece{{root, src, 0, bytes}} }, shares}
	return d.run(coll.Words{uint64(n), src, uint64(root)<<48 | dst}, bytes, d.course(x.steps()...))
}

// fcollect copies n elements of each member to the destinations.
func (s spanningCall) fcollect(dst, src uint64, n int) error {
	bytes := n * s.size
	d := &destination{s: s, off: dst, keeps: s.t.upper.Tolerant()}
	x := spreading{d, fcollectPieces(src, bytes), s.sharesPay(func(far int) int { return far * bytes })}
	return d.run(coll.Words{uint64(n), src, dst}, bytes*s.t.NPEs(), d.course(x.steps()...))
}

// fcollectPieces are blocks of so many bytes.
func fcollectPieces(src uint64, bytes int) func(in contributors) []piece {
	return func(in contributors) (all []piece) {
		for _, i := range in.members() {
			all = append(all, piece{i, src, i * bytes, bytes})
		}
		return all
	}
}

// collect copies the elements of each member, which may give any number, to the destinations.
func (s spanningCall) collect(dst, src uint64, n, room int) error {
	type source struct{ off, n, room uint64 }
	all := make([]source, s.t.NPEs())
	mine := source{src, uint64(n), uint64(room)}
	err := s.gatherValues(unsafe.Slice((*byte)(unsafe.Pointer(&mine)), unsafe.Sizeof(mine)), func(i, _ int, data []byte) {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&all[i])), unsafe.Sizeof(mine)), data)
	})
	if err != nil {
		return err
	}
	total := 0
	for i := range all {
		total += int(all[i].n)
	}
	gave := contributors{len(all), s.t.group.outcome.Load().failed}
	for i := range all {
		if all[i].room < uint64(total) && gave.has(i) {
			return roomError(s.op, i, int(all[i].room), total)
		}
	}
	bytes := total * s.size
	d := &destination{s: s, off: dst, keeps: s.t.upper.Tolerant()}
	x := spreading{d, func(in contributors) (pieces []piece) {
		at := 0
		for _, i := range in.members() {
			pieces = append(pieces, piece{i, all[i].off, at, int(all[i].n) * s.size})
			at += int(all[i].n) * s.size
		}
		return pieces
	}, s.sharesPay(func(far int) int { return bytes / len(all) * far })}
	return d.run(coll.Words{uint64(total), 0, dst}, bytes, d.course(x.steps()...))
}

// A byte takes longer from another node to private memory than to the heap, where the agent writes it: privateCost/heapCost times.
const (
	privateCost = 5
	heapCost    = 2
)

// reduces says how a reduction of n elements is made: each contributor folds a block, or each one all; and whether the members of a
// node divide what comes from other nodes. In place, sources of other nodes come to private memory. Costs are in KiB that come to the
// heap of a PE.
func (s spanningCall) reduces(n int, inPlace bool) (blocks, shares bool) {
	x, step := s.shape(), stepBytes>>10
	whole := n * s.size >> 10
	block := whole / x.members
	heapOr := func(private bool, bytes int) int {
		if private {
			return bytes * privateCost / heapCost
		}
		return bytes
	}
	linear := x.most(func(near, far int) int { return heapOr(inPlace || far > 1, near*far*whole) })
	shares = x.most(func(near, far int) int { return (near - 1) * far * block }) > step
	cost := step + x.most(func(near, far int) int {
		fold, spread := heapOr(inPlace, near*far*block), near*far*block
		if shares {
			spread = far*block + step
		}
		return fold + spread
	})
	return cost < linear, shares
}

// reducing is a reduction.
type reducing[T any] struct {
	*destination
	src    Sym[T]
	blocks bool // each contributor folds its block; otherwise each one folds all
}

// reduceLarge is foldSpanning of all contributors.
func reduceLarge[T any](s spanningCall, dst, src Sym[T], op Op[T]) error {
	inPlace := dst.off == src.off
	blocks, shares := s.reduces(src.n, inPlace)
	if !blocks && (inPlace || s.shape().most(func(_, far int) int { return far }) > 1) {
		return foldSpanning(s, dst, src, op, s.t.NPEs())
	}
	r, c := newReducing(s, dst, src, blocks, shares)
	c.first = func(in contributors) error { return r.fold(in, op) }
	return r.run(coll.Words{uint64(src.n), src.off, dst.off}, src.n*s.size, c)
}

// newReducing returns a reduction and its course but for the first step. In place it has to be by blocks.
func newReducing[T any](s spanningCall, dst, src Sym[T], blocks, shares bool) (*reducing[T], course) {
	d := &destination{s: s, off: dst.off, keeps: dst.off == src.off && s.t.upper.Tolerant()}
	r := &reducing[T]{d, src, blocks}
	c := d.course()
	c.confirms = d.keeps
	if blocks {
		x := &spreading{d, r.pieces, shares}
		c.steps = x.steps()
	}
	return r, c
}

// block returns the elements that the k-th contributor folds.
func (r *reducing[T]) block(who []int, k int) (lo, hi int) {
	if !r.blocks {
		return 0, r.src.n
	}
	return board.Share(r.src.n, len(who), k)
}

// pieces returns where the blocks of the result are.
func (r *reducing[T]) pieces(in contributors) (all []piece) {
	size, who := r.s.size, in.members()
	for k, i := range who {
		lo, hi := r.block(who, k)
		all = append(all, piece{i, r.off + uint64(lo*size), lo * size, (hi - lo) * size})
	}
	return all
}

// fold is the first step: it folds this member's block into the destination.
func (r *reducing[T]) fold(in contributors, op Op[T]) error {
	who := in.members()
	k := 0
	for who[k] != r.s.t.me {
		k++
	}
	lo, hi := r.block(who, k)
	if lo == hi {
		return nil
	}
	size := r.s.size
	to := r.at(lo*size, (hi-lo)*size)
	sources := r.sources(who, k, lo, hi)
	g := gets{s: r.s}
	private := 0
	for i, from := range sources {
		switch {
		case from.near:
		case from.data == nil:
			private++
		default:
			g.add(who[i], r.src.off+uint64(lo*size), unsafe.Pointer(&from.data[0]), (hi-lo)*size)
		}
	}
	g.begin()
	if err := g.wait(); err != nil {
		return err
	}
	most := min(max(1, foldPiece/size), hi-lo)
	if private > 0 {
		most = min(max(1, readPiece/size), hi-lo)
	}
	acc, read := make([]T, most), make([]T, most*min(private, 1))
	for at := 0; at < hi-lo; at += most {
		n := min(most, hi-lo-at)
		for i, from := range sources {
			var next []T
			if from.data != nil {
				next = from.data[at : at+n]
			} else {
				next = read[:n]
				if err := r.s.read(who[i], r.src.off+uint64((lo+at)*size), unsafe.Pointer(&next[0]), n*size); err != nil {
					return err
				}
			}
			if i == 0 {
				rma.CopyElements(unsafe.Pointer(&acc[0]), unsafe.Pointer(&next[0]), uintptr(size), n)
			} else {
				op(acc[:n], next)
			}
		}
		rma.CopyElements(unsafe.Add(to, at*size), unsafe.Pointer(&acc[0]), uintptr(size), n)
	}
	return nil
}

// How many bytes are folded at once: few enough for a cache, and many for a call of an operator. Those that are read to private memory
// are as many as a get has under way.
const (
	foldPiece = 32 << 10
	readPiece = 256 << 10
)

// source is a block of a contributor's source.
type source[T any] struct {
	near bool
	data []T // where it is, or is to come; nil: it is read piece by piece
}

// sources returns the block of each contributor. Out of place, blocks of other nodes come into the destination, which has no results
// yet but those that are folded: one of them where the results of this block come, which are written piece by piece
// when the piece has been folded; the others where other blocks come.
func (r *reducing[T]) sources(who []int, k, lo, hi int) []source[T] {
	all := make([]source[T], len(who))
	h := r.s.t.h
	free, here := 0, true // blocks below free are taken, but k; here: k is free
	for i, member := range who {
		local, near := h.job.Place.Local(r.s.t.group.pe(member))
		if near {
			all[i] = source[T]{true, view[T](h, local, r.src.off, lo, hi)}
			continue
		}
		if r.off == r.src.off {
			continue
		}
		if here {
			here, all[i].data = false, view[T](h, h.job.Local, r.off, lo, hi)
			continue
		}
		for ; free < len(who); free++ {
			if a, b := r.block(who, free); free != k && b-a >= hi-lo && r.blocks {
				all[i].data = view[T](h, h.job.Local, r.off, a, a+hi-lo)
				free++
				break
			}
		}
	}
	return all
}

// view returns elements lo to hi of an object of a PE of this node.
func view[T any](h *heap, of layout.Local, off uint64, lo, hi int) []T {
	p := unsafe.Add(h.job.Map.Segment(of), int(off)+lo*int(sizeOf[T]()))
	return unsafe.Slice((*T)(p), hi-lo)
}
