package coll

import (
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/goshmem/goshmem/internal/fold"
)

// The functions here name what the packages above say of their calls in Call.Text, and what
// Compare has found.

// NameElements names n elements of a type; -1: any number of them.
func NameElements[T any](n int) string {
	if n < 0 {
		return fmt.Sprintf("elements of %v", reflect.TypeFor[T]())
	}
	return fmt.Sprintf("%d elements of %v", n, reflect.TypeFor[T]())
}

// CodeOf returns where the code of a function begins, for NameFunction. F is a type of
// functions.
//
// It looks into the function value by itself, as what is given to package reflect is
// allocated, by callers that need no name as well.
func CodeOf[F any](f F) uintptr { return **(**uintptr)(unsafe.Pointer(&f)) }

// literal is the end of the name of a function literal. What stands before it depends on
// what the compiler has put in line, and where. It is compiled when a call has to be named:
// every PE starts without it.
var literal = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.func[0-9]+(\.[0-9]+)*$`) })

// NameFunction names the function whose code begins at an address: a literal by its place
// in the source, but for those in generic functions. These may be what the compiler makes to
// hand a generic function on, another one at each place.
func NameFunction(code uintptr) string {
	f := runtime.FuncForPC(code)
	if f == nil {
		return "an unknown function"
	}
	if !literal().MatchString(f.Name()) {
		return filepath.Base(f.Name())
	}
	if strings.Contains(f.Name(), "[...]") {
		return "a function of generic code"
	}
	file, line := f.FileLine(code)
	return fmt.Sprintf("the function at %s:%d", filepath.Base(file), line)
}

// NameOperator names the operator of a reduction: a predefined one by its kind, one of the program as
// NameFunction does.
func NameOperator[T any](op Op[T]) string {
	kind, f := fold.Ask(op)
	switch kind {
	case fold.KindUser:
		return NameFunction(CodeOf(f))
	case fold.KindCommutative:
		return "commutative " + NameFunction(CodeOf(f))
	}
	return kind.String()
}

// mostCalls is how many different calls NameCallers names.
const mostCalls = 4

// NameCallers says who calls what. A unit is what members are, and number says how they are
// numbered above.
func NameCallers(all []Callers, unit string, number func(member int) int) string {
	var parts []string
	for k := range all {
		var numbers []int
		for _, i := range all[k].Members {
			numbers = append(numbers, number(i))
		}
		text := nameCall(all, k)
		if k == mostCalls {
			for _, c := range all[k+1:] {
				for _, i := range c.Members {
					numbers = append(numbers, number(i))
				}
			}
			text = "other calls"
		}
		slices.Sort(numbers)
		parts = append(parts, fmt.Sprintf("%s on %s %s", text, unit, listNumbers(numbers)))
		if k == mostCalls {
			break
		}
	}
	if len(parts) > 1 {
		return parts[0] + ", but " + strings.Join(parts[1:], ", ")
	}
	return parts[0]
}

// nameCall names a call, with its objects if others differ in nothing else.
func nameCall(all []Callers, k int) string {
	c := &all[k]
	if c.Text == "" {
		return "a call that is not compared"
	}
	text := strings.ToValidUTF8(c.Text, "")
	if slices.ContainsFunc(all, func(o Callers) bool { return o.Text == c.Text && o.Objects != c.Objects }) {
		text += fmt.Sprintf(" (from offset %d to offset %d)", c.Objects[1], c.Objects[0])
	}
	if c.GaveUp {
		text += ", given up,"
	}
	return text
}

// listNumbers returns ascending numbers, three or more in a row as 4-9.
func listNumbers(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i + 1
		for end < len(numbers) && numbers[end] == numbers[end-1]+1 {
			end++
		}
		if end-i > 2 {
			parts = append(parts, fmt.Sprintf("%d-%d", numbers[i], numbers[end-1]))
			i = end
			continue
		}
		for ; i < end; i++ {
			parts = append(parts, strconv.Itoa(numbers[i]))
		}
	}
	return strings.Join(parts, ", ")
}
