package job

import (
	"fmt"
	"os"
	"sync"

	"github.com/goshmem/goshmem/internal/envvar"
)

var warnOnce sync.Once

// warnForeign warns the user, once per process, that a foreign launcher started several
// processes, each of which is a job of one PE.
func warnForeign() {
	warnOnce.Do(func() {
		if l, ok := envvar.ForeignLauncher(os.LookupEnv); ok {
			fmt.Fprintln(os.Stderr, foreignText(l))
		}
	})
}

// foreignText returns the warning.
func foreignText(l envvar.Launcher) string {
	return fmt.Sprintf("goshmem: warning: %s=%d says that %s started %d processes, but this one is a job of one PE: only oshrun makes one job of them; hint: %s",
		l.Var, l.Processes, l.Name, l.Processes, l.Hint)
}
