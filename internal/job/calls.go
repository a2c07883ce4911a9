package job

import (
	"bytes"
	"fmt"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/goshmem/goshmem/symheap/layout"
)

// library lists the packages whose functions a program calls, without the module's path.
var library = [...]string{"shmem", "mpi", "interop"}

// runner is the function of the library that calls the program, rather than being called by it.
const runner = module + "shmem.Run"

const module = "github.com/goshmem/goshmem/"

// mostCalls bounds the goroutines that one answer lists.
const mostCalls = 4

// frame is one function of a goroutine's stack.
type frame struct {
	function string // with its package's path, without arguments
	place    string // file and line
}

// calls returns a line that says in which calls of the library the program is.
func calls() []byte { return describeCalls(stacks(), dotless()) }

// dotless returns the modules of this program whose paths have no dot in the first element, like
// those of the standard library.
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

// describeCalls returns the line for a dump of runtime.Stack; own is the result of dotless.
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

// libraryCall returns the function of the library that the program has called, and the place of the call.
func libraryCall(frames []frame) (text string, found bool) {
	last := -1
	for i, f := range frames {
		if f.function == runner && i > 0 && !ofLibrary(frames[i-1].function) {
			break // it runs the program's body: what the body calls counts
		}
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

// ofLibrary reports whether a function is of a package in library, and not of one below it.
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

// programPlace returns the place of the innermost function of the program, and the function of
// the standard library that it has called.
func programPlace(frames []frame, own []string) string {
	for i, f := range frames {
		if isStandard(f.function, own) {
			continue
		}
		if i == 0 || strings.HasPrefix(frames[i-1].function, "runtime.") { // the runtime may interrupt a program anywhere
			return "main runs " + f.String()
		}
		return "main is in " + frames[i-1].name() + ", called at " + f.String()
	}
	return "main runs " + frames[0].String()
}

// isStandard reports whether a function is of the standard library. The first path element of
// its packages has no dot. The modules of own are the exceptions.
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

// NameHolders installs f, which returns the PE that holds the lock with a grant, -1 if none
// does. Nil removes it.
func (j *Job) NameHolders(f func(grant uintptr) layout.PE) {
	if f == nil {
		j.holder.Store(nil)
		return
	}
	j.holder.Store(&f)
}

// Bounds of awaited. A wait is not asleep between two sleeps; on a loaded machine it may stay
// so for a time slice. So awaited looks for awaitedMost, and at least awaitedLooks times: if the
// program computes on the only processor, each pause takes ten milliseconds.
const (
	awaitedMost  = 50 * time.Millisecond
	awaitedLooks = 4
	awaitedPause = time.Millisecond
)

// awaited returns a further line of the answer: the PE that this process waits for, if it is known.
func (j *Job) awaited() string {
	w := j.waits.Load()
	if w == nil {
		return ""
	}
	begin := time.Now()
	for looks := 1; ; looks++ {
		pe, grant := w.Awaited()
		if f := j.holder.Load(); grant != 0 && f != nil {
			pe = int((*f)(grant))
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
