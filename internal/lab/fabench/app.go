package fabench

import (
	"fmt"
	"io"
	"slices"

	"github.com/goshmem/goshmem/examples/minife/minife"
)

// App is an application. It takes the flags --iterations, --plain (no transactions), --policy and --kill as minife does, and a flag for its size.
type App struct {
	Name     string
	SizeFlag string // of the elements on a side
	Size     int    // the default
	// Run is the program of each rank. It prints one line, the result, at one rank. It calls note with minife's events and at the phases of package ft.
	Run func(args []string, stdout io.Writer, note func(event string)) error
	// Check returns an error unless the application runs on this many ranks with this many elements on a side.
	Check func(ranks, size int) error
}

// Apps lists all applications.
var Apps = []App{
	{Name: "minife", SizeFlag: "--nx", Size: 24, Run: minife.Run, Check: checkMiniFE},
}

func checkMiniFE(ranks, size int) error {
	if most := size * size * size / 8; ranks > most {
		return fmt.Errorf("-n: %d ranks, want 2 to %d of minife with --size %d", ranks, most, size)
	}
	return nil
}

// AppNames returns the names of all applications.
func AppNames() (names []string) {
	for i := range Apps {
		names = append(names, Apps[i].Name)
	}
	return names
}

// findApp returns an application, or nil.
func findApp(name string) *App {
	i := slices.IndexFunc(Apps, func(a App) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &Apps[i]
}
