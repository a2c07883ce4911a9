package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/pmix/codec"
)

// toStdout stands for standard output in Options.ReportURI.
const toStdout = "-"

// reportURI says where tools can attach, if that is asked for, and returns what
// takes it back. A file appears whole, and holds what libpmix wants to read
// there: the URI and the version of the protocol.
func (o *Options) reportURI(cluster *Cluster, out *printer) (takeBack func(), err error) {
	switch o.ReportURI {
	case "":
		return func() {}, nil
	case toStdout:
		out.log(daemon.Stdout, []byte(cluster.ToolURI()+"\n"))
		return func() {}, nil
	}
	path := o.ReportURI
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("--report-uri: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s\n%s\n", cluster.ToolURI(), codec.Version)
	mine, serr := f.Stat()
	err = errors.Join(err, serr, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--report-uri: %w", err), os.Remove(f.Name()))
	}
	return func() {
		if now, err := os.Lstat(path); err == nil && os.SameFile(mine, now) { // not another job's
			_ = os.Remove(path)
		}
	}, nil
}
