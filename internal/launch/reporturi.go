package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

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
	text := fmt.Appendf(nil, "%s\n%s\n", cluster.ToolURI(), codec.Version)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		if err := writeInPlace(path, text); err != nil {
			return nil, fmt.Errorf("--report-uri: %w", err)
		}
		return func() {}, nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("--report-uri: %w", err)
	}
	_, err = f.Write(text)
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

// writeInPlace writes to a link, a FIFO or a device, which a file must not take the place of: as root, that would be the
// end of /dev/null. A FIFO without a reader is an error.
func writeInPlace(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
