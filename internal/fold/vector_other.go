//go:build !amd64 || race

package fold

// sumVectors adds nothing: there is no way that is faster than the loop.
func sumVectors[T Number](_, _ []T) int { return 0 }
