package coll

// number has the types that can be added.
type number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Add adds to each element of acc that of in, which has as many.
//
// It takes four elements in each round: how fast a shorter loop is depends on where the
// linker puts it, by a third.
func Add[T number](acc, in []T) {
	in = in[:len(acc)]
	for len(acc) >= 4 && len(in) >= 4 {
		a, b := acc[:4], in[:4]
		a[0] += b[0]
		a[1] += b[1]
		a[2] += b[2]
		a[3] += b[3]
		acc, in = acc[4:], in[4:]
	}
	for i := range acc {
		acc[i] += in[i]
	}
}
