package sqlite

import (
	"crypto/rand"
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// A process must have one copy of SQLite for one file. A second copy does not know the locks of the
// first one, and drops them all when it closes the file, because POSIX locks belong to the process.
// So the store's copy gives each connection, whichever Go package opens it, an SQL function: a
// connection that cannot call it, or gets another answer from it, belongs to another copy.

// mainFunction has no arguments. It returns libraryWord, a blank and the path of the connection's
// main database.
const mainFunction = "sojourn_main"

// libraryWord is new with every process, so that nothing that was written elsewhere can repeat it.
var libraryWord = rand.Text()

// markLibrary makes each connection that is opened from now on know the function. It runs when the
// first store opens, not at the program's start, because it ends the time in which others may
// configure SQLite.
var markLibrary = sync.OnceValue(func() error {
	tls := libc.NewTLS() // for the life of the process, as are the callbacks registered with it
	if code := lib.Xsqlite3_auto_extension(tls, pointer(addMain)); code != lib.SQLITE_OK {
		return fmt.Errorf("sqlite: auto_extension: code %d", code)
	}
	return nil
})

// addMain adds the functions to a new connection.
func addMain(tls *libc.TLS, db, _, _ uintptr) int32 {
	if code := addFunction(tls, db, mainFunction, 0, pointer(callMain)); code != lib.SQLITE_OK {
		return code
	}
	return addFunction(tls, db, walIndexFunction, 1, pointer(callWALIndex))
}

func addFunction(tls *libc.TLS, db uintptr, name string, args int32, call uintptr) int32 {
	text, err := libc.CString(name)
	if err != nil {
		return lib.SQLITE_NOMEM
	}
	defer libc.Xfree(tls, text)
	return lib.Xsqlite3_create_function_v2(tls, db, text, args, lib.SQLITE_UTF8|lib.SQLITE_DIRECTONLY, 0, call, 0, 0, 0)
}

// callMain answers a call of the function.
func callMain(tls *libc.TLS, call uintptr, _ int32, _ uintptr) {
	path := lib.Xsqlite3_db_filename(tls, lib.Xsqlite3_context_db_handle(tls, call), 0)
	text, err := libc.CString(libraryWord + " " + libc.GoString(path))
	if err != nil {
		lib.Xsqlite3_result_error_nomem(tls, call)
		return
	}
	defer libc.Xfree(tls, text)
	lib.Xsqlite3_result_text(tls, call, text, -1, ^uintptr(0)) // SQLite copies it
}

// pointer returns the address of a function for C. The function must be declared, not a closure. It
// relies on the representation that the whole translation of SQLite relies on: a function value
// points to a pointer to code.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }
