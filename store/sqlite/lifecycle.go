package sqlite

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sojourn-queue/sojourn"
)

// lifecycle tells whether a store accepts calls: until it is closed, or an error of the disk or the
// file has broken it.
type lifecycle struct {
	path    string // of the database: absolute, without symbolic links; ":memory:"
	closed  chan struct{}
	closing sync.Once
	begins  sync.Mutex            // held while a call begins, which Close then waits for
	calls   sync.WaitGroup        // calls under way, which use the files
	broken  atomic.Pointer[error] // why all work is refused
}

// begin lets a call use the files until it calls l.calls.Done, or refuses it.
func (l *lifecycle) begin() error {
	l.begins.Lock()
	defer l.begins.Unlock()
	if err := l.refusal(); err != nil {
		return err
	}
	l.calls.Add(1)
	return nil
}

// end refuses new calls and waits for those under way.
func (l *lifecycle) end() {
	l.begins.Lock()
	close(l.closed)
	l.begins.Unlock()
	l.calls.Wait()
}

// fail refuses all work from now on. The first cause counts.
func (l *lifecycle) fail(cause error) { l.broken.CompareAndSwap(nil, &cause) }

// refusal is the reason why the DB refuses all work. After an I/O error the state of the disk is
// unknown: a second fsync on the same file may report success for pages that the kernel has
// dropped. Only a restart, which reads the file again, may continue.
func (l *lifecycle) refusal() error {
	select {
	case <-l.closed:
		return &sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Message: "the store is closed", Err: sojourn.ErrClosed}
	default:
	}
	cause := l.broken.Load()
	if cause != nil && errors.Is(*cause, errMoved) {
		return &sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Err: fmt.Errorf("%w: %w", sojourn.ErrClosed, *cause),
			Message: fmt.Sprintf("the store refuses all work, because %v and what it writes would be lost; stop every process that uses %s, "+
				"put the file back or restore a backup, then start again", *cause, l.path)}
	}
	if cause != nil && errors.Is(*cause, errDamaged) {
		return &sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Err: fmt.Errorf("%w: %w", sojourn.ErrClosed, *cause),
			Message: fmt.Sprintf("the store refuses all work, because the check after an unclean stop has found damage: %v", *cause)}
	}
	if cause != nil {
		return &sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Err: fmt.Errorf("%w: %w", sojourn.ErrClosed, *cause),
			Message: fmt.Sprintf("the store refuses all work after an error of the disk or file (%v); look after %s, then open it again", *cause, l.path)}
	}
	return nil
}
