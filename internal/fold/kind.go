// Package fold knows the operators of reductions: what kind one is, and the loops of the predefined
// ones, for the program that calls one (Sum) and for another process that has bytes, a Kind and an
// Elem (Bytes).
//
// An operator is a func(acc, in []T) that makes acc[i] = acc[i] op in[i]. Packages shmem and mpi have
// the predefined ones as generic functions (shmem.Sum), and programs pass functions of their own. A
// function has no field that says which one it is, and its code pointer does not either: the compiler
// makes another function for each place that hands a generic one on. So KindOf asks the operator.
//
// # The question
//
// KindOf panics with a question and has the operator run as a deferred function, with empty slices:
//
//	defer op(acc, in)
//	panic(question)
//
// A predefined operator that gets empty slices calls recover and gives what it gets to Answer, which
// writes the kind into the question. recover returns the question to the operator for one reason: the
// panic itself has called the operator. That is the language's rule, "recover was not called directly
// by a deferred function" gives nil. So a function of the program that calls a predefined operator,
// or defers one, hides it: the operator within gets nil and says nothing. The question comes back
// unanswered, and the kind is KindUser.
//
// Outside of KindOf, recover returns nil to a predefined operator, unless a program defers one with
// empty slices in a function that panics. Answer panics with the same value again then.
//
// # Operators of programs
//
// Asking is harmless for an operator of a program that goes over its slices by their length, as for
// a reduction of no elements. One that takes acc[0] without a look at the length panics, and KindOf
// recovers that panic. One that reaches behind the length, by a slice expression or by package
// unsafe, finds an element of its own there: the slices are not nil and have room for one. The
// operator runs on the caller's goroutine, so it may use what it uses otherwise.
package fold

// Kind says what an operator does.
type Kind uint8

// The kinds.
const (
	KindUser        Kind = iota // a function of the program
	KindCommutative             // a function of the program that it has declared commutative
	KindSum
	KindProd
	KindMin
	KindMax
	KindAnd
	KindOr
	KindXor
)

var names = [...]string{
	KindUser: "user", KindCommutative: "user commutative",
	KindSum: "sum", KindProd: "prod", KindMin: "min", KindMax: "max", KindAnd: "and", KindOr: "or", KindXor: "xor",
}

// String names the kind.
func (k Kind) String() string {
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Predefined reports whether the kind alone says what an operator does.
func (k Kind) Predefined() bool { return k >= KindSum }

// question is what KindOf panics with.
type question struct {
	kind Kind
	user any // the func(acc, in []T) that was declared commutative
}

// KindOf returns the kind of an operator. It calls op once, with empty slices.
func KindOf[T any](op func(acc, in []T)) Kind {
	kind, _ := Ask(op)
	return kind
}

// Ask is KindOf that also returns the function that the program wrote: op itself, or the one
// that Declare was given. It returns nil for a predefined operator.
func Ask[T any](op func(acc, in []T)) (Kind, func(acc, in []T)) {
	q := &question{}
	put(op, q)
	switch {
	case q.kind.Predefined():
		return q.kind, nil
	case q.kind == KindCommutative:
		user, _ := q.user.(func(acc, in []T))
		return q.kind, user
	}
	return KindUser, op
}

// put puts the question to an operator. The deferred functions run in this order: the operator, and
// then the one that recovers what the operator has left, the question or a panic of its own.
func put[T any](op func(acc, in []T), q *question) {
	room := make([]T, 2)
	defer func() { _ = recover() }()
	defer op(room[0:0:1], room[1:1:2])
	panic(q)
}

// Answer takes what recover returned to an operator that got empty slices. If that is a question, it
// writes the operator's kind into it.
func Answer(recovered any, k Kind) {
	if recovered == nil {
		return
	}
	q, asked := recovered.(*question)
	if !asked {
		panic(recovered)
	}
	q.kind = k
}

// Declare is Answer for an operator that declares f commutative. Without a question, it calls f, whose
// slices are empty as well. A predefined f stays what it is.
func Declare[T any](recovered any, f func(acc, in []T), acc, in []T) {
	if recovered == nil {
		f(acc, in)
		return
	}
	q, asked := recovered.(*question)
	if !asked {
		panic(recovered)
	}
	kind, user := Ask(f)
	if q.kind = kind; !kind.Predefined() {
		q.kind, q.user = KindCommutative, user
	}
}
