//go:build unix && !solaris && !illumos && !aix

package fsm

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock of an open file without waiting. The lock ends with
// the file's last descriptor, so a crash never leaves one behind.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
