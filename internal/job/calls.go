package job

import (
	"bytes"
	"fmt"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// library are the packages whose functions a program calls: the last elements of their import paths behind module.
var library = [...]string{"shmem", "mpi", "interop"}

const module = "github.com/goshmem/goshmem/"

// mostCalls bounds how many goroutines one answer tells of.
const mostCalls = 4

// frame is one function of a goroutine's stack.
type frame struct {
	function string // with its package's path, without arguments
	place    string // file and line
}

// calls says in a line where the program of this process is: in which calls of the library, or that it is in none.
func calls() []byte { return describeCalls(stacks(), dotless()) }

// dotless returns the modules of this program whose paths begin like those of the standard
// library.
var dotless = sync.OnceValue(func() (modules []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if first, _, _ := strings.Cut(m.Path, "/"); first != "" && !strings.Contains(first, ".") {
			modules = append(modules, m.Path)
		}
	}
	return modules
})

// describeCalls reads what runtime.Stack has written. Own are the modules that dotless returns.
func describeCalls(dump []byte, own []string) []byte {
	var in []string
	elsewhere := ""
	for stack := range bytes.SplitSeq(dump, []byte("\n\n")) {
		frames, isMain := parseStack(string(stack))
		switch call, found := libraryCall(frames); {
		case found:
			in = append(in, call)
		case isMain && len(frames) > 0:
			elsewhere = "; " + programPlace(frames, own)
		}
	}
	if len(in) == 0 {
		return []byte("is in no call of the library" + elsewhere)
	}
	text := "is in " + strings.Join(in[:min(len(in), mostCalls)], "; in ")
	if more := len(in) - mostCalls; more > 0 {
		text += fmt.Sprintf("; and %d more goroutines are in calls", more)
	}
	return []byte(text)
}

// parseStack returns the frames of one goroutine, the innermost first, and whether it is the one that runs main.
func parseStack(stack string) (frames []frame, isMain bool) {
	lines := strings.Split(strings.TrimRight(stack, "\n"), "\n")
	isMain = strings.HasPrefix(lines[0], "goroutine 1 ")
	for i := 1; i+1 < len(lines); i += 2 {
		if strings.HasPrefix(lines[i], "created by ") {
			break
		}
		function, place := lines[i], strings.TrimSpace(lines[i+1])
		if at := strings.LastIndexByte(function, '('); at > 0 {
			function = function[:at]
		}
		place, _, _ = strings.Cut(place, " +0x")
		frames = append(frames, frame{function, place})
	}
	return frames, isMain
}

// libraryCall finds the function of the library that the program has called, and the place of the call.
func libraryCall(frames []frame) (text string, found bool) {
	last := -1
	for i, f := range frames {
		if ofLibrary(f.function) {
			last = i
		}
	}
	if last < 0 {
		return "", false
	}
	text = strings.TrimPrefix(frames[last].function, module)
	if last+1 < len(frames) {
		text += ", called at " + frames[last+1].String()
	}
	return text, true
}

// ofLibrary says whether a function is of a package of the library itself, not of one below it.
func ofLibrary(function string) bool {
	rest, ok := strings.CutPrefix(function, module)
	if !ok {
		return false
	}
	for _, name := range library {
		if strings.HasPrefix(rest, name+".") {
			return true
		}
	}
	return false
}

// programPlace says where the innermost function of the program is, and which one of the
// standard library it has called.
func programPlace(frames []frame, own []string) string {
	for i, f := range frames {
		if isStandard(f.function, own) {
			continue
		}
		if i == 0 || strings.HasPrefix(frames[i-1].function, "runtime.") { // which interrupts programs anywhere
			return "main runs " + f.String()
		}
		return "main is in " + frames[i-1].name() + ", called at " + f.String()
	}
	return "main runs " + frames[0].String()
}

// isStandard says whether a function is of the standard library: the paths of its packages
// begin with an element that has no dot. Those of the modules own do, too.
func isStandard(function string, own []string) bool {
	dir := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[dir:], ".") // dots of a package's own name are escaped
	pkg := function[:dir] + name
	if first, _, _ := strings.Cut(pkg, "/"); pkg == "main" || strings.Contains(first, ".") {
		return false
	}
	for _, module := range own {
		if pkg == module || strings.HasPrefix(pkg, module+"/") {
			return false
		}
	}
	return true
}

// String names the function without the path of its package, and the place without that of its file.
func (f frame) String() string {
	return fmt.Sprintf("%s (%s)", path.Base(f.place), f.name())
}

// name names the function without the path of its package.
func (f frame) name() string { return f.function[strings.LastIndexByte(f.function, '/')+1:] }

// NameHolders has f asked which PE has the lock that this process waits for; -1: none. Nil:
// nobody knows any more.
func (j *Job) NameHolders(f func(grant uintptr) int) {
	if f == nil {
		j.holder.Store(nil)
		return
	}
	j.holder.Store(&f)
}

// A wait is not asleep between two sleeps, and beside load it may stay so for a time slice. So
// awaited looks for this long, and this often at least: where the program computes on the only
// processor, each pause takes ten milliseconds.
const (
	awaitedMost  = 50 * time.Millisecond
	awaitedLooks = 4
	awaitedPause = time.Millisecond
)

// awaited is a further line of the answer: for which PE this process waits, if that is known.
func (j *Job) awaited() string {
	w := j.waits.Load()
	if w == nil {
		return ""
	}
	begin := time.Now()
	for looks := 1; ; looks++ {
		pe, grant := w.Awaited()
		if f := j.holder.Load(); grant != 0 && f != nil {
			pe = (*f)(grant)
		}
		if pe >= 0 {
			return fmt.Sprintf("\n%d", pe)
		}
		if looks >= awaitedLooks && time.Since(begin) > awaitedMost {
			return ""
		}
		<-time.After(awaitedPause)
	}
}
