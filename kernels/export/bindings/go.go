// Package @name@ is a compiled network: Load reads its weights, Run computes.
//
// It links ../lib@name@.a, which "make" in this folder builds.
package @name@

/*
#cgo CFLAGS: -I${SRCDIR}/..
#cgo LDFLAGS: ${SRCDIR}/../lib@name@.a -lm -lpthread
#include <stdlib.h>
#include "@name@.h"

static int run_(const @name@_model *model_, @C_PARAMETERS@) {
  const void *const inputs_[] = {@C_GIVEN@};
  void *const outputs_[] = {@C_TAKEN@};
  return @name@_run(model_, inputs_, outputs_);
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// Error has the library's code and words.
type Error struct {
	Code int
	What string
}

func (e *Error) Error() string { return e.What }

func checked(code C.int, what string) error {
	if code == 0 {
		return nil
	}
	return &Error{int(code), what + ": " + C.GoString(C.@name@_error_text(code))}
}

func fits(name string, wanted, got int) error {
	if wanted == got {
		return nil
	}
	return &Error{C.@NAME@_ERROR_ARGUMENT, fmt.Sprintf("%s has %d elements, got %d", name, wanted, got)}
}

// Model is the network with its weights. Goroutines may share it.
type Model struct {
	handle *C.@name@_model
	lock   sync.RWMutex
}

// Load gives the model with the weights of a file; each call uses so many threads.
func Load(path string, threads int) (*Model, error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	var code C.int
	handle := C.@name@_load(text, &code)
	if handle == nil {
		return nil, checked(code, path)
	}
	if err := checked(C.@name@_set_threads(handle, C.int(threads)), "@name@_set_threads"); err != nil {
		C.@name@_free(handle)
		return nil, err
	}
	model := &Model{handle: handle}
	runtime.SetFinalizer(model, (*Model).Close)
	return model, nil
}

// Close gives the memory back; a closed model computes no more.
func (m *Model) Close() {
	m.lock.Lock()
	defer m.lock.Unlock()
	C.@name@_free(m.handle)
	m.handle = nil
}

// Run computes the outputs from the inputs, whose elements are in C order.
func (m *Model) Run(@PARAMETERS@) (@RESULTS@, err error) {
@FITS@
	m.lock.RLock()
	defer m.lock.RUnlock()
@ROOM@
	if err = checked(C.run_(m.handle, @POINTERS@), "@name@_run"); err != nil {
		return @NILS@, err
	}
	return @NAMES@, nil
}
