//! The model @name@: `Model::load(path, threads)` reads its weights, `run` computes. Link with lib@name@.a.
#![allow(dead_code)]
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fmt;

/// One of the model's inputs or outputs, as the C library describes it.
#[repr(C)]
struct Array {
    name: *const c_char,
    dtype: c_int,
    ndim: c_int,
    shape: *const i64,
    bytes: usize,
}

#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

extern "C" {
    static @name@_inputs: [Array; @COUNT_IN@];
    static @name@_outputs: [Array; @COUNT_OUT@];
    fn @name@_load(path: *const c_char, error: *mut c_int) -> *mut Opaque;
    fn @name@_free(model: *mut Opaque);
    fn @name@_set_threads(model: *mut Opaque, threads: c_int) -> c_int;
    fn @name@_run(model: *const Opaque, inputs: *const *const c_void, outputs: *const *mut c_void) -> c_int;
    fn @name@_error_text(error: c_int) -> *const c_char;
}

/// What went wrong: the library's code (that of a wrong argument for a wrong length) and words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: i32,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

fn checked(code: c_int, what: &str) -> Result<(), Error> {
    if code == 0 {
        return Ok(());
    }
    let words = unsafe { CStr::from_ptr(@name@_error_text(code)) }.to_string_lossy();
    Err(Error { code, message: format!("{what}: {words}") })
}

fn fits<T>(values: &[T], array: &Array) -> Result<(), Error> {
    let wanted = array.bytes / std::mem::size_of::<T>();
    if values.len() == wanted {
        return Ok(());
    }
    let name = unsafe { CStr::from_ptr(array.name) }.to_string_lossy();
    Err(Error { code: 1, message: format!("{name} has {wanted} elements, got {}", values.len()) })
}

/// The network with its weights. Threads may share it: `run` does not change it.
pub struct Model {
    handle: *mut Opaque,
}

unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { @name@_free(self.handle) }
    }
}

impl Model {
    /// The model with the weights of a file; each call uses so many threads.
    pub fn load(path: &str, threads: i32) -> Result<Model, Error> {
        let text = CString::new(path).map_err(|e| Error { code: 1, message: e.to_string() })?;
        let mut code: c_int = 0;
        let handle = unsafe { @name@_load(text.as_ptr(), &mut code) };
        if handle.is_null() {
            checked(code, path)?;
        }
        let model = Model { handle };
        checked(unsafe { @name@_set_threads(handle, threads) }, "@name@_set_threads")?;
        Ok(model)
    }

    /// Computes the outputs from the inputs, whose elements are in C order.
    pub fn run(&self, @PARAMETERS@) -> Result<@RESULT@, Error> {
@FITS@
@ROOM@
        let inputs_ = [@GIVEN@];
        let outputs_ = [@TAKEN@];
        checked(unsafe { @name@_run(self.handle, inputs_.as_ptr(), outputs_.as_ptr()) }, "@name@_run")?;
        Ok(@RESULTS@)
    }
}
