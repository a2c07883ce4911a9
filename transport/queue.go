package transport

// Queue holds the posts of a lane in order, for implementations of Transport. It does not copy the bytes of parts.
type Queue struct {
	pieces []piece // those before head are taken
	head   int
	taken  int // bytes that are taken of the first piece
}

// piece is a part of a post.
type piece struct {
	data  []byte
	token uint64
	last  bool // the post ends here
}

// keptPieces is how many pieces an empty queue keeps room for after Clear.
const keptPieces = 1024

// Push appends a post.
func (q *Queue) Push(token uint64, parts [][]byte) {
	q.compact(len(parts) + 1)
	for _, p := range parts {
		if len(p) > 0 {
			q.pieces = append(q.pieces, piece{data: p, token: token})
		}
	}
	if n := len(q.pieces); n > q.head && q.pieces[n-1].token == token && !q.pieces[n-1].last {
		q.pieces[n-1].last = true
		return
	}
	q.pieces = append(q.pieces, piece{token: token, last: true}) // a post without bytes
}

// compact moves the pieces to the start if they and n more do not fit behind the taken ones, and at least half of the
// room is taken. So a queue that never gets empty does not grow.
func (q *Queue) compact(n int) {
	if len(q.pieces)+n <= cap(q.pieces) || q.head < cap(q.pieces)/2 {
		return
	}
	rest := copy(q.pieces, q.pieces[q.head:])
	clear(q.pieces[rest:])
	q.pieces, q.head = q.pieces[:rest], 0
}

// Len returns the number of pieces that are not taken. A post without bytes is a piece.
func (q *Queue) Len() int { return len(q.pieces) - q.head }

// Piece returns the bytes of piece i, from 0 to Len()-1, that are not taken.
func (q *Queue) Piece(i int) []byte {
	p := q.pieces[q.head+i].data
	if i == 0 {
		p = p[q.taken:]
	}
	return p
}

// Take takes the first n bytes from the queue. It appends an event Sent for each post that ends there, with the node,
// lane and generation of like.
func (q *Queue) Take(n int, events []Event, like Event) []Event {
	for q.head < len(q.pieces) {
		p := &q.pieces[q.head]
		if rest := len(p.data) - q.taken; n < rest {
			q.taken += n
			return events
		} else {
			n -= rest
		}
		if p.last {
			events = append(events, Event{
				Kind: Sent, Node: like.Node, Lane: like.Lane, Generation: like.Generation, Token: p.token,
			})
		}
		*p, q.taken = piece{}, 0 // the collector may have the part
		q.head++
	}
	q.pieces, q.head = q.pieces[:0], 0
	return events
}

// Clear drops all posts.
func (q *Queue) Clear() {
	clear(q.pieces[q.head:])
	q.pieces, q.head, q.taken = q.pieces[:0], 0, 0
	if cap(q.pieces) > keptPieces {
		q.pieces = nil
	}
}
