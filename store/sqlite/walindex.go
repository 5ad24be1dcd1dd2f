package sqlite

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// walIndex is the header of SQLite's wal-index (the -shm file), which all processes that use the
// database share: https://sqlite.org/walformat.html. Every commit of any process changes it. It is
// read through SQLite's own mapping. The file itself must not be opened, because closing it again
// would drop the locks that SQLite holds on it: POSIX locks belong to the process.
type walIndex struct{ header *walHeader }

// walHeader is the first copy of the header: a counter of transactions, the number of valid frames,
// the checksum of the last one, and the salts of the log.
type walHeader [12]uint32

// walIndexSize is the size of one region of the wal-index.
const walIndexSize = 32 << 10

// walIndexFunction is an SQL function that returns the address of a connection's wal-index. Its
// argument must be walIndexWord, which prevents calls by other code.
const walIndexFunction = "sojourn_wal_index"

var walIndexWord = rand.Text()

// read returns the header. Two headers are equal only if nothing was committed between them. A
// header that is read while another process writes it differs from both of its neighbours, which
// costs at most one fsync that was not needed.
func (x walIndex) read() (h walHeader) {
	for i := range h {
		h[i] = atomic.LoadUint32(&x.header[i])
	}
	return h
}

// openWALIndex finds the wal-index of a connection in WAL mode. It stays valid as long as the
// connection is open.
func openWALIndex(c *conn) (walIndex, error) {
	st, err := c.raw.Prepare("select " + walIndexFunction + "(?1), (select count(*) from sqlite_schema)")
	if err != nil {
		return walIndex{}, err
	}
	defer st.Finalize()
	st.BindText(1, walIndexWord)
	if _, err := st.Step(); err != nil {
		return walIndex{}, err
	}
	address, err := strconv.ParseUint(st.ColumnText(0), 10, 64)
	if err != nil || address == 0 {
		return walIndex{}, fmt.Errorf("sqlite: the index of the write-ahead log is not in shared memory: %q", st.ColumnText(0))
	}
	return walIndex{(*walHeader)(addressed(uintptr(address)))}, nil
}

// callWALIndex answers a call of walIndexFunction.
func callWALIndex(tls *libc.TLS, call uintptr, _ int32, args uintptr) {
	word := lib.Xsqlite3_value_text(tls, *(*uintptr)(addressed(args)))
	if word == 0 || libc.GoString(word) != walIndexWord {
		lib.Xsqlite3_result_null(tls, call)
		return
	}
	out := tls.Alloc(8)
	defer tls.Free(8)
	pointed := (*uintptr)(addressed(out))
	db := lib.Xsqlite3_context_db_handle(tls, call)
	code := lib.Xsqlite3_file_control(tls, db, 0, lib.SQLITE_FCNTL_FILE_POINTER, out)
	if code != lib.SQLITE_OK {
		lib.Xsqlite3_result_error_code(tls, call, code)
		return
	}
	file := *pointed
	methods := (*lib.Tsqlite3_io_methods)(addressed((*lib.Tsqlite3_file)(addressed(file)).FpMethods))
	if *pointed = 0; methods.FiVersion < 2 || methods.FxShmMap == 0 {
		lib.Xsqlite3_result_null(tls, call)
		return
	}
	shmMap := function[func(tls *libc.TLS, file uintptr, region, size, extend int32, out uintptr) int32](methods.FxShmMap)
	if code := shmMap(tls, file, 0, walIndexSize, 0, out); code != lib.SQLITE_OK {
		lib.Xsqlite3_result_error_code(tls, call, code)
		return
	}
	lib.Xsqlite3_result_int64(tls, call, int64(*pointed))
}

// addressed is memory of SQLite, which Go's garbage collector neither moves nor frees.
func addressed(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// function returns the Go function at an address of C; see pointer.
func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) }
