package job

import "testing"

// In place of the stack of a goroutine that has just returned from a system call, the runtime may print its own stack.
// The stacks here were seen once.
func TestSwitching(t *testing.T) {
	const others = "\n\ngoroutine 12 [select]:\nheat.wait(0xc000183440)\n\t/src/heat/wait.go:42 +0xe5\n"
	for _, c := range []struct {
		stack string
		want  bool
	}{
		{`goroutine 1 [runnable]:
runtime.nanotime(...)
	/usr/local/go/src/runtime/time_nofake.go:33
runtime.casgstatus(0xc0000081e0, 0x2, 0x1)
	/usr/local/go/src/runtime/proc.go:1373 +0x336
runtime.exitsyscallNoP(0xc0000081e0)
	/usr/local/go/src/runtime/proc.go:5114 +0x22a
runtime.mcall()
	/usr/local/go/src/runtime/asm_amd64.s:496 +0x55`, true},
		{"goroutine 1 [runnable]:\nmain.main()\n\t/src/heat/runtime.mcall(.go:7 +0x11", false},
	} {
		if got := switching([]byte(c.stack + others)); got != c.want {
			t.Errorf("got %v, want %v, for\n%s", got, c.want, c.stack)
		}
	}
	if text := stacks(); switching(text) {
		t.Errorf("stacks() has a stack of the runtime itself:\n%s", text)
	}
}
